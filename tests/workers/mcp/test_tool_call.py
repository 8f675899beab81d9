"""A call of a tool does no more than its caller may."""

from __future__ import annotations

import pytest
from mcp.server.mcpserver import Context

from interlock.kernel.errors import ForbiddenError
from interlock.workers.access.roles import Act
from interlock.workers.mcp.tool_call import ToolCall, Verbs


def test_a_tool_that_only_reads_sends_nothing_for_who_may_not_submit() -> None:
    asked = []

    def reach(_context: Context, act: Act, _record_id: str = "") -> Verbs:
        asked.append(act)
        raise ForbiddenError("you only read here")

    with pytest.raises(ForbiddenError):
        ToolCall(reach, Context(), Act.READ).send("send", {"to": "owl"}, "m")

    assert asked == [Act.SUBMIT]
