"""Decides whether a run may begin: its plan and the recorded state must be valid.

The checks are those of `interlock run validate`. Nothing is repaired here: that is a person's
choice. A client asks before it creates a run; the run's supervisor asks again, because a run may
have been created without a client.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from interlock import CallError
from interlock.system.errors import InvalidPayloadError
from interlock.system.records import Records
from interlock.system.tables import Record
from interlock.systems.runs.archive.findings import Validation
from interlock.systems.runs.archive.validation import validate_runs
from interlock.systems.runs.history import execution_from_stored
from interlock.systems.runs.machines.workspace.table import WorkspaceData
from interlock.systems.runs.plan.model import RunPlan
from interlock.systems.runs.sequence import next_step

# Records are read one after the other: a run that is created meanwhile looks as if it were missing.
READS_MAX = 3


class InvalidStateError(CallError):
    """The recorded runs of a folder are invalid: no run may begin there until that is repaired.

    The message has the first finding, and `validation` has all of them.
    """

    def __init__(self, workspace: str, validation: Validation) -> None:
        first, *others = validation.errors
        more = f" (and {len(others)} more)" if others else ""
        super().__init__(
            f"the recorded runs of {workspace} are invalid: {first.type} at {first.where}: "
            f"{first.message}{more}; `interlock run validate` lists all, and no run can begin "
            "there until that is repaired"
        )
        self.validation = validation


def refuse_invalid_runs(records: Records, workspace: str, run_ids: Iterable[str]) -> None:
    """Raise InvalidStateError unless a workspace, its holders and these runs are valid.

    These are the runs on which a new run builds. The time does not grow with the other runs.
    """
    named = tuple(run_ids)
    for _ in range(READS_MAX):
        holders = records.views.holds(workspace).values()
        runs = {run for one in (*named, *holders) if (run := run_of(workspace, one))}
        found = validate_runs(records, workspace, runs)
        if found.valid:
            return
    raise InvalidStateError(workspace, found)


def workspace_record(records: Records, workspace: str) -> Record[WorkspaceData]:
    """Return the record of a workspace.

    Raises UnknownRecordError, and InvalidStateError where it cannot be read.
    """
    try:
        return records.views.record(workspace)
    except (LookupError, TypeError, ValueError, AssertionError):
        refuse_invalid_runs(records, workspace, ())
        raise


def refuse_invalid_plan(plan: Mapping[str, Any], done: Iterable[Mapping[str, Any]]) -> None:
    """Raise InvalidPayloadError or StrangeHistoryError unless a run can follow its stored plan.

    `done` are the executions that count for it already, as its record stores them.
    """
    stored: Mapping[str, Any] = {}
    try:
        executions = [execution_from_stored(stored := each) for each in done]
    except (LookupError, TypeError, ValueError) as refusal:
        problem = f"{stored!r} cannot be read: {type(refusal).__name__}: {refusal}"
        raise InvalidPayloadError("an execution that counts", [problem]) from None
    next_step(RunPlan.of(plan), executions, start_index=len(executions))


def source_of(starting: Mapping[str, Any]) -> str:
    """Return the id or number of the run from which a run goes on; empty for a fresh start."""
    return str(starting.get("source", {}).get("run_id", ""))


def run_of(workspace: str, name: str) -> str:
    """Return the id of the run that an id or number of a workspace is about, or an empty text."""
    number = name.removeprefix(f"{workspace}/").partition("/")[0]
    return f"{workspace}/{number}" if number.isdecimal() else ""
