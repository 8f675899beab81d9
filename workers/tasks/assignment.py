"""Gives open tasks to agents of this machine: picks, claims, sets up, and starts a keeper."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from uuid import uuid4

from interlock.kernel.errors import KernelError
from interlock.kernel.event import Cause
from interlock.kernel.record import Record
from interlock.kernel.store.commands import Call, InitialLease
from interlock.kernel.store.leases import Lease
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.leases import claim_initial_lease
from interlock.workers.gateways.git.errors import GitError
from interlock.workers.supervision.launch import SupervisorError, launch
from interlock.workers.tasks.claims import (
    ERROR_LENGTH_MAX,
    PARTY,
    claim,
    given_up,
    in_line,
    outcome,
    prepared,
    runs_here,
)
from interlock.workers.tasks.launch_spec import TaskLaunchSpec
from interlock.workers.tasks.slots import Slot, take_slot
from interlock.workers.tasks.work_folders import delete_old_work_folders
from interlock.workers.tasks.workplace import Workplace, workplace_of

SPAWN_LIMIT_S = 600


def assign(dispatch: Dispatch, root: str) -> int:
    """Start agents for open tasks of a backlog while this machine has slots; return how many."""
    started = 0
    # What cannot be removed now is tried again with the next agent.
    with suppress(OSError):
        delete_old_work_folders(dispatch.settings)
    for line in dispatch.views.lines(root):
        for record in in_line(dispatch, root, line):
            if not runs_here(record.data):
                continue
            slot = take_slot(dispatch.settings)
            if slot is None:
                return started
            try:
                started += _begin(dispatch, record, slot)
            finally:
                slot.close()
    return started


def _begin(dispatch: Dispatch, record: Record, slot: Slot) -> bool:
    """Claim a task, and start its agent."""
    place = Workplace(record.id, int(record.data["claimed"]) + 1)
    task = claim(dispatch, record, agent=place.agent)
    if task is None:
        return False
    _set_up(dispatch, task, slot)
    return True


def _set_up(dispatch: Dispatch, task: Lease, slot: Slot) -> None:
    """Make agent, turn and worktree, and start the keeper; what fails is said, and costs a try."""
    place, data = workplace_of(task.record), task.record.data
    agent = _born(dispatch, task, place)
    lease_ms = _agent_ms(dispatch)
    kept = {lease.key: (lease.token, lease_ms, 0) for lease in (task, agent)}
    renew = partial(dispatch.leases.renew, kept)
    try:
        with renewing(renew, every_s=lease_ms / 3_000):
            prepared_place = prepared(dispatch, task, agent=place.agent)
        spec = TaskLaunchSpec(
            key=agent.key,
            token=agent.token,
            work_folder=str(place.work_folder(dispatch.settings)),
            command=str(data["agent"]),
            stream=str(data["stream"]),
            session=bool(data["session"]),
            place=prepared_place,
        )
        launch(
            "interlock.workers.tasks.supervisor",
            spec.write(),
            renew,
            every_s=lease_ms / 3_000,
            pass_fds=(slot.descriptor,),
        )
    except (GitError, OSError, SupervisorError) as failure:
        given_up(dispatch, task, failure)
        reason = str(failure)[:ERROR_LENGTH_MAX]
        told = {"reason": reason, "code": "spawn_error"}
        with suppress(KernelError):
            call = outcome(agent, "spawn_failed", reason)
            dispatch.fire(agent.record, "spawn_failed", told, call)


def _born(dispatch: Dispatch, task: Lease, place: Workplace) -> Lease:
    data, initial_lease = (
        task.record.data,
        InitialLease(uuid4().hex[:8], dispatch.holder, _agent_ms(dispatch)),
    )
    claimed = data["claim"]
    agent = {
        "name": place.name,
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
        # Many commands say nothing before their end: their deadline is their limit.
        agent["progress_limit_s"] = int(data.get("deadline_s") or claimed["deadline_s"])
    dispatch.create("agent", place.agent, agent, Call(Cause(PARTY)), initial_lease=initial_lease)
    return claim_initial_lease(dispatch, place.agent, initial_lease)


def _agent_ms(dispatch: Dispatch) -> int:
    return dispatch.effect("agent", "supervision").lease_ms


@contextmanager
def renewing(renew: Callable[[], object], *, every_s: float) -> Iterator[None]:
    """Renew leases while the block lasts: to check out a large repository may take minutes."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(every_s):
            with suppress(KernelError):
                renew()

    thread = threading.Thread(target=beat, name="renewing", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
