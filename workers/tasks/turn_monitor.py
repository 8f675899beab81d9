"""Follows an agent's reports through its turn: tools, compaction, tokens, how the work went."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

from interlock.kernel.errors import KernelError
from interlock.kernel.event import Cause
from interlock.kernel.record import Record
from interlock.kernel.store.commands import Call, Jot, Warrant
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.supervision.reports import (
    AbortRaised,
    AgentBlocked,
    AgentFailed,
    AgentReady,
    CancelRequested,
    Compacted,
    CompactNeeded,
    Progress,
    RejectedLine,
    Report,
    SplitRequested,
    TokensUsed,
    ToolCompleted,
    ToolStarted,
    VerifyRequested,
)

PARTY = "supervision"
COMPACT_AT = 0.9
Told = AgentFailed | AgentBlocked | SplitRequested
Asked = AbortRaised | CancelRequested


class TurnMonitor:
    """One turn and the agent in it. What the tables refuse is noted, and changes nothing.

    `told` is how the agent says that its work ended, `asked` what it wants done meanwhile.
    """

    def __init__(self, dispatch: Dispatch, turn: str, agent: Record) -> None:
        self.dispatch, self.turn_id, self.agent = dispatch, turn, agent
        self.summary: str | None = None
        self.told: Told | None = None
        self.asked: list[Asked] = []
        self.spent_micro = 0
        self.tools_ended = 0
        self.failures_in_row = 0
        self._tools: set[str] = set()
        self._compacting = self._verifying = False

    def feed(self, reports: Sequence[Report | RejectedLine]) -> None:
        """Follow what one line told."""
        for report in reports:
            self._heard(report)

    def turn(self, trigger: str, **payload: Any) -> None:
        """Fire a trigger at the turn."""
        call = Call(Cause(PARTY), warrant=Warrant.party(PARTY))
        given = {name: value for name, value in payload.items() if value is not None}
        try:
            self.dispatch.fire(self.turn_id, trigger, given, call)
        except KernelError as refusal:
            # Also where the store is away: the task's way out ends its turn, whatever was told.
            self._noted("report_refused", {"trigger": trigger, "reason": str(refusal)})

    def finish(self) -> None:
        """Lead the turn to its verification, whatever the agent left unfinished in its reports."""
        if self._tools:
            self.turn("tool_completed", tool="(unfinished)")
        if self._compacting:
            self.turn("verify_requested")
        if not self._verifying:
            self.turn("verify_requested")

    def _heard(self, report: Report | RejectedLine) -> None:
        match report:
            case ToolStarted() | ToolCompleted():
                self._tool(report)
            case CompactNeeded() | Compacted():
                self._window(report)
            case VerifyRequested():
                self.summary = report.summary
                self._verify()
            case AgentFailed() | AgentBlocked() | SplitRequested():
                self.told = self.told or report
            case TokensUsed():
                self._used(report)
            case AbortRaised() | CancelRequested():
                self.asked.append(report)
            case Progress():
                self._noted("said", {"message": report.message, "percent": report.percent})
            case RejectedLine():
                self._noted("report_refused", {"reason": report.reason})
            case AgentReady():
                pass

    def _tool(self, report: ToolStarted | ToolCompleted) -> None:
        """Of several tools at once the turn knows that there are some."""
        match report:
            case ToolStarted():
                if not self._tools and not self._verifying:
                    self.turn("tool_started", tool=report.tool)
                self._tools.add(report.id)
            case ToolCompleted():
                self.tools_ended += 1
                self.failures_in_row = 0 if report.success else self.failures_in_row + 1
                was = bool(self._tools)
                self._tools.discard(report.id)
                if was and not self._tools and not self._verifying:
                    self.turn("tool_completed", tool=report.tool, success=report.success)

    def _window(self, report: CompactNeeded | Compacted) -> None:
        match report:
            case CompactNeeded():
                self._compact()
            case Compacted():
                if self._compacting:
                    self._compacting = False
                    self.turn("verify_requested")

    def _verify(self) -> None:
        """Begin to verify; an agent that a stop hook sends back to its tools is verified still."""
        if not (self._verifying or self._tools or self._compacting):
            self._verifying = True
            self.turn("verify_requested")

    def _compact(self) -> None:
        if self._verifying:
            # Its window grew while it was verified: it runs again, and is verified anew.
            self._verifying = False
            self.turn("compact_needed")
        elif not self._compacting and not self._tools:
            self._compacting = True
            self.turn("compact_needed")

    def _used(self, usage: TokensUsed) -> None:
        self.spent_micro += usage.cost_micro or 0
        if usage.deltas:
            self._noted("usage", {}, usage.deltas)
        if usage.context_size and (usage.context_used or 0) > COMPACT_AT * usage.context_size:
            self._compact()

    def _noted(
        self, kind: str, detail: dict[str, Any], deltas: dict[str, int] | None = None
    ) -> None:
        jot = Jot(kind, detail, deltas or {})
        with suppress(KernelError):
            self.dispatch.note(self.agent, jot, op_id=uuid4().hex)
