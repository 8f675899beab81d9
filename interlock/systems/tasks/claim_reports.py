"""Takes the reports of an external agent that calls over HTTP or by tools.

They are the reports that other agents write as lines: supervision/streams reads both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import Field

from interlock import Client, validated
from interlock.system.agents import (
    AbortRaised,
    AgentBlocked,
    AgentFailed,
    AgentReady,
    CancelRequested,
    Compacted,
    CompactNeeded,
    MailSent,
    Progress,
    RejectedLine,
    Report,
    ReportKinds,
    SplitRequested,
    ToolCompleted,
    ToolStarted,
    UsageAdded,
    WorkFinished,
    parse_line,
)
from interlock.system.errors import InvalidPayloadError
from interlock.system.records import Name, Request
from interlock.system.tables import split_key
from interlock.systems.tasks.client import Tasks
from interlock.systems.tasks.current_task import end_outcome, failure_outcome
from interlock.systems.tasks.machines.task.names import Trigger

HEARTBEAT = "heartbeat"


class ReportRequest(Request):
    """A report: the key and the token of a claim, its type, and the fields of that type."""

    key: Name
    token: Name
    type: Name
    fields: dict[str, Any] = Field(default_factory=dict)


def report(client: Client, request: Mapping[str, Any]) -> dict[str, Any]:
    """Take a report, once for each id of a request. Raises CallError, FencedError.

    Returns the state of the task, and the order to the holder of its claim.
    """
    fields = validated(ReportRequest, "the request", request)
    key, token, tasks = fields["key"], fields["token"], Tasks(client)
    parsed = _parsed(fields["type"], request.get("fields", {}))
    task, suffix = split_key(key)
    record = client.show(task)
    if record.machine != "task":
        raise InvalidPayloadError("the request", ["key: it is not of a claim of a task"])
    order, op_id = tasks.heartbeat(key, token), f"report:{fields['id']}"
    note = partial(client.records.note, record, op_id=op_id, held=(suffix, token))
    match parsed:
        case Progress(message, percent):
            note("progress", {"message": message, "percent": percent})
        case UsageAdded():
            note("usage", {}, deltas=parsed.deltas)
    if of_turn := _of_turn(parsed):
        tasks.report_turn(key, token, *of_turn, op_id=op_id)
    elif of_task := _of_task(parsed):
        tasks.report(key, token, *of_task)
    return {"record": task, "state": client.show(task).state, "order": order}


def _parsed(kind: str, fields: Mapping[str, Any]) -> Report | None:
    """Return a report; None for a heartbeat. Raises InvalidPayloadError."""
    if kind == HEARTBEAT:
        return None
    parsed = parse_line(json.dumps({**fields, "type": kind}).encode(), ReportKinds.AGENT)
    if isinstance(parsed, AbortRaised | MailSent):
        parsed = RejectedLine(f"{kind} is for agents that Interlock runs; mail is sent by `send`")
    if isinstance(parsed, RejectedLine):
        raise InvalidPayloadError("the report", [parsed.reason])
    return parsed


def _of_turn(report: Report | None) -> tuple[str, dict[str, Any]] | None:
    match report:
        case ToolStarted(tool):
            return "tool_started", {"tool": tool}
        case ToolCompleted(tool, _, success):
            return "tool_completed", {"tool": tool, "success": success}
        case CompactNeeded():
            return "compact_needed", {}
        case Compacted():
            return "compacted", {}
        case _:
            return None


def _of_task(report: Report | None) -> tuple[str, dict[str, Any]] | None:
    match report:
        case AgentReady():
            return Trigger.STARTED, {}
        case WorkFinished(summary):
            return Trigger.COMPLETED, {"summary": summary}
        case AgentFailed():
            given = failure_outcome(report).payload.items()
            return Trigger.FAILED, {name: value for name, value in given if value is not None}
        case AgentBlocked() | SplitRequested():
            outcome = end_outcome(report)
            return outcome.trigger, dict(outcome.payload)
        case CancelRequested(child, reason):
            return Trigger.CHILD_CANCELLED, {"child": child, "reason": reason}
        case _:
            return None
