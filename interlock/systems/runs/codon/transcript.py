"""The transcript of a codon's process: its session, messages, costs and result so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from interlock.system.agents import (
    AgentFailed,
    MessageWritten,
    Progress,
    RejectedLine,
    Report,
    SessionOpened,
    ToolCompleted,
    ToolStarted,
    UsageAdded,
    UsageTotal,
    UsedTokens,
    WorkFinished,
)
from interlock.system.tables import TransitionReason
from interlock.systems.runs.failure import is_context_exceeded
from interlock.systems.runs.machines.codon.names import Trigger
from interlock.systems.runs.machines.limits import MICRO_MAX
from interlock.systems.runs.plan.model import SentinelEventName

TEXT_LENGTH_SHOWN = 4_000
# By whether a total is final: the trigger, and the names of its cost and of its tokens.
TOTALS = {
    False: (Trigger.COSTS_UPDATED, "cost", "tokens"),
    True: (Trigger.CODON_FINAL_COST_SET, "final_cost", "final_tokens"),
}
Observe = Callable[[SentinelEventName, Mapping[str, Any]], None]
# A trigger and its payload, for the codon's record.
RecordChange = tuple[Trigger, dict[str, Any]]


@dataclass(slots=True)
class Transcript:
    """The reports of one process. `observe` gets each event that sentinels may watch.

    `rejected` has one sentence for each line that is no report, or that no codon can use. The
    reader of the list empties it.
    """

    observe: Observe
    session_id: str | None = None
    messages: int = 0
    result_received: bool = False
    context_exceeded: bool = False
    error: str = ""
    retry_after_ms: int | None = None
    cost_micro: int = 0
    tokens: UsedTokens = field(default_factory=UsedTokens)
    rejected: list[str] = field(default_factory=list)
    _messages_taken: int = 0
    _recorded_micro: int = 0
    _costs: list[RecordChange] = field(default_factory=list)

    def feed(self, report: Report | RejectedLine) -> None:
        """Add the next report of the process."""
        match report:
            case SessionOpened(id):
                self.session_id = self.session_id or id
            case UsageAdded(cost_micro, tokens):
                self._add(cost_micro, tokens)
            case UsageTotal(None):
                self.rejected.append("the total usage has no cost")
            case UsageTotal(int(cost_micro), tokens, final):
                self._set(cost_micro, tokens, final=final)
            case WorkFinished():
                self.result_received = True
            case AgentFailed():
                self._fail(report)
            case RejectedLine(reason):
                self.rejected.append(reason)
            case _:
                self._observe_activity(report)

    def _observe_activity(self, report: Report) -> None:
        """Pass the agent's activity to sentinels; the codon's record only counts the messages."""
        match report:
            case MessageWritten(text, continues, own=True):
                self.messages += not continues
                shown = {"text": text[:TEXT_LENGTH_SHOWN]}
                self.observe(SentinelEventName.ASSISTANT_MESSAGE, shown)
            case Progress(message):
                self.observe(SentinelEventName.PROGRESS, {"message": message})
            case ToolStarted(tool, id):
                self.observe(SentinelEventName.TOOL_STARTED, {"tool": tool, "id": id})
            case ToolCompleted(tool, id, success):
                event = {"tool": tool, "id": id, "success": success}
                self.observe(SentinelEventName.TOOL_COMPLETED, event)

    @property
    def unrecorded_micro(self) -> int:
        """The cost that is not written to the record yet.

        Where a provider corrected its costs downwards it is 0: recorded costs are not taken back.
        """
        return max(0, self.cost_micro - self._recorded_micro)

    def mark_recorded(self) -> None:
        """Note that all costs so far are written to the record."""
        self._recorded_micro = self.cost_micro

    def take_changes(self) -> list[RecordChange]:
        """Return the changes for the codon's record since the last call, in their order."""
        changes, self._costs = self._costs, []
        if self.messages != self._messages_taken:
            self._messages_taken = self.messages
            count = {"new_count": self.messages}
            changes.append((Trigger.ASSISTANT_MESSAGE_COUNT_UPDATED, count))
        return changes

    def _add(self, cost_micro: int, tokens: UsedTokens) -> None:
        self.cost_micro = min(self.cost_micro + cost_micro, MICRO_MAX)
        self.tokens = self.tokens.plus(tokens)
        last = self._costs[-1] if self._costs else None
        if last is not None and last[0] is Trigger.COSTS_INCREMENTED:
            # Costs that are reported between two polls become one change.
            cost_micro = min(cost_micro + last[1]["cost_delta"], MICRO_MAX)
            tokens = UsedTokens(**last[1]["tokens_delta"]).plus(tokens)
            self._costs.pop()
        added = {"cost_delta": cost_micro, "tokens_delta": asdict(tokens)}
        self._costs.append((Trigger.COSTS_INCREMENTED, added))

    def _set(self, cost_micro: int, tokens: UsedTokens, *, final: bool) -> None:
        trigger, cost_name, tokens_name = TOTALS[final]
        self.cost_micro, self.tokens = cost_micro, tokens
        self._costs.append((trigger, {cost_name: cost_micro, tokens_name: asdict(tokens)}))

    def _fail(self, report: AgentFailed) -> None:
        if report.reason is TransitionReason.PROMPT_TOO_LONG or is_context_exceeded(report.error):
            self.context_exceeded, self.error = True, self.error or report.error
            return
        self.error = report.error
        if report.retry_after_s is not None:
            self.retry_after_ms = report.retry_after_s * 1_000
