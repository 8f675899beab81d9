"""Starts runs of a workspace, with their number, plan, executions that count and earlier costs.

Two programs cannot start a run at the same time: the store gives a number to one record only, and
lets one run at a time hold a workspace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from interlock import CallError
from interlock.system.errors import HeldError, IdTakenError, UnknownRecordError
from interlock.system.records import Records
from interlock.system.tables import Record
from interlock.systems.runs.admission import (
    refuse_invalid_plan,
    refuse_invalid_runs,
    run_of,
    source_of,
    workspace_record,
)
from interlock.systems.runs.history import codons_of, history, numbered_below, stored_execution
from interlock.systems.runs.machines.codon.names import SELF as CODON
from interlock.systems.runs.machines.events import RunStartedData
from interlock.systems.runs.machines.limits import MICRO_MAX
from interlock.systems.runs.machines.run.payloads import RunData
from interlock.systems.runs.machines.run.table import SELF as RUN
from interlock.systems.runs.machines.values import ContinuedStart
from interlock.systems.runs.machines.workspace.table import State, WorkspaceData
from interlock.systems.runs.paths import workspace_id
from interlock.systems.runs.sequence import Execution

PAGE = 200
RUNS_POWER_MAX = 27
# If an event is delivered again, its run is looked for among this many of the newest runs.
REDELIVERY_RUNS_MAX = 20


class RunRefusedError(CallError):
    """A run cannot start now. The message says why, and what to do."""


class UnknownWorkspaceError(CallError):
    """No run ever started in this folder."""

    def __init__(self, folder: Path) -> None:
        place = folder.resolve()
        why = "; `interlock run start` starts one" if place.is_dir() else ": it is no folder"
        super().__init__(f"no run started in {place} yet{why}")
        self.folder = folder


class WorkspaceBusyError(RunRefusedError):
    """A run or a codon of the workspace has not ended yet. Wait for its end, or stop it."""


@dataclass(frozen=True, slots=True)
class RunSetup:
    """The initial data of a run: its stored plan, its start, and the executions that count."""

    plan: Mapping[str, Any]
    starting: Mapping[str, Any]
    done: tuple[Execution, ...] = ()


def check_folder(workspace: Path) -> None:
    """Raise RunRefusedError unless a workspace on this computer is a folder that can be written."""
    if not workspace.is_dir():
        raise RunRefusedError(f"the workspace {workspace} is not a folder; make it first")
    try:
        with TemporaryFile(dir=workspace):
            pass
    except OSError as refusal:
        problem = f"the workspace {workspace} cannot be written: {refusal.strerror}"
        raise RunRefusedError(problem) from refusal


def open_workspace(
    records: Records, folder: Path, reason: str, *, host: str = ""
) -> Record[WorkspaceData]:
    """Return the workspace of a folder on a computer, by default this one.

    Its record is created where it has none.
    """
    host = host or records.settings.host
    name = workspace_id(folder, host)
    initial = {"folder": str(folder.resolve()), "host": host}
    records.create("workspace", name, initial, reason=reason)
    try:
        return workspace_record(records, name)
    except UnknownRecordError:
        raise RunRefusedError(
            f"the workspace {folder} was closed and its records are deleted; its name stays taken, "
            "so work in a folder of another name"
        ) from None


def newest_run_number(records: Records, workspace: str) -> int:
    """Return the number of a workspace's newest run; 0 if it has none.

    It takes a few reads, however many runs there are.
    """
    existing = partial(_existing, records, workspace)
    # The numbers have no gap: find the largest power of two, then the number by bisection.
    known = existing([2**power for power in range(RUNS_POWER_MAX)])
    if not known:
        return 0
    low, high = max(known), 2 * max(known)
    while high - low > 1:
        step = max(1, (high - low) // PAGE)
        known = existing(range(low + step, high, step))
        low, high = max(known, default=low), min(high, max(known, default=low) + step)
    return low


def _existing(records: Records, workspace: str, numbers: Iterable[int]) -> list[int]:
    names = {f"{workspace}/{number}": number for number in numbers}
    return [names[name] for name in records.views.creation_digests(names)]


def runs_of(records: Records, workspace: str) -> list[Record[RunData]]:
    """Return the runs of a workspace, the oldest first."""
    return numbered_below(records, [workspace])[workspace]


def start_run(
    records: Records, workspace: Record[WorkspaceData], new: RunSetup, reason: str
) -> Record[RunData]:
    """Create the record of the next run. Raises RunRefusedError while another one runs.

    Raises InvalidStateError where what is recorded of the runs is invalid, InvalidPayloadError
    where its plan is, StrangeHistoryError where that lacks the codon of an execution that counts.
    """
    last = newest_run_number(records, workspace.id)
    done = [stored_execution(execution) for execution in new.done]
    refuse_invalid_plan(new.plan, done)
    refuse_invalid_runs(records, workspace.id, (str(last or ""), source_of(new.starting)))
    _refuse_while_running(records, workspace)
    # No run is running, and an ended one costs nothing more: the sum is final.
    costs_before = total_costs(records, workspace.id)
    initial = {
        "plan": dict(new.plan),
        "folder": workspace.data["folder"],
        "host": workspace.data["host"],
        "starting": dict(new.starting),
        "done": done,
        "before": costs_before,
    }
    name = f"{workspace.id}/{last + 1}"
    try:
        fired = records.create("run", name, initial, reason=reason)
    except (HeldError, IdTakenError):
        fired = None
    if fired is None or fired.replayed:
        problem = f"another run of {workspace.data['folder']} started at this moment"
        raise WorkspaceBusyError(problem)
    return records.views.record(name)


def total_costs(records: Records, workspace: str) -> dict[str, int]:
    """Return the cost of all runs of a workspace and the money spent on them, in micro-dollars."""
    counters = records.views.record(workspace).counters
    # One record cannot count more than this, but several records together can.
    sums = {name: counters.get(f"tree.{name}", 0) for name in ("cost", "spent")}
    return {name: min(n, MICRO_MAX) for name, n in sums.items()}


def start_run_from_event(
    records: Records, workspace: Record[WorkspaceData], data: RunStartedData, reason: str
) -> Record[RunData]:
    """Start the run that an event asks for, with the plan of the run before it.

    The reason names the event: one run is started for it, however often it is delivered.
    """
    last = newest_run_number(records, workspace.id)
    if not last:
        raise RunRefusedError(
            "no run started here yet, so there is no plan: start a run with a plan first"
        )
    if known := run_started_for(records, workspace.id, reason):
        return known
    starting = data.starting_conditions
    done: tuple[Execution, ...] = ()
    newest: Record[RunData] = records.views.record(f"{workspace.id}/{last}")
    plan = newest.data["plan"]
    if isinstance(starting, ContinuedStart):
        source = find_run(records, workspace, starting.source.run_id)
        plan = source.data["plan"]
        done = executions_up_to(records, source, starting.source.after_codon)
    new = RunSetup(plan, starting.model_dump(mode="json"), done)
    return start_run(records, workspace, new, reason)


def run_started_for(records: Records, workspace: str, reason: str) -> Record[RunData] | None:
    """Return the run among the newest of a workspace that was started for this reason, if any."""
    last = newest_run_number(records, workspace)
    numbers = range(max(1, last - REDELIVERY_RUNS_MAX), last + 1)
    for event in records.views.events((f"{workspace}/{number}", 1) for number in numbers):
        if event.cause.reason == reason:
            return records.views.record(event.record_id)
    return None


def find_run(records: Records, workspace: Record[WorkspaceData], run_id: str) -> Record[RunData]:
    """Return a run of a workspace by its number or its whole id. Raises RunRefusedError."""
    name = run_of(workspace.id, run_id)
    if name in (run_id, f"{workspace.id}/{run_id}"):
        with suppress(UnknownRecordError):
            return records.views.record(name)
    raise RunRefusedError(f"there is no run {run_id} of {workspace.id}")


def executions_up_to(
    records: Records, run: Record[RunData], codon_id: str
) -> tuple[Execution, ...]:
    """Return the executions that count for a run up to its last execution of a codon.

    An empty codon id stands for the start of the plan, where no execution counts.
    """
    if not codon_id:
        return ()
    done, _ = history(run, codons_of(records, run.id))
    found = [index for index, execution in enumerate(done) if execution.runtime_id == codon_id]
    if not found:
        raise RunRefusedError(f"run {run.id} has not executed {codon_id}")
    return tuple(done[: found[-1] + 1])


def _refuse_while_running(records: Records, workspace: Record[WorkspaceData]) -> None:
    if workspace.state != State.OPEN:
        raise RunRefusedError(f"the workspace {workspace.data['folder']} is closed")
    holds = records.views.holds(workspace.id)
    if run := holds.get(RUN):
        raise WorkspaceBusyError(f"run {run} is running there; wait for its end, or stop it")
    if codon := holds.get(CODON):
        raise WorkspaceBusyError(f"codon {codon} of an earlier run is still being ended; try again")
