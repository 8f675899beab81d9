"""Gives open tasks to agents of this computer: to new ones, and to sessions that are idle."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from uuid import uuid4

from interlock import KernelError
from interlock.git.errors import GitError
from interlock.system.agents import SupervisorError, launch
from interlock.system.records import Dispatch, InitialLease, Lease, NoteDraft, read_initial_lease
from interlock.system.tables import Cause, Record, root_of
from interlock.system.tables import RecordData as Data
from interlock.systems.tasks.agent_slots import SLOT_AWAITED, SLOT_AWAITED_MS, Slot, take_slot
from interlock.systems.tasks.calls import holder_call
from interlock.systems.tasks.claim_names import ClaimNames, claim_names, claim_to_come
from interlock.systems.tasks.claims import (
    claim,
    fail_claim,
    is_local,
    may_be_claimed,
    prepare_claim,
    queued_tasks,
)
from interlock.systems.tasks.idle_sessions import IdleSessions, session_fields
from interlock.systems.tasks.launch_spec import PreparedClaim, TaskLaunchSpec
from interlock.systems.tasks.machines.agent.limits import LIMIT_S_MAX
from interlock.systems.tasks.machines.effects import ASSIGNMENT
from interlock.systems.tasks.machines.task.limits import REASON_LENGTH_MAX
from interlock.systems.tasks.verification.judgeable import refuse_unjudgeable
from interlock.systems.tasks.verification.signals import InvalidSignalError
from interlock.systems.tasks.work_folders import delete_old_work_folders

SPAWN_LIMIT_S = 600  # an agent that does not work so long after its creation has failed to start
AFTER_DEADLINE_S = 120  # in which a supervisor learns of the deadline and ends its agent


def assign(dispatch: Dispatch, root: str) -> int:
    """Start agents for a backlog while this computer has slots; return the number of claims.

    A task that an idle session can do is left to it. If no slot is free, one of the other idle
    sessions is ended.
    """
    started = 0
    # A folder that cannot be deleted now is tried again at the next assignment.
    with suppress(OSError):
        delete_old_work_folders(dispatch.settings)
    sessions = IdleSessions(dispatch)
    for queue in dispatch.views.queues(root):
        for record in queued_tasks(dispatch, root, queue):
            if not is_local(record.data) or sessions.leave(record):
                continue
            slot = take_slot(dispatch.settings)
            if slot is None:
                if not may_be_claimed(dispatch, record, agent=claim_to_come(record).agent):
                    continue
                sessions.end_one()
                _note_that_slots_are_taken(dispatch, record)
                break
            try:
                started += _claim_and_start(dispatch, record, slot)
            finally:
                slot.close()
    return started


def _note_that_slots_are_taken(dispatch: Dispatch, record: Record) -> None:
    """Note at the first task of a queue that it waits for a slot, again in each period."""
    settings = dispatch.settings
    period = dispatch.views.now_ms() // SLOT_AWAITED_MS
    draft = NoteDraft(SLOT_AWAITED, {"host": settings.host, "slots": settings.agents_max})
    op_id = f"{SLOT_AWAITED}:{record.id}:{record.version}:{settings.host}:{period}"
    with suppress(KernelError):
        dispatch.lifecycle.note(record, draft, op_id=op_id)


def _claim_and_start(dispatch: Dispatch, record: Record, slot: Slot) -> bool:
    task = claim(dispatch, record, agent=claim_to_come(record).agent)
    if task is None:
        return False
    slot.give_to(claim_names(task.record).agent, session_fields(task.record.data))
    _start_agent(dispatch, task, slot)
    return True


def _start_agent(dispatch: Dispatch, task: Lease, slot: Slot) -> None:
    """Create agent, turn and worktree, and start the supervisor.

    If one of these steps fails, the task has failed, which is one of its tries.
    """
    names, data = claim_names(task.record), task.record.data
    agent = _create_agent(dispatch, task, names)
    lease_ms = _agent_lease_ms(dispatch)
    leases = {lease.key: (lease.token, lease_ms, 0) for lease in (task, agent)}
    renew = partial(dispatch.leases.renew, leases)
    try:
        _refuse_unjudgeable(dispatch, task)
        with renewing(renew, every_s=lease_ms / 3_000):
            prepared = prepare_claim(dispatch, task, agent=names.agent)
        spec = TaskLaunchSpec(
            key=agent.key,
            token=agent.token,
            work_folder=str(names.work_folder(dispatch.settings)),
            command=str(data["agent"]),
            stream=str(data["stream"]),
            session=bool(data["session"]),
            claim=prepared,
        )
        launch(
            "interlock.systems.tasks.supervisor",
            spec.write(),
            renew,
            every_s=lease_ms / 3_000,
            pass_fds=(slot.descriptor,),
        )
    except (GitError, OSError, SupervisorError, InvalidSignalError) as failure:
        fail_claim(dispatch, task, failure)
        reason = str(failure)[:REASON_LENGTH_MAX]
        payload = {"reason": reason, "code": "spawn_error"}
        with suppress(KernelError):
            call = holder_call(agent, "spawn_failed")
            dispatch.lifecycle.fire(agent.record, "spawn_failed", payload, call)


def _refuse_unjudgeable(dispatch: Dispatch, task: Lease) -> None:
    """Refuse signals for a judge model that this computer, which verifies the work, has not."""
    signals = task.record.data["signals"]
    refuse_unjudgeable(dispatch, signals, host=dispatch.settings.host)


def _create_agent(dispatch: Dispatch, task: Lease, names: ClaimNames) -> Lease:
    data = task.record.data
    initial_lease = InitialLease(uuid4().hex[:8], dispatch.holder, _agent_lease_ms(dispatch))
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
    cause = Cause(ASSIGNMENT.name)
    dispatch.lifecycle.create("agent", names.agent, agent, cause, initial_lease=initial_lease)
    return read_initial_lease(dispatch, names.agent, initial_lease)


def _agent_lease_ms(dispatch: Dispatch) -> int:
    return dispatch.effect("agent", "supervision").lease_ms


def next_task(dispatch: Dispatch, agent: Record, first: Data) -> tuple[Lease, PreparedClaim] | None:
    """Claim the next queued task with the same agent settings, and prepare it for the session.

    Return None if no task can be claimed, or if its preparation failed.
    """
    root = root_of(agent.id)
    for record in queued_tasks(dispatch, root, str(first["role"])):
        alike = session_fields(record.data) == session_fields(first)
        if not (alike and is_local(record.data)):
            continue
        sandbox = str(first["claim"].get("sandbox") or "")
        lease = claim(dispatch, record, agent=agent.id, sandbox=sandbox)
        if lease is not None:
            return _prepare_for_session(dispatch, agent, lease)
    return None


def _prepare_for_session(
    dispatch: Dispatch, agent: Record, lease: Lease
) -> tuple[Lease, PreparedClaim] | None:
    lease_ms = dispatch.effect("task", "agent").lease_ms
    renew = partial(dispatch.leases.renew, {lease.key: (lease.token, lease_ms, 0)})
    try:
        _refuse_unjudgeable(dispatch, lease)
        with renewing(renew, every_s=lease_ms / 3_000):
            return lease, prepare_claim(dispatch, lease, agent=agent.id)
    except (GitError, OSError, InvalidSignalError) as failure:
        fail_claim(dispatch, lease, failure)
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
