"""The tool by which an agent reports on the task that it has claimed."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from interlock.system.tools import ToolCall


def report(
    call: ToolCall,
    key: Annotated[str, Field(description="The key of your claim of a task.")],
    token: Annotated[str, Field(description="The token of your claim.")],
    type: Annotated[str, Field(description="Such as `progress`.")],  # noqa: A002 - its name
    report_id: Annotated[
        str, Field(description="A new id of your own: a repeated call reports nothing more.")
    ],
    fields: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Report on the task that you have claimed. Each type has its fields.

    `heartbeat` (none: you are still at work; report so at least once a minute), `ready` (none:
    you begin), `progress` (message, percent), `usage` (tokens_in, tokens_out, cost_micro: what
    was used since the last report), `tool_started` (tool, id), `tool_completed` (tool, id,
    success), `verify_requested` (summary: the work is done), `failed` (error), `blocked` (task
    or text: what you wait for), `split` (subtasks, each with a title), `cancel_child` (child).
    The answer has the state of the task, and an order to you: go, pause, stop or lost.
    """
    sent = {"key": key, "token": token, "type": type, "fields": fields or {}}
    return call.send("report", sent, report_id)


READS = ()
SUBMITS = (report,)
