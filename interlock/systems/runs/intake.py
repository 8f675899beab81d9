"""Starts runs from the messages of producers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from interlock import Client, Shape, Submitted, validated
from interlock.system.errors import HeldError, IdTakenError, InvalidPayloadError
from interlock.system.tables import Record
from interlock.systems.runs.machines.run.payloads import RunData
from interlock.systems.runs.machines.values import Path as FolderPath
from interlock.systems.runs.paths import workspace_id
from interlock.systems.runs.plan.file import read_plan_fields
from interlock.systems.runs.start import (
    RunRefusedError,
    RunSetup,
    WorkspaceBusyError,
    check_folder,
    open_workspace,
    run_started_for,
    start_run,
)


class RunRequest(Shape):
    """A plan, with the fields of its file, and the folder of its workspace on the host."""

    plan: dict[str, Any]
    folder: FolderPath
    host: Annotated[str, Field(max_length=255)] = ""


def accept(client: Client, request: str, payload: Mapping[str, Any], _: int) -> Submitted:
    """Start a run, once for each id of a request. A run has an id of its own and no priority.

    Raises CallError if the message can never be accepted, HeldError while another run of the
    folder is running. The folder is only checked if it is on this computer.
    """
    validated(RunRequest, "the run", payload)
    records, folder = client.records, Path(payload["folder"])
    host = payload.get("host") or client.settings.host
    if not folder.is_absolute() or "\0" in payload["folder"]:
        raise InvalidPayloadError("the run", [f"folder: {str(folder)!r} is no absolute path"])
    plan = read_plan_fields(payload["plan"], folder)
    reason = f"asked for by the message {request}"
    new = RunSetup(plan.stored(), {"kind": "fresh"})
    # First, as the folder of a run that was started may be gone since.
    if known := run_started_for(records, workspace_id(folder, host), reason):
        return _replayed(request, known, new)
    if host == client.settings.host:
        _check_local(folder, host)
    records.admit([workspace_id(folder, host)], unnamed=1)
    opened = open_workspace(records, folder, reason, host=host)
    try:
        run = start_run(records, opened, new, reason)
    except WorkspaceBusyError as refusal:
        # The message may have been delivered to another process at the same time.
        if known := run_started_for(records, opened.id, reason):
            return _replayed(request, known, new)
        raise HeldError(request, str(refusal)) from refusal
    return Submitted(run.id, replayed=False)


def _check_local(folder: Path, host: str) -> None:
    try:
        check_folder(folder)
    except RunRefusedError as refusal:
        problem = f"{refusal}, or name in `host` the computer that has it: this one is {host}"
        raise RunRefusedError(problem) from refusal


def _replayed(request: str, known: Record[RunData], new: RunSetup) -> Submitted:
    if known.data["plan"] != new.plan:
        raise IdTakenError(request)
    return Submitted(known.id, replayed=True)
