"""Clears away what a turn leaves on this machine: its worktree, and a branch that is merged."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from interlock.kernel.errors import CallError, UnknownRecordError
from interlock.kernel.record import Record
from interlock.kernel.table import Data
from interlock.workers.engine.work import NotYetError, Outcome, Work
from interlock.workers.gateways.git.branch import delete_branch
from interlock.workers.gateways.git.changes import commit_all
from interlock.workers.gateways.git.errors import RefusedError
from interlock.workers.gateways.git.repository import Repository
from interlock.workers.gateways.git.worktree import remove_worktree, worktrees
from interlock.workers.tasks.claims import party
from interlock.workers.tasks.leftovers import kill_leftovers_of
from interlock.workers.tasks.ownership import IDENTITY
from interlock.workers.tasks.workplace import AT_WORK, Workplace

PARTY = "reaping"


def reaping(work: Work) -> Outcome | None:
    """Remove the worktree; partial work is in a commit of its branch first, which then stays."""
    record = work.dispatch.views.record(work.record.id)
    if record.state == "idle":
        _left_alone(work, record)
        return None
    if record.state not in ("completing", "failed"):
        if not _at_work(work, record.data):
            _fire(work, record, "task_failed", {"reason": "nobody led it on"})
        return None
    data = record.data
    _wait_for_the_end(work, data)
    _wait_for_the_judges(work, data)
    if data.get("agent"):
        kill_leftovers_of(work.dispatch, str(data["agent"]))
    if data.get("repo") and data.get("worktree"):
        _cleared(work, data, accepted=record.state == "completing")
    return Outcome("agent_reaped")


def _wait_for_the_end(work: Work, data: Data) -> None:
    """Refuse while the turn's agent may live: its process is sure to be gone with its lease."""
    if not data.get("agent"):
        return
    with suppress(UnknownRecordError):
        agent = work.dispatch.views.record(str(data["agent"]))
        if agent.data["session"] and agent.data["task"] != data["task"]:
            return  # it went on to another task, elsewhere
        ended = agent.state == "idle" or (agent.state == "dead" and not agent.entries)
        if not ended:
            raise NotYetError(f"{agent.id} is {agent.state}, and its process may be there")


def _wait_for_the_judges(work: Work, data: Data) -> None:
    """Refuse while the task is still about this very claim: its judges need the worktree."""
    if _at_work(work, data):
        raise NotYetError(f"{data['task']} is judged, and its work is in the worktree")


def _at_work(work: Work, data: Data) -> bool:
    """Whether the task is still about the claim that a turn is about."""
    try:
        task = work.dispatch.views.record(str(data["task"]))
    except UnknownRecordError:
        return False
    claim = task.data.get("claim") or {}
    return task.state in AT_WORK and claim.get("number") == data["number"]


def _left_alone(work: Work, record: Record) -> None:
    """Lead on a turn that nobody began, so that it comes to its end."""
    _fire(work, record, "task_claimed", {})
    _fire(work, record, "task_failed", {"reason": "nobody began it"})


def _fire(work: Work, record: Record, trigger: str, payload: Data) -> None:
    with suppress(CallError):
        work.dispatch.fire(record.id, trigger, payload, party(PARTY, trigger, record.id))


def _cleared(work: Work, data: Data, *, accepted: bool) -> None:
    try:
        repository = Repository.open(Path(str(data["repo"])))
    except RefusedError:
        return  # the repository is gone, and its worktrees with it
    folder = Path(str(data["worktree"])).resolve()
    found = next((tree for tree in worktrees(repository) if tree.folder == folder), None)
    if found is not None:
        if found.present and not accepted:
            with suppress(RefusedError):
                message = f"Work that was not accepted\n\nTask: {data['task']}\n"
                commit_all(repository, found, message=message, identity=IDENTITY)
        if found.present:
            remove_worktree(repository, folder, force=True)
        with suppress(RefusedError):
            # Nothing on it that its target lacks: nobody will look for it.
            delete_branch(repository, found.branch, target=str(data["target"]), force=False)
    courts = Workplace(str(data["task"]), int(data["number"])).court("")
    for tree in worktrees(repository):
        if tree.branch.startswith(courts):
            # Of a judge that was lost, and whose task ended before the next.
            remove_worktree(repository, tree.folder, force=True)
            delete_branch(repository, tree.branch, target=str(data["target"]), force=True)
    _forget_tries(work, repository, data)


def _forget_tries(work: Work, repository: Repository, data: Data) -> None:
    """Delete what earlier claims of a closed task had saved: nobody will go on with it.

    Whichever is last, the task's end or the removal of a try's worktree, finds both done.
    """
    try:
        task = work.dispatch.views.record(str(data["task"]))
    except UnknownRecordError:
        return
    if task.state != "closed":
        return
    tries = {Workplace(task.id, number).branch for number in range(1, int(data["number"]) + 1)}
    for tree in worktrees(repository):
        if tree.branch in tries and not tree.present:
            with suppress(RefusedError):
                delete_branch(repository, tree.branch, target=str(data["target"]), force=True)
