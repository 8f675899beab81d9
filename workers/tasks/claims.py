"""How an agent of this house comes by a task: in line, claimed, with a turn and a worktree."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from interlock.kernel.errors import (
    CallError,
    ConflictError,
    FencedError,
    HeldError,
    IdTakenError,
    KernelError,
    UnknownRecordError,
)
from interlock.kernel.event import Cause
from interlock.kernel.machines.tasks.deadline import Complexity, Deadline, Scope, deadline
from interlock.kernel.record import Record, partition_of, root_of
from interlock.kernel.store.commands import Call, InitialLease, Warrant
from interlock.kernel.store.leases import Lease
from interlock.kernel.table import Data
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.leases import claim_initial_lease
from interlock.workers.gateways.git.errors import RefusedError
from interlock.workers.gateways.git.repository import Repository
from interlock.workers.gateways.git.worktree import Worktree, add_worktree
from interlock.workers.tasks.launch_spec import ClaimPaths
from interlock.workers.tasks.leftovers import kill_leftovers_of
from interlock.workers.tasks.workplace import Workplace, workplace_of

log = logging.getLogger(__name__)

PARTY = "assignment"
PAGE = 50
HISTORY_MAX = 50
CHAIN_MAX = 1_000
LOOKED_AT_MAX = 2_000
ERROR_LENGTH_MAX = 2_000


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


def runs_here(data: Data) -> bool:
    """Whether a task is for an agent's command, and its repository is on this machine."""
    return bool(data.get("agent")) and Path(str(data["repo"])).is_dir()


def claim(dispatch: Dispatch, record: Record, *, agent: str) -> Lease | None:
    """Claim a task for an agent. Whoever was faster, or is in the way, is no failure: None."""
    if not _is_due(dispatch, record):
        return None
    initial_lease = InitialLease(
        uuid4().hex[:8], dispatch.holder, dispatch.effect("task", "agent").lease_ms
    )
    limit, data = time_for(dispatch, record), record.data
    try:
        who = identified(
            dispatch,
            root_of(record.id),
            name=str(data["agent_name"]),
            role=str(data["role"]),
            command=str(data["agent"]),
        )
        words = {
            "owner": dispatch.settings.host,
            "identity": who,
            "agent": agent,
            "host": dispatch.settings.host,
            "at_ms": dispatch.views.now_ms(),
            "deadline_s": limit.seconds,
            "deadline_reasons": list(limit.reasons),
        }
        dispatch.fire(
            record,
            "claimed",
            words,
            party(PARTY, "claimed", record.id),
            initial_lease=initial_lease,
        )
        return claim_initial_lease(dispatch, record.id, initial_lease)
    except (CallError, ConflictError, FencedError, HeldError) as refusal:
        log.debug("%s is not claimed: %s", record.id, refusal)
        return None


def cancelled_above(dispatch: Dispatch, task: Record) -> str:
    """Return the task that this one is a part of, if it was cancelled, or ''."""
    above = task.parent
    part = above is not None and "/" in above
    return above if part and above and dispatch.views.record(above).state == "cancelled" else ""


def _is_due(dispatch: Dispatch, record: Record) -> bool:
    """Whether it is worth the work to claim it: the table has the last word, at more cost."""
    if record.data["not_before"] > dispatch.views.now_ms():
        return False
    root = root_of(record.id)
    for name in record.data["depends_on"]:
        try:
            if dispatch.views.record(f"{root}/{name}").state not in ("done", "closed"):
                return False
        except UnknownRecordError:
            return False
    return True


def hopeless(dispatch: Dispatch, waiting: Record, name: str) -> str:
    """Say why a task that another waits for can never be done, or nothing."""
    root, seen, next_name = root_of(waiting.id), {str(waiting.id)}, name
    while True:
        of = f"{root}/{next_name}"
        if of in seen:
            return f"{name}, which waits for it in turn"
        seen.add(of)
        try:
            other = dispatch.views.record(of)
        except UnknownRecordError:
            return f"{next_name}, which does not exist"
        if other.state == "cancelled" or other.data.get("given_up"):
            return f"{next_name}, which is {other.state} for good"
        onward = _waits_for(other)
        if onward is None or len(seen) > CHAIN_MAX:
            return ""
        next_name = onward


def _waits_for(task: Record) -> str | None:
    """Return the one task that this one waits for, if there is one."""
    on = task.data.get("blocked_on") or {}
    if task.state == "blocked":
        return str(on["on"]) if on.get("kind") == "task" else None
    return task.data["depends_on"][0] if task.state == "open" and task.data["depends_on"] else None


def identity_of(root: str, *, name: str, role: str, command: str) -> str:
    """Return the id of an identity's record, born or not."""
    digest = hashlib.sha256(json.dumps([name, role, command]).encode()).hexdigest()[:16]
    return f"{root}/identity~{digest}"


def identified(dispatch: Dispatch, root: str, *, name: str, role: str, command: str) -> str:
    """Return the record of a durable identity, born where it is new.

    Raises HeldError where a person took it out of service.
    """
    who = {"name": name, "role": role, "command": command}
    of = identity_of(root, name=name, role=role, command=command)
    with suppress(IdTakenError):
        dispatch.create("identity", of, who, Call(Cause(PARTY)))
    if dispatch.views.record(of).state == "retired":
        raise HeldError(of, f"the agent {name} was taken out of service by a person")
    return of


def time_for(dispatch: Dispatch, record: Record) -> Deadline:
    """Return how long a task may take: by its size, and by what tasks of its role took before."""
    data = record.data
    machine = dispatch.lifecycle.machine("task")
    closed = dispatch.views.list_in_partition(
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


def prepared(dispatch: Dispatch, task: Lease, *, agent: str) -> ClaimPaths:
    """Bear the turn of a claim and make its worktree. Raises GitError or OSError."""
    place, data = workplace_of(task.record), task.record.data
    folder = str(place.folder(dispatch.settings))
    turn = {"task": task.record.id, "number": place.number, "agent": agent}
    worktree = {"repo": data["repo"], "target": data["target"], "worktree": folder}
    worktree["host"] = dispatch.settings.host
    dispatch.create("turn", place.turn, {**turn, **worktree}, Call(Cause(PARTY)))
    dispatch.fire(place.turn, "task_claimed", {}, party(PARTY, "task_claimed", place.turn))
    _end_the_last(dispatch, place)
    tree = _worktree(dispatch, place, data)
    dispatch.fire(place.turn, "agent_spawned", {}, party(PARTY, "agent_spawned", place.turn))
    return ClaimPaths(
        task_key=task.key,
        task_token=task.token,
        turn=place.turn,
        repo=str(data["repo"]),
        worktree=str(tree.folder),
        branch=tree.branch,
        base=tree.base,
    )


def _end_the_last(dispatch: Dispatch, place: Workplace) -> None:
    """End what the claim before this one may have left at work here."""
    with suppress(UnknownRecordError):
        turn = dispatch.views.record(Workplace(place.task, place.number - 1).turn)
        if agent := turn.data.get("agent"):
            kill_leftovers_of(dispatch, str(agent))


def _worktree(dispatch: Dispatch, place: Workplace, data: Data) -> Worktree:
    repository = Repository.open(Path(str(data["repo"])))
    folder = place.folder(dispatch.settings)
    return add_worktree(repository, branch=place.branch, folder=folder, base=str(data["target"]))


def given_up(dispatch: Dispatch, task: Lease, failure: Exception) -> None:
    """Say on task and turn why nobody works on it; a lost lease says it by itself."""
    reason, turn = str(failure)[:ERROR_LENGTH_MAX], workplace_of(task.record).turn
    told = {"reason": reason, "code": "spawn_error"}
    final = {"final": isinstance(failure, RefusedError)}
    with suppress(KernelError):
        dispatch.fire(turn, "task_failed", told, party(PARTY, "task_failed", turn))
    with suppress(KernelError):
        dispatch.fire(task.record, "failed", {**told, **final}, outcome(task, "failed", reason))


def outcome(lease: Lease, trigger: str, reason: str) -> Call:
    """Return the call that tells the outcome of held work."""
    warrant = Warrant.token(lease.suffix, lease.token)
    return Call(Cause(lease.name, reason), f"{lease.token}:{trigger}", warrant)
