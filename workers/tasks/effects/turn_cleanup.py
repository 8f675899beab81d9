"""Removes what a turn leaves on this computer: its worktree, and its branch if that is merged."""

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
from interlock.workers.gateways.git.repository import COMMITTER, Repository
from interlock.workers.gateways.git.worktree import Worktree, remove_worktree, worktrees
from interlock.workers.tasks.calls import component_call
from interlock.workers.tasks.claim_names import CLAIM_STATES, ClaimNames
from interlock.workers.tasks.leftovers import kill_leftovers_of

COMPONENT = "turn_cleanup"


def turn_cleanup(work: Work) -> Outcome | None:
    """Remove the worktree of a turn that has ended. Partial work is committed to its branch first.

    A turn that was abandoned is ended here, and cleaned up after that.
    """
    record = work.dispatch.views.record(work.record.id)
    if record.state == "idle":
        _end_unstarted_turn(work, record)
        return None
    if record.state not in ("completing", "failed"):
        if not _is_current_claim(work, record.data):
            _fire(work, record, "task_failed", {"reason": "its task went on without it"})
        return None
    data = record.data
    _check_agent_has_ended(work, data)
    _check_verification_has_ended(work, data)
    if data.get("agent"):
        kill_leftovers_of(work.dispatch, str(data["agent"]))
    if data.get("repo") and data.get("worktree"):
        _clean_repository(work, data, accepted=record.state == "completing")
    return Outcome("agent_reaped")


def _check_agent_has_ended(work: Work, data: Data) -> None:
    """Raise NotYetError while the agent's process may still run.

    It is gone when the agent is dead and owes nothing: its lease and the grace are over then.
    """
    if not data.get("agent"):
        return
    with suppress(UnknownRecordError):
        agent = work.dispatch.views.record(str(data["agent"]))
        if agent.data["session"] and agent.data["task"] != data["task"]:
            return  # The session works on another task, in another worktree.
        ended = agent.state == "idle" or (agent.state == "dead" and not agent.entries)
        if not ended:
            raise NotYetError(f"{agent.id} is {agent.state}, its process may still run")


def _check_verification_has_ended(work: Work, data: Data) -> None:
    """Raise NotYetError while the task has this claim, whose verification needs the worktree."""
    if _is_current_claim(work, data):
        raise NotYetError(f"{data['task']} still needs the worktree for its verification")


def _is_current_claim(work: Work, data: Data) -> bool:
    """Whether the turn belongs to the current claim of its task."""
    try:
        task = work.dispatch.views.record(str(data["task"]))
    except UnknownRecordError:
        return False
    claim = task.data.get("claim") or {}
    return task.state in CLAIM_STATES and claim.get("number") == data["number"]


def _end_unstarted_turn(work: Work, record: Record) -> None:
    """Advance a turn that never started, so that it can be cleaned up."""
    _fire(work, record, "task_claimed", {})
    _fire(work, record, "task_failed", {"reason": "it was never started"})


def _fire(work: Work, record: Record, trigger: str, payload: Data) -> None:
    with suppress(CallError):
        call = component_call(COMPONENT, trigger, record.id)
        work.dispatch.fire(record.id, trigger, payload, call)


def _clean_repository(work: Work, data: Data, *, accepted: bool) -> None:
    try:
        repository = Repository.open(Path(str(data["repo"])))
    except RefusedError:
        return  # The repository is gone, and its worktrees with it.
    folder = Path(str(data["worktree"])).resolve()
    trees = worktrees(repository)
    own = next((tree for tree in trees if tree.folder == folder), None)
    if own is not None and own.present:
        _remove_worktree_of_claim(repository, data, own, accepted=accepted)
    _remove_review_checkouts(repository, data, trees)
    _delete_branches(work, repository, data, own, trees)


def _remove_worktree_of_claim(
    repository: Repository, data: Data, own: Worktree, *, accepted: bool
) -> None:
    if not accepted:
        with suppress(RefusedError):
            message = f"Work that was not accepted\n\nTask: {data['task']}\n"
            commit_all(repository, own, message=message, identity=COMMITTER)
    remove_worktree(repository, own.folder, force=True)


def _remove_review_checkouts(
    repository: Repository, data: Data, trees: tuple[Worktree, ...]
) -> None:
    """Remove checkouts of verifications that were lost before they could remove them."""
    prefix = ClaimNames(str(data["task"]), int(data["number"])).review_branch("")
    for tree in trees:
        if tree.branch.startswith(prefix):
            remove_worktree(repository, tree.folder, force=True)
            delete_branch(repository, tree.branch, target=str(data["target"]), force=True)


def _delete_branches(
    work: Work,
    repository: Repository,
    data: Data,
    own: Worktree | None,
    trees: tuple[Worktree, ...],
) -> None:
    """Delete the branch of this claim if it is merged, and of a closed task those of all claims.

    Partial work that is saved on them is deleted with them. Each cleanup of the task tries it: the
    last one finds the task closed and all worktrees gone.
    """
    closed = _is_closed(work, str(data["task"]))
    numbers = range(1, int(data["number"]) + 1) if closed else ()
    claims = {ClaimNames(str(data["task"]), number).branch for number in numbers}
    for tree in trees:
        # Another cleanup may have removed the worktree after the list was read.
        if tree == own or (tree.branch in claims and not (tree.present and tree.folder.is_dir())):
            with suppress(RefusedError):
                # A branch with commits that the target lacks is refused without force, and kept.
                target = str(data["target"])
                delete_branch(repository, tree.branch, target=target, force=tree.branch in claims)


def _is_closed(work: Work, task: str) -> bool:
    with suppress(UnknownRecordError):
        return work.dispatch.views.record(task).state == "closed"
    return False
