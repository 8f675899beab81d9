"""Claims a queued task for a local agent and creates its turn and worktree."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from interlock import CallError, ConflictError, KernelError
from interlock.git.errors import RefusedError
from interlock.git.repository import Repository
from interlock.git.worktree import Worktree, add_worktree
from interlock.system.agents import Sandbox
from interlock.system.errors import AnotherVersionError, FencedError, HeldError, UnknownRecordError
from interlock.system.records import Lease, Records
from interlock.system.tables import Record
from interlock.system.tables import RecordData as Data
from interlock.systems.tasks.claim_names import ClaimNames, claim_names
from interlock.systems.tasks.identities import ensure_identity, identity_id
from interlock.systems.tasks.launch_spec import PreparedClaim
from interlock.systems.tasks.machines.deadline import Complexity, Deadline, Scope, deadline
from interlock.systems.tasks.machines.effects import ASSIGNMENT
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.limits import REASON_LENGTH_MAX
from interlock.systems.tasks.machines.task.names import State, Trigger
from interlock.systems.tasks.machines.turn.table import Trigger as TurnTrigger
from interlock.systems.tasks.work_folders import kill_leftovers_of

log = logging.getLogger(__name__)

PAGE = 50  # tasks of a queue that are read at one time
HISTORY_MAX = 50  # closed tasks of a backlog whose times count for a deadline
QUEUE_READ_MAX = 2_000  # tasks of a queue that are looked at for one claim
# The errors by which a claim is refused.
REFUSALS = (AnotherVersionError, CallError, ConflictError, FencedError, HeldError)
NOT_CLAIMED = "%s is not claimed: %s"


def queued_tasks(records: Records, root: str, queue: str) -> Iterator[Record[TaskData]]:
    """Yield the open tasks of a queue in their order, at most QUEUE_READ_MAX of them.

    A task that cannot be read is logged and left out.
    """
    for start in range(0, QUEUE_READ_MAX, PAGE):
        page = records.views.queue(root, queue, start, PAGE)
        for record_id in page:
            try:
                yield records.views.record(record_id)
            except ValueError:  # it is damaged
                log.exception("%s cannot be claimed", record_id)
            except CallError:
                continue
        if len(page) < PAGE:
            return


def is_local(data: TaskData) -> bool:
    """Whether a task names an agent's command, and its repository is on this computer."""
    return bool(data.get("agent")) and Path(str(data["repo"])).is_dir()


def claim(
    records: Records, record: Record[TaskData], *, agent: str, sandbox: str = ""
) -> Lease[TaskData] | None:
    """Claim a task for an agent, with a lease. Return None if it cannot be claimed now.

    `sandbox` is the level of the agent's sandbox, if it runs already.
    """
    data, claimer = record.data, _claimer(records, agent, sandbox)
    name, command = str(data["agent_name"]), str(data["agent"])
    try:
        payload = claim_payload(records, record, claimer, name=name, command=command)
    except REFUSALS as refusal:
        log.debug(NOT_CLAIMED, record.id, refusal)
        return None
    payload |= deadline_fields(records, record)
    records = records.named(ASSIGNMENT.name)
    try:
        return records.fire(record, Trigger.CLAIMED, payload, leased_by=records.holder).granted
    except REFUSALS as refusal:
        log.debug(NOT_CLAIMED, record.id, refusal)
        return None


def claim_payload(
    records: Records, record: Record[TaskData], claimer: Data, *, name: str, command: str
) -> dict[str, Any]:
    """Return the payload of a claim without its deadline: the claimer and its identity.

    An identity that is new is created. If the task's table refuses the claim now, this raises what
    firing it would raise, before it creates an identity.
    """
    role = str(record.data["role"])
    payload = _admitted_claim(records, record, claimer, name=name, command=command)
    ensure_identity(records, record.root, name=name, role=role, command=command)
    return payload


def may_be_claimed(records: Records, record: Record[TaskData], *, agent: str) -> bool:
    """Whether the task's table lets this agent of this computer claim it now."""
    name, command = str(record.data["agent_name"]), str(record.data["agent"])
    try:
        _admitted_claim(records, record, _claimer(records, agent), name=name, command=command)
    except REFUSALS:
        return False
    return True


def _claimer(records: Records, agent: str, sandbox: str = "") -> dict[str, str]:
    host, level = records.settings.host, sandbox or Sandbox.level(records.settings)
    return {"owner": host, "agent": agent, "host": host, "sandbox": level}


def _admitted_claim(
    records: Records, record: Record[TaskData], claimer: Data, *, name: str, command: str
) -> dict[str, Any]:
    """Return the payload of a claim; raise what firing it would raise."""
    role = str(record.data["role"])
    identity = identity_id(record.root, name=name, role=role, command=command)
    payload = {**claimer, "identity": identity, "at_ms": records.now_ms()}
    records.check(record, Trigger.CLAIMED, payload)
    return payload


def deadline_fields(records: Records, record: Record[TaskData]) -> dict[str, Any]:
    """Return how long a claim of a task may take and why, as fields of the claim's payload."""
    limit = deadline_of(records, record)
    return {"deadline_s": limit.seconds, "deadline_reasons": list(limit.reasons)}


def deadline_of(records: Records, record: Record[TaskData]) -> Deadline:
    """Return how long a task may take: as it says, or from its size and from earlier tasks.

    Of the last HISTORY_MAX closed tasks of its backlog, those of its role count.
    """
    data, views = record.data, records.views
    if asked_s := data.get("deadline_s"):
        return Deadline(int(asked_s), 1.0, ("set by the task",))
    machine = records.machine("task")
    closed = views.ids(machine, root=record.root, states=[State.CLOSED], newest=True)
    others: Iterator[Record[TaskData]] = views.each_record(islice(closed, HISTORY_MAX))
    return deadline(
        scope=Scope(data["scope"]),
        complexity=Complexity(data["complexity"]),
        model=data.get("model"),
        owned_files=len(data["owned_files"]),
        durations_s=[
            other.data.get("took_s") or 0 for other in others if other.data["role"] == data["role"]
        ],
    )


def prepare_claim(records: Records, task: Lease[TaskData], *, agent: str) -> PreparedClaim:
    """Create the turn and the worktree of a claim. Raises GitError or OSError."""
    names, data = claim_names(task.record), task.record.data
    folder = names.worktree(records.settings, session=agent if data["session"] else "")
    where = {"repo": data["repo"], "target": data["target"], "worktree": str(folder)}
    begin_turn(records, names, agent=agent, host=records.settings.host, **where)
    _kill_leftovers_of_previous_claim(records, names)
    tree = _add_worktree(names, data, folder)
    return PreparedClaim(
        task_key=task.key,
        task_token=task.token,
        turn=names.turn,
        repo=str(data["repo"]),
        worktree=str(tree.folder),
        branch=tree.branch,
        base=tree.base,
    )


def begin_turn(records: Records, names: ClaimNames, **fields: str) -> None:
    """Create the turn of a claim, and report to it that the task is claimed."""
    turn = {"task": names.task, "number": names.number, **fields}
    records = records.named(ASSIGNMENT.name)
    records.create("turn", names.turn, turn)
    records.fire(names.turn, TurnTrigger.TASK_CLAIMED)


def fail_claim(records: Records, task: Lease[TaskData], failure: Exception) -> None:
    """Fail the turn and the task of a claim whose agent could not be started.

    If the store refuses, the lease lapses, and the orphan sweep releases the task.
    """
    reason, turn = str(failure)[:REASON_LENGTH_MAX], claim_names(task.record).turn
    payload = {"reason": reason, "code": "spawn_error"}
    # Another try cannot help before a person has changed the repository, the task or a setting.
    final = {"final": isinstance(failure, RefusedError | CallError)}
    with suppress(KernelError):
        records.named(ASSIGNMENT.name).fire(turn, TurnTrigger.TASK_FAILED, payload)
    with suppress(KernelError):
        fire_as_holder(records, task, Trigger.FAILED, {**payload, **final})


def fire_as_holder(records: Records, lease: Lease, trigger: str, payload: Data) -> None:
    """Report the outcome of an effect, as the holder of its lease."""
    op_id, held = f"{lease.token}:{trigger}", (lease.suffix, lease.token)
    records.named(lease.name).fire(lease.record, trigger, payload, op_id=op_id, held=held)


def _kill_leftovers_of_previous_claim(records: Records, names: ClaimNames) -> None:
    with suppress(UnknownRecordError):
        turn = records.views.record(ClaimNames(names.task, names.number - 1).turn)
        if agent := turn.data.get("agent"):
            kill_leftovers_of(records, str(agent))


def _add_worktree(names: ClaimNames, data: TaskData, folder: Path) -> Worktree:
    repository = Repository.open(Path(str(data["repo"])))
    # New: a claim has one worktree once. One of this name is left from a task of another store.
    base = str(data["target"])
    return add_worktree(repository, branch=names.branch, folder=folder, base=base, new=True)
