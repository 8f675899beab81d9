"""Begins runs of a workspace: which number, from which checkpoint, after which costs.

Two who begin at once cannot both: a run's number is taken by one of them, its place by one run.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from interlock.kernel.errors import (
    CallError,
    HeldError,
    IdTakenError,
    InvalidIdError,
    UnknownRecordError,
)
from interlock.kernel.event import Cause
from interlock.kernel.machines.runs.codon.names import SELF as CODON
from interlock.kernel.machines.runs.events import RunStartedData
from interlock.kernel.machines.runs.run.table import SELF as RUN
from interlock.kernel.machines.runs.values import MICRO_MAX, ContinuedStart
from interlock.kernel.record import Record, record_id, root_of
from interlock.kernel.store.commands import Call
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.runs.history import codons_of, history, stored
from interlock.workers.runs.plan.model import Plan
from interlock.workers.runs.sequence import Execution, next_step

PAGE = 200
RUNS_POWER_MAX = 27
LATE_MAX = 20  # how many runs may have begun since an event is told again
SLUG_LENGTH_MAX = 40


class RunRefusedError(CallError):
    """A run cannot begin as things are. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Begin:
    """What a run begins with: a stored plan, where it starts, and the executions that count."""

    plan: Mapping[str, Any]
    starting: Mapping[str, Any]
    done: tuple[Execution, ...] = ()


def workspace_id(folder: Path, host: str) -> str:
    """Return the id of the workspace that a folder of a machine is."""
    whole = folder.resolve()
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", whole.name).strip("-._")[:SLUG_LENGTH_MAX] or "root"
    mark = hashlib.sha256(f"{host}:{whole}".encode()).hexdigest()[:8]
    return f"{slug}-{mark}"


def open_workspace(dispatch: Dispatch, folder: Path, cause: Cause) -> Record:
    """Return the workspace that a folder of this machine is, born where it is new."""
    host = dispatch.settings.host
    name = workspace_id(folder, host)
    birth = {"folder": str(folder.resolve()), "host": host}
    dispatch.create("workspace", name, birth, Call(cause))
    try:
        return dispatch.views.record(name)
    except UnknownRecordError:
        raise RunRefusedError(
            f"the workspace {folder} was closed and is forgotten; its name stays taken, so work in "
            "a folder of another name"
        ) from None


def newest(dispatch: Dispatch, workspace: str) -> int:
    """Return the number of a workspace's last run, 0 for none, in a few looks however many."""
    there = partial(_there, dispatch, workspace)
    # They have no gap: first how many digits, then which of them.
    known = there([2**power for power in range(RUNS_POWER_MAX)])
    if not known:
        return 0
    low, high = max(known), 2 * max(known)
    while high - low > 1:
        step = max(1, (high - low) // PAGE)
        known = there(range(low + step, high, step))
        low, high = max(known, default=low), min(high, max(known, default=low) + step)
    return low


def _there(dispatch: Dispatch, workspace: str, numbers: Iterable[int]) -> list[int]:
    names = {f"{workspace}/{number}": number for number in numbers}
    return [names[name] for name in dispatch.views.births(names)]


def runs_of(dispatch: Dispatch, workspace: str) -> list[Record]:
    """Return the runs of a workspace, the first one first."""
    found: list[Record] = []
    while True:
        names = [f"{workspace}/{n}" for n in range(len(found) + 1, len(found) + 1 + PAGE)]
        records = dispatch.views.records(names)
        found += [records[name] for name in names if name in records]
        if len(records) < PAGE:
            return found


def begin(dispatch: Dispatch, workspace: Record, what: Begin, cause: Cause) -> Record:
    """Bear the next run. Raises RunRefusedError where one is at work."""
    number = newest(dispatch, workspace.id) + 1
    _refuse_while_at_work(dispatch, workspace)
    # Raises StrangeHistoryError: what counts has to be told in the words of the plan.
    next_step(Plan.of(what.plan), what.done, begins=len(what.done))
    # Nothing that ended costs more from now on, and nothing is at work: the sum is settled.
    tree = settled(dispatch, workspace)
    birth = {
        "plan": dict(what.plan),
        "folder": workspace.data["folder"],
        "host": workspace.data["host"],
        "starting": dict(what.starting),
        "done": [stored(one) for one in what.done],
        "before": tree,
    }
    name = f"{workspace.id}/{number}"
    try:
        fired = dispatch.create("run", name, birth, Call(cause))
    except (HeldError, IdTakenError):
        fired = None
    if fired is None or fired.replayed:
        raise RunRefusedError(f"another run of {workspace.data['folder']} began at this moment")
    return dispatch.views.record(name)


def settled(dispatch: Dispatch, workspace: Record) -> dict[str, int]:
    """Return what all runs of a workspace have cost, and what was spent, in micro-dollars."""
    counters = dispatch.views.record(workspace.id).counters
    # No single record can count more than this, but several together may have been told more.
    sums = {name: counters.get(f"tree.{name}", 0) for name in ("cost", "spent")}
    return {name: min(n, MICRO_MAX) for name, n in sums.items()}


def begin_again(
    dispatch: Dispatch, workspace: Record, said: RunStartedData, cause: Cause, *, op_id: str
) -> Record:
    """Begin a run because an event says so: with the plan of the one before, as it says.

    Told twice, by its op-id, it begins once.
    """
    last = newest(dispatch, workspace.id)
    if not last:
        raise RunRefusedError("no run began here yet, so there is no plan: start one with its plan")
    told = f"{cause.reason} ({op_id})"
    names = [f"{workspace.id}/{number}" for number in range(max(1, last - LATE_MAX), last + 1)]
    for event in dispatch.views.events((name, 1) for name in names):
        if event.cause.reason == told:
            return dispatch.views.record(event.record_id)
    starting = said.starting_conditions
    done: tuple[Execution, ...] = ()
    plan = dispatch.views.record(names[-1]).data["plan"]
    if isinstance(starting, ContinuedStart):
        source = run_named(dispatch, workspace, starting.source.run_id)
        plan = source.data["plan"]
        done = upto(dispatch, source, starting.source.after_codon)
    what = Begin(plan, starting.model_dump(mode="json"), done)
    return begin(dispatch, workspace, what, Cause(cause.actor, told))


def run_named(dispatch: Dispatch, workspace: Record, run_id: str) -> Record:
    """Return a run of a workspace by its number or its whole id. Raises RunRefusedError."""
    name = run_id if "/" in run_id else f"{workspace.id}/{run_id}"
    with suppress(UnknownRecordError, InvalidIdError):
        run = dispatch.views.record(str(record_id(name)))
        if run.machine == "run" and root_of(run.id) == workspace.id:
            return run
    raise RunRefusedError(f"there is no run {run_id} of {workspace.id}")


def upto(dispatch: Dispatch, run: Record, codon_id: str) -> tuple[Execution, ...]:
    """Return what counts for a run up to its last execution of a codon; '' is before all."""
    if not codon_id:
        return ()
    done, _ = history(run, codons_of(dispatch.views, run.id))
    found = [index for index, one in enumerate(done) if one.runtime_id == codon_id]
    if not found:
        raise RunRefusedError(f"run {run.id} has not executed {codon_id}")
    return tuple(done[: found[-1] + 1])


def _refuse_while_at_work(dispatch: Dispatch, workspace: Record) -> None:
    if workspace.state != "open":
        raise RunRefusedError(f"the workspace {workspace.data['folder']} is closed")
    holds = dispatch.views.holds(workspace.id)
    if run := holds.get(RUN):
        raise RunRefusedError(f"run {run} is at work there; wait for its end, or stop it")
    if codon := holds.get(CODON):
        raise RunRefusedError(f"codon {codon} of an earlier run is still being ended; try again")
