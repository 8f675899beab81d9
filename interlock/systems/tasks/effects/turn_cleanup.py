"""Removes what a turn leaves on this computer, once its work is saved: its worktree, its branch."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from interlock import CallError, EffectWork, Outcome
from interlock.git.branch import delete_branch, put_away, saved_ref
from interlock.git.errors import GitError, RefusedError
from interlock.git.refs import HEADS, read_refs
from interlock.git.repository import COMMITTER, Repository
from interlock.git.saved_work import leave_worktree, save_work
from interlock.git.worktree import Worktree, remove_worktree, worktrees
from interlock.system.agents import Sandbox
from interlock.system.errors import UnknownRecordError
from interlock.system.records import NotYetError
from interlock.system.tables import Record
from interlock.system.tables import RecordData as Data
from interlock.systems.tasks.claim_names import CLAIM_STATES, ClaimNames
from interlock.systems.tasks.machines.agent.payloads import AgentData
from interlock.systems.tasks.machines.agent.table import State as AgentState
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import State
from interlock.systems.tasks.machines.turn.table import State as TurnState
from interlock.systems.tasks.machines.turn.table import Trigger as TurnTrigger
from interlock.systems.tasks.machines.turn.table import TurnData
from interlock.systems.tasks.work_folders import kill_leftovers_of

WHY_LENGTH_MAX = 2_000


def turn_cleanup(work: EffectWork[TurnData]) -> Outcome | None:
    """Remove the worktree of a turn that has ended. All work in it is brought to its branch first.

    A worktree whose work cannot be on a branch stays, and the turn says where it is. A turn that
    was abandoned is ended here, and cleaned up after that.
    """
    record: Record[TurnData] = work.records.views.record(work.record.id)
    if record.state == TurnState.IDLE:
        _end_unstarted_turn(work, record)
        return None
    if record.state not in (TurnState.COMPLETING, TurnState.FAILED):
        if not _is_current_claim(work, record.data):
            _fail(work, record, "its task went on without it")
        return None
    data = record.data
    _check_agent_has_ended(work, data)
    _check_verification_has_ended(work, data)
    if data.get("agent"):
        kill_leftovers_of(work.records, str(data["agent"]))
    left: Data = {}
    if data.get("repo") and data.get("worktree"):
        left = _clean_repository(work, data, accepted=record.state == TurnState.COMPLETING)
    return Outcome(TurnTrigger.AGENT_REAPED, left)


def _check_agent_has_ended(work: EffectWork[TurnData], data: TurnData) -> None:
    """Raise NotYetError while the agent's process may still run.

    It is gone when the agent is dead and owes nothing: its lease and the grace are over then.
    """
    if not data.get("agent"):
        return
    with suppress(UnknownRecordError):
        agent: Record[AgentData] = work.records.views.record(str(data["agent"]))
        if agent.data["session"] and agent.data["task"] != data["task"]:
            return  # The session works on another task, in another worktree.
        ended = agent.state == AgentState.IDLE or (
            agent.state == AgentState.DEAD and not agent.entries
        )
        if not ended:
            raise NotYetError(f"{agent.id} is {agent.state}, its process may still run")


def _check_verification_has_ended(work: EffectWork[TurnData], data: TurnData) -> None:
    """Raise NotYetError while the task has this claim, whose verification needs the worktree."""
    if _is_current_claim(work, data):
        raise NotYetError(f"{data['task']} still needs the worktree for its verification")


def _is_current_claim(work: EffectWork[TurnData], data: TurnData) -> bool:
    """Whether the turn belongs to the current claim of its task."""
    try:
        task: Record[TaskData] = work.records.views.record(data["task"])
    except UnknownRecordError:
        return False
    claim = task.data.get("claim", {})
    return task.state in CLAIM_STATES and claim.get("number") == data["number"]


def _end_unstarted_turn(work: EffectWork[TurnData], record: Record[TurnData]) -> None:
    """Advance a turn that never started, so that it can be cleaned up."""
    with suppress(CallError):
        work.records.fire(record.id, TurnTrigger.TASK_CLAIMED)
    _fail(work, record, "it was never started")


def _fail(work: EffectWork[TurnData], record: Record[TurnData], reason: str) -> None:
    with suppress(CallError):
        work.records.fire(record.id, TurnTrigger.TASK_FAILED, {"reason": reason})


def _clean_repository(work: EffectWork[TurnData], data: TurnData, *, accepted: bool) -> Data:
    """Remove the worktree and the branches of a turn; return where work of it is left."""
    folder = Path(str(data["worktree"])).resolve()
    try:
        repository = Repository.open(
            Path(str(data["repo"])), sandbox=Sandbox.open(work.records.settings)
        )
    except RefusedError as refusal:
        return _stays(work, folder, refusal) if folder.is_dir() else {}
    trees = worktrees(repository)
    own = next((tree for tree in trees if tree.folder == folder), None)
    left: Data = {}
    if own is not None:
        left = _remove_worktree_of_claim(work, repository, own, accepted=accepted)
    _remove_review_checkouts(repository, data, trees)
    _delete_branches(work, repository, data, own, trees)
    if own is not None and not left:
        places = (HEADS + own.branch, saved_ref(own.branch))
        refs = read_refs(repository, *places)
        left = next(({"ref": place} for place in places if place in refs), {})
    return left


def _remove_worktree_of_claim(
    work: EffectWork[TurnData], repository: Repository, own: Worktree, *, accepted: bool
) -> Data:
    """Save the work in a worktree and remove it; return where it is if it has to stay.

    Raises NotYetError while the work cannot be saved, as on a full disk.
    """
    what = "Files left beside work that was accepted" if accepted else "Work that was not accepted"
    message = f"{what}\n\nTask: {work.record.data['task']}\n"
    try:
        save_work(repository, own, message=message, identity=COMMITTER)
        remove_worktree(repository, own.folder, force=True)
    except RefusedError as refusal:
        with suppress(RefusedError):
            leave_worktree(repository, own, target=str(work.record.data["target"]))
        return _stays(work, own.folder, refusal)
    except (GitError, OSError) as error:
        problem = f"the work in {own.folder} cannot be saved, so that folder stays: {error}"
        raise NotYetError(problem) from error
    return {}


def _stays(work: EffectWork[TurnData], folder: Path, refusal: RefusedError) -> Data:
    why = str(refusal)[:WHY_LENGTH_MAX]
    work.audit("worktree_kept", {"worktree": str(folder), "reason": why})
    return {"worktree": str(folder), "why": why}


def _remove_review_checkouts(
    repository: Repository, data: TurnData, trees: tuple[Worktree, ...]
) -> None:
    """Remove checkouts of verifications that were lost before they could remove them."""
    prefix = ClaimNames(str(data["task"]), int(data["number"])).review_branch("")
    for tree in trees:
        if tree.branch.startswith(prefix):
            remove_worktree(repository, tree.folder, force=True)
            delete_branch(repository, tree.branch, target=str(data["target"]), force=True)


def _delete_branches(
    work: EffectWork[TurnData],
    repository: Repository,
    data: TurnData,
    own: Worktree | None,
    trees: tuple[Worktree, ...],
) -> None:
    """Delete the branch of this claim if it is merged; of a closed task put all branches away.

    Each cleanup of the task tries it: the last one finds the task closed and all worktrees gone.
    """
    closed = _is_closed(work, str(data["task"]))
    numbers = range(1, int(data["number"]) + 1) if closed else ()
    claims = {ClaimNames(str(data["task"]), number).branch for number in numbers}
    for tree in trees:
        # Another cleanup may have removed the worktree after the list was read.
        if tree == own or (tree.branch in claims and not (tree.present and tree.folder.is_dir())):
            target = str(data["target"])
            with suppress(RefusedError):
                if tree.branch in claims:
                    put_away(repository, tree.branch, target=target)
                else:  # a branch with commits that the target lacks is refused, and stays
                    delete_branch(repository, tree.branch, target=target, force=False)


def _is_closed(work: EffectWork[TurnData], task: str) -> bool:
    with suppress(UnknownRecordError):
        return bool(work.records.views.record(task).state == State.CLOSED)
    return False
