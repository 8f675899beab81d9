"""Takes the reports of an external agent that calls over HTTP or by tools.

They are the reports that other agents write as lines: supervision/streams reads both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from interlock import Client, Outcome, validated
from interlock.system.agents import AgentFailed, ReportListener, UsageAdded
from interlock.system.errors import InvalidPayloadError
from interlock.system.records import Request
from interlock.systems.tasks.client import Tasks
from interlock.systems.tasks.current_task import failure_outcome
from interlock.systems.tasks.machines.task.names import Trigger
from interlock.systems.tasks.turn_reports import blocked_outcome

HEARTBEAT = "heartbeat"
Name = Annotated[str, Field(max_length=400)]


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
    heard = ClaimReport(fields["type"], request.get("fields", {}))
    task, suffix = client.records.effect_of(key)
    record = client.show(task)
    if record.machine != "task":
        raise InvalidPayloadError("the request", ["key: it is not of a claim of a task"])
    order, op_id = tasks.heartbeat(key, token), f"report:{fields['id']}"
    if heard.note:
        kind, detail, deltas = heard.note
        held = (suffix, token)
        client.records.note(record, kind, detail, op_id=op_id, held=held, deltas=deltas)
    if heard.of_turn:
        tasks.report_turn(key, token, heard.of_turn.trigger, heard.of_turn.payload, op_id=op_id)
    elif heard.of_task:
        tasks.report(key, token, heard.of_task.trigger, heard.of_task.payload)
    return {"record": task, "state": client.show(task).state, "order": order}


class ClaimReport(ReportListener):
    """What a report says: of the turn, of the task, or as a note with its detail and its costs.

    A heartbeat says nothing. Raises InvalidPayloadError.
    """

    def __init__(self, kind: str, fields: Mapping[str, Any]) -> None:
        self.note: tuple[str, dict[str, Any], Mapping[str, int]] | None = None
        self.of_turn: Outcome | None = None
        self.of_task: Outcome | None = None
        if kind != HEARTBEAT:
            line = json.dumps({**fields, "type": kind}).encode()
            self.hear(*self.read_line(line))

    def on_rejected(self, reason: str, *, ends: bool) -> None:
        """Refuse the report."""
        del ends
        raise InvalidPayloadError("the report", [reason])

    def on_abort(self, scope: str, reason: str) -> None:
        """Refuse the report."""
        del scope, reason
        self._refuse("abort")

    def on_mail(self, to: str, text: str, once: str, fields: Mapping[str, Any]) -> None:
        """Refuse the report."""
        del to, text, once, fields
        self._refuse("mail")

    def on_progress(self, message: str, percent: int | None) -> None:
        """Keep it as a note."""
        self.note = "progress", {"message": message, "percent": percent}, {}

    def on_used(self, usage: UsageAdded) -> None:
        """Keep it as a note that counts costs."""
        self.note = "usage", {}, usage.deltas

    def on_tool_started(self, tool: str, call: str) -> None:
        """Keep it as a report on the turn."""
        del call
        self.of_turn = Outcome("tool_started", {"tool": tool})

    def on_tool_completed(self, tool: str, call: str, *, success: bool) -> None:
        """Keep it as a report on the turn."""
        del call
        self.of_turn = Outcome("tool_completed", {"tool": tool, "success": success})

    def on_compact_needed(self) -> None:
        """Keep it as a report on the turn."""
        self.of_turn = Outcome("compact_needed")

    def on_compacted(self) -> None:
        """Keep it as a report on the turn."""
        self.of_turn = Outcome("compacted")

    def on_ready(self) -> None:
        """Keep it as a report on the task."""
        self.of_task = Outcome(Trigger.STARTED)

    def on_finished(self, summary: str) -> None:
        """Keep it as a report on the task."""
        self.of_task = Outcome(Trigger.COMPLETED, {"summary": summary})

    def on_failed(self, failure: AgentFailed) -> None:
        """Keep it as a report on the task."""
        given = failure_outcome(failure).payload.items()
        fields = {name: value for name, value in given if value is not None}
        self.of_task = Outcome(Trigger.FAILED, fields)

    def on_blocked(self, task: str | None, text: str | None) -> None:
        """Keep it as a report on the task."""
        self.of_task = blocked_outcome(task, text)

    def on_split(self, subtasks: Sequence[Mapping[str, Any]]) -> None:
        """Keep it as a report on the task."""
        self.of_task = Outcome(Trigger.SPLIT, {"subtasks": subtasks})

    def on_cancel_child(self, child: str, reason: str) -> None:
        """Keep it as a report on the task."""
        self.of_task = Outcome(Trigger.CHILD_CANCELLED, {"child": child, "reason": reason})

    def _refuse(self, kind: str) -> None:
        reason = f"{kind} is for agents that Interlock runs; mail is sent by `send`"
        raise InvalidPayloadError("the report", [reason])
