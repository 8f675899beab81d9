"""Gives open tasks to agents of this machine: picks, claims, sets up, and starts a keeper."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

from kernel.adaptive_timeout import Complexity, Deadline, Scope, deadline
from kernel.errors import CallError, ConflictError, FencedError, HeldError, KernelError
from kernel.event import Cause
from kernel.record import Record, partition_of, root_of
from kernel.store.leases import Lease, Refused
from kernel.store.plan import Call, Tenure, Warrant
from kernel.table import Data
from workers.brief import Brief
from workers.dispatch import Dispatch
from workers.gateways.git.errors import GitError, RefusedError
from workers.gateways.git.repository import Repository
from workers.gateways.git.worktree import Worktree, add_worktree
from workers.slots import Slot, take_slot
from workers.workplace import Workplace, workplace_of

log = logging.getLogger(__name__)

PARTY = "assignment"
PAGE = 50
HISTORY_MAX = 50
LOOKED_AT_MAX = 2_000
KEEPER_S = 60.0
SPAWN_LIMIT_S = 600
ERROR_LENGTH_MAX = 2_000


class KeeperError(RuntimeError):
    """A keeper could not take over. The message says why."""


def assign(dispatch: Dispatch, root: str) -> int:
    """Start agents for open tasks of a backlog while this machine has slots; return how many."""
    started = 0
    for line in dispatch.views.lines(root):
        for record in in_line(dispatch, root, line):
            if not _runs_here(record.data):
                continue
            slot = take_slot(dispatch.settings)
            if slot is None:
                return started
            try:
                started += _begin(dispatch, record, slot)
            finally:
                slot.close()
    return started


def party(name: str, trigger: str, of: str) -> Call:
    """Return the call of a part of this house about a record that it holds no lease of."""
    return Call(Cause(name), f"{name}:{trigger}:{of}:{uuid4().hex[:8]}", Warrant.party(name))


def in_line(dispatch: Dispatch, root: str, line: str) -> Iterator[Record]:
    """Yield who waits, first come first; who cannot be claimed now is passed over."""
    for start in range(0, LOOKED_AT_MAX, PAGE):
        page = dispatch.views.line(root, line, start, PAGE)
        for record_id in page:
            try:
                yield dispatch.views.record(record_id)
            except CallError:
                continue
        if len(page) < PAGE:
            return


def _runs_here(data: Data) -> bool:
    return bool(data.get("agent")) and Path(str(data["repo"])).is_dir()


def _begin(dispatch: Dispatch, record: Record, slot: Slot) -> bool:
    """Claim a task, and start its agent. Whoever was faster, or is in the way, is no failure."""
    tenure = Tenure(uuid4().hex[:8], dispatch.holder, dispatch.effect("task", "agent").lease_ms)
    limit = time_for(dispatch, record)
    claim = {
        "owner": dispatch.settings.host,
        "identity": identity_of(record.data),
        "at_ms": dispatch.views.now_ms(),
        "deadline_s": limit.seconds,
        "deadline_reasons": list(limit.reasons),
    }
    try:
        dispatch.fire(record, "claimed", claim, party(PARTY, "claimed", record.id), tenure=tenure)
    except (CallError, ConflictError, FencedError, HeldError) as refusal:
        log.debug("%s is not claimed: %s", record.id, refusal)
        return False
    _set_up(dispatch, held(dispatch, record.id, tenure), slot)
    return True


def identity_of(data: Data) -> str:
    """Return who works, for trust: a command in a role, however often it is started."""
    return f"{data['role']}/{data['agent']}"[:2_000]


def time_for(dispatch: Dispatch, record: Record) -> Deadline:
    """Return how long a task may take: by its size, and by what tasks of its role took before."""
    data = record.data
    machine = dispatch.lifecycle.machine("task")
    closed = dispatch.views.standing_in(
        machine, "closed", partition_of(record.id), HISTORY_MAX, newest=True
    )
    durations = []
    for other_id in closed:
        with suppress(CallError):
            other = dispatch.views.record(other_id)
            if root_of(other_id) == root_of(record.id) and other.data["role"] == data["role"]:
                durations.append(float(other.data.get("took_s") or 0))
    return deadline(
        scope=Scope(data["scope"]),
        complexity=Complexity(data["complexity"]),
        model=data.get("model"),
        owned_files=len(data["owned_files"]),
        durations_s=durations,
    )


def held(dispatch: Dispatch, record_id: str, tenure: Tenure) -> Lease:
    """Return the lease that was born with a record's state, or that it was born with."""
    record = dispatch.views.record(record_id)
    machine = dispatch.lifecycle.machine(record.machine)
    mine = [one for one in record.entries if one.token.endswith(f"-{tenure.nonce}")]
    if not mine:
        raise HeldError(record_id, "it was taken away again at once")
    entry = mine[0]
    lease = dispatch.leases.claim(
        entry.key(record.id),
        dispatch.effect(record.machine, entry.name),
        nonce=tenure.nonce,
        holder=tenure.holder,
        schema=machine.schema,
    )
    if isinstance(lease, Refused):
        raise HeldError(record_id, f"it was taken away again at once: {lease.word}")
    return lease


def _set_up(dispatch: Dispatch, task: Lease, slot: Slot) -> None:
    """Make agent, turn and worktree, and start the keeper; what fails is said, and costs a try."""
    place, data = workplace_of(task.record), task.record.data
    agent = _born(dispatch, task, place)
    lease_ms = _agent_ms(dispatch)
    kept = {lease.key: (lease.token, lease_ms, 0) for lease in (task, agent)}
    renew = partial(dispatch.leases.renew, kept)
    dispatch.fire(place.turn, "task_claimed", {}, party(PARTY, "task_claimed", place.turn))
    try:
        with renewing(renew, every_s=lease_ms / 3_000):
            tree = _worktree(dispatch, place, data)
        brief = Brief(
            task_key=task.key,
            task_token=task.token,
            agent_key=agent.key,
            agent_token=agent.token,
            turn=place.turn,
            repo=str(data["repo"]),
            worktree=str(tree.folder),
            branch=tree.branch,
            base=tree.base,
            papers=str(place.papers(dispatch.settings)),
            command=str(data["agent"]),
            stream=str(data["stream"]),
        )
        dispatch.fire(place.turn, "agent_spawned", {}, party(PARTY, "agent_spawned", place.turn))
        start_keeper(brief, slot, renew, every_s=lease_ms / 3_000)
    except (GitError, OSError, KeeperError) as failure:
        _give_up(dispatch, task, agent, place, failure)


def _born(dispatch: Dispatch, task: Lease, place: Workplace) -> Lease:
    data, tenure = task.record.data, Tenure(uuid4().hex[:8], dispatch.holder, _agent_ms(dispatch))
    agent = {
        "name": place.name,
        "role": data["role"],
        "command": data["agent"],
        "task": task.record.id,
        "spawn_limit_s": SPAWN_LIMIT_S,
    }
    if data["stream"] == "plain":
        # Many commands say nothing before their end: their deadline is their limit.
        agent["progress_limit_s"] = int(data.get("deadline_s") or data["claim"]["deadline_s"])
    dispatch.create("agent", place.agent, agent, Call(Cause(PARTY)), tenure=tenure)
    turn = {"task": task.record.id, "number": place.number, "agent": place.agent}
    folder = str(place.folder(dispatch.settings))
    worktree = {"repo": data["repo"], "target": data["target"], "worktree": folder}
    dispatch.create("turn", place.turn, {**turn, **worktree}, Call(Cause(PARTY)))
    return held(dispatch, place.agent, tenure)


def _agent_ms(dispatch: Dispatch) -> int:
    return dispatch.effect("agent", "supervision").lease_ms


def _worktree(dispatch: Dispatch, place: Workplace, data: Data) -> Worktree:
    repository = Repository.open(Path(str(data["repo"])))
    folder = place.folder(dispatch.settings)
    return add_worktree(repository, branch=place.branch, folder=folder, base=str(data["target"]))


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


def start_keeper(brief: Brief, slot: Slot, renew: Callable[[], object], *, every_s: float) -> None:
    """Start a keeper and wait until it has taken both leases over. Raises KeeperError."""
    command = [sys.executable, "-m", "workers.keeper", str(brief.write())]
    until = time.monotonic() + KEEPER_S
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=(slot.descriptor,),
    ) as starting:
        while True:
            try:
                _, said = starting.communicate(timeout=every_s)
                break
            except subprocess.TimeoutExpired:
                if time.monotonic() > until:
                    starting.kill()
                    raise KeeperError(f"its keeper took nothing over in {KEEPER_S:g} s") from None
                renew()
    if starting.returncode != 0:
        why = said.decode(errors="replace").strip() or "it said nothing"
        raise KeeperError(f"its keeper ended before it took over: {why[-ERROR_LENGTH_MAX:]}")


def _give_up(
    dispatch: Dispatch, task: Lease, agent: Lease, place: Workplace, failure: Exception
) -> None:
    """Say on all three records why no agent was started; a lost lease says it by itself."""
    reason = str(failure)[:ERROR_LENGTH_MAX]
    told = {"reason": reason, "code": "spawn_error", "final": isinstance(failure, RefusedError)}
    for lease, trigger, payload in (
        (task, "failed", told),
        (agent, "spawn_failed", {"reason": reason, "code": "spawn_error"}),
    ):
        warrant = Warrant.token(lease.suffix, lease.token)
        call = Call(Cause(lease.name, reason), f"{lease.token}:{trigger}", warrant)
        with suppress(KernelError):
            dispatch.fire(lease.record, trigger, payload, call)
    with suppress(KernelError):
        failed = {"reason": reason, "code": "spawn_error"}
        dispatch.fire(place.turn, "task_failed", failed, party(PARTY, "task_failed", place.turn))
