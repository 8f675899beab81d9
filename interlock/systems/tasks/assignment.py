"""Gives open tasks to agents of this computer: to new ones, and to sessions that are idle."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from interlock import KernelError
from interlock.git.errors import GitError
from interlock.system.records import Lease, Records
from interlock.system.tables import Record
from interlock.systems.tasks.agent_slots import SLOT_AWAITED, SLOT_AWAITED_MS, Slot, take_slot
from interlock.systems.tasks.claim_names import ClaimNames, claim_names, claim_to_come
from interlock.systems.tasks.claims import (
    claim,
    fail_claim,
    fire_as_holder,
    is_local,
    may_be_claimed,
    prepare_claim,
    queued_tasks,
)
from interlock.systems.tasks.idle_sessions import IdleSessions, session_fields
from interlock.systems.tasks.launch_spec import PreparedClaim, TaskLaunchSpec
from interlock.systems.tasks.machines.agent.limits import LIMIT_S_MAX
from interlock.systems.tasks.machines.agent.payloads import AgentData
from interlock.systems.tasks.machines.agent.table import Trigger as AgentTrigger
from interlock.systems.tasks.machines.effects import ASSIGNMENT
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.limits import REASON_LENGTH_MAX
from interlock.systems.tasks.verification.judgeable import refuse_unjudgeable
from interlock.systems.tasks.verification.signals import InvalidSignalError
from interlock.systems.tasks.work_folders import delete_old_work_folders

SPAWN_LIMIT_S = 600  # an agent that does not work so long after its creation has failed to start
AFTER_DEADLINE_S = 120  # in which a supervisor learns of the deadline and ends its agent


def assign(records: Records, root: str) -> int:
    """Start agents for a backlog while this computer has slots; return the number of claims.

    A task that an idle session can do is left to it. If no slot is free, one of the other idle
    sessions is ended.
    """
    started, records = 0, records.named(ASSIGNMENT.name)
    # A folder that cannot be deleted now is tried again at the next assignment.
    with suppress(OSError):
        delete_old_work_folders(records.settings)
    sessions = IdleSessions(records)
    for queue in records.views.queues(root):
        for record in queued_tasks(records, root, queue):
            if not is_local(record.data) or sessions.leave(record):
                continue
            slot = take_slot(records.settings)
            if slot is None:
                if not may_be_claimed(records, record, agent=claim_to_come(record).agent):
                    continue
                sessions.end_one()
                _note_that_slots_are_taken(records, record)
                break
            try:
                started += _claim_and_start(records, record, slot)
            finally:
                slot.close()
    return started


def _note_that_slots_are_taken(records: Records, record: Record[TaskData]) -> None:
    """Note at the first task of a queue that it waits for a slot, again in each period."""
    settings = records.settings
    period = records.now_ms() // SLOT_AWAITED_MS
    detail = {"host": settings.host, "slots": settings.agents_max}
    op_id = f"{SLOT_AWAITED}:{record.id}:{record.version}:{settings.host}:{period}"
    with suppress(KernelError):
        records.note(record, SLOT_AWAITED, detail, op_id=op_id)


def _claim_and_start(records: Records, record: Record[TaskData], slot: Slot) -> bool:
    task = claim(records, record, agent=claim_to_come(record).agent)
    if task is None:
        return False
    slot.give_to(claim_names(task.record).agent, session_fields(task.record.data))
    _start_agent(records, task, slot)
    return True


def _start_agent(records: Records, task: Lease[TaskData], slot: Slot) -> None:
    """Create agent, turn and worktree, and start the supervisor.

    If one of these steps fails, the task has failed, which is one of its tries.
    """
    names, data = claim_names(task.record), task.record.data
    agent = _create_agent(records, task, names)
    lease_ms = _agent_lease_ms(records)
    leases = {lease.key: (lease.token, lease_ms, 0) for lease in (task, agent)}
    renew = partial(records.leases.renew, leases)
    try:
        _refuse_unjudgeable(records, task)
        with renewing(renew, every_s=lease_ms / 3_000):
            prepared = prepare_claim(records, task, agent=names.agent)
        spec = TaskLaunchSpec(
            key=agent.key,
            token=agent.token,
            work_folder=str(names.work_folder(records.settings)),
            command=str(data["agent"]),
            stream=str(data["stream"]),
            session=bool(data["session"]),
            claim=prepared,
        )
        spec.launch(
            "interlock.systems.tasks.supervisor",
            renew,
            every_s=lease_ms / 3_000,
            pass_fds=(slot.descriptor,),
        )
    except (GitError, OSError, InvalidSignalError) as failure:
        fail_claim(records, task, failure)
        reason = str(failure)[:REASON_LENGTH_MAX]
        payload = {"reason": reason, "code": "spawn_error"}
        with suppress(KernelError):
            fire_as_holder(records, agent, AgentTrigger.SPAWN_FAILED, payload)


def _refuse_unjudgeable(records: Records, task: Lease[TaskData]) -> None:
    """Refuse signals for a judge model that this computer, which verifies the work, has not."""
    signals = task.record.data["signals"]
    refuse_unjudgeable(records, signals, host=records.settings.host)


def _create_agent(records: Records, task: Lease[TaskData], names: ClaimNames) -> Lease:
    data = task.record.data
    claimed = data["claim"]
    agent = {
        "name": names.name,
        "role": data["role"],
        "command": data["agent"],
        "task": task.record.id,
        "identity": claimed["identity"],
        "session": data["session"],
        "spawn_limit_s": SPAWN_LIMIT_S,
        "idle_limit_s": data["idle_limit_s"],
        **data["abort_policy"],
    }
    if data.get("parent_agent"):
        agent["parent"] = data["parent_agent"]
    if data["stream"] == "plain":
        # Many commands print nothing before they end, so only the deadline limits their silence:
        # it comes first, and ends the agent.
        deadline_s = int(data.get("deadline_s") or claimed["deadline_s"])
        agent["progress_limit_s"] = min(deadline_s + AFTER_DEADLINE_S, LIMIT_S_MAX)
    return records.create("agent", names.agent, agent, leased_by=records.holder).granted


def _agent_lease_ms(records: Records) -> int:
    return records.effect("agent", "supervision").lease_ms


def next_task(
    records: Records, agent: Record[AgentData], first: TaskData
) -> Lease[TaskData] | None:
    """Claim the next queued task with the same agent settings. None if none can be claimed."""
    for record in queued_tasks(records, agent.root, str(first["role"])):
        alike = session_fields(record.data) == session_fields(first)
        if not (alike and is_local(record.data)):
            continue
        sandbox = str(first["claim"].get("sandbox") or "")
        lease = claim(records, record, agent=agent.id, sandbox=sandbox)
        if lease is not None:
            return lease
    return None


def prepare_for_session(
    records: Records, agent: Record[AgentData], lease: Lease[TaskData]
) -> PreparedClaim | None:
    """Make the worktree of a task that a session claimed.

    If that fails, the task fails too, and None is returned.
    """
    lease_ms = records.effect("task", "agent").lease_ms
    renew = partial(records.leases.renew, {lease.key: (lease.token, lease_ms, 0)})
    try:
        _refuse_unjudgeable(records, lease)
        with renewing(renew, every_s=lease_ms / 3_000):
            return prepare_claim(records, lease, agent=agent.id)
    except (GitError, OSError, InvalidSignalError) as failure:
        fail_claim(records, lease, failure)
        return None


@contextmanager
def renewing(renew: Callable[[], object], *, every_s: float) -> Iterator[None]:
    """Renew leases in a thread during the block: a checkout may take minutes."""
    ended = threading.Event()

    def renew_repeatedly() -> None:
        while not ended.wait(every_s):
            with suppress(KernelError):
                renew()

    thread = threading.Thread(target=renew_repeatedly, name="renewing", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
