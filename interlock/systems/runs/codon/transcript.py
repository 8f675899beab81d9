"""The transcript of a codon's process: its session, messages, costs and result so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from interlock.system.agents import AgentFailed, ReportListener, UsageAdded
from interlock.system.tables import TransitionReason
from interlock.systems.runs.failure import is_context_exceeded
from interlock.systems.runs.machines.codon.names import Trigger
from interlock.systems.runs.plan.model import SentinelEventName

TEXT_LENGTH_SHOWN = 4_000
# The names of the cost and of the tokens in the payload of each trigger.
COSTS = {
    Trigger.COSTS_INCREMENTED: ("cost_delta", "tokens_delta"),
    Trigger.COSTS_UPDATED: ("cost", "tokens"),
    Trigger.CODON_FINAL_COST_SET: ("final_cost", "final_tokens"),
}
Observe = Callable[[SentinelEventName, Mapping[str, Any]], None]
# A trigger and its payload, for the codon's record.
RecordChange = tuple[Trigger, dict[str, Any]]


@dataclass(slots=True)
class Transcript(ReportListener):
    """The reports of one process. `observe` gets each event that sentinels may watch.

    `rejected` has one sentence for each line that is no report, or that no codon can use. The
    reader of the list empties it.
    """

    has_session = True
    observe: Observe
    prints: str = "plain"
    session_id: str | None = None
    messages: int = 0
    result_received: bool = False
    context_exceeded: bool = False
    error: str = ""
    retry_after_ms: int | None = None
    used: UsageAdded = field(default_factory=UsageAdded)
    rejected: list[str] = field(default_factory=list)
    _messages_taken: int = 0
    _recorded_micro: int = 0
    _costs: list[tuple[Trigger, UsageAdded]] = field(default_factory=list)

    def on_session(self, session: str) -> None:
        """Keep the first id."""
        self.session_id = self.session_id or session

    def on_used(self, usage: UsageAdded) -> None:
        """Add the usage. What is reported between two polls becomes one change."""
        self.used = self.used.plus(usage)
        if self._costs and self._costs[-1][0] is Trigger.COSTS_INCREMENTED:
            usage = self._costs.pop()[1].plus(usage)
        self._costs.append((Trigger.COSTS_INCREMENTED, usage))

    def on_total(self, total: UsageAdded | None, *, added: UsageAdded, final: bool) -> None:
        """Take the total for the usage so far."""
        del added
        if total is None:
            self.rejected.append("the total usage has no cost")
            return
        self.used = total
        trigger = Trigger.CODON_FINAL_COST_SET if final else Trigger.COSTS_UPDATED
        self._costs.append((trigger, total))

    def on_finished(self, summary: str) -> None:
        """Keep that there is a result."""
        del summary
        self.result_received = True

    def on_failed(self, failure: AgentFailed) -> None:
        """Keep why the agent cannot go on."""
        if failure.reason is TransitionReason.PROMPT_TOO_LONG or is_context_exceeded(failure.error):
            self.context_exceeded, self.error = True, self.error or failure.error
            return
        self.error = failure.error
        if failure.retry_after_s is not None:
            self.retry_after_ms = failure.retry_after_s * 1_000

    def on_rejected(self, reason: str, *, ends: bool) -> None:
        """Keep the reason."""
        del ends
        self.rejected.append(reason)

    def on_message(self, text: str, *, continues: bool, own: bool) -> None:
        """Let sentinels see a message of the agent; the codon's record only counts them."""
        if own:
            self.messages += not continues
            shown = {"text": text[:TEXT_LENGTH_SHOWN]}
            self.observe(SentinelEventName.ASSISTANT_MESSAGE, shown)

    def on_progress(self, message: str, percent: int | None) -> None:
        """Let sentinels see the progress."""
        del percent
        self.observe(SentinelEventName.PROGRESS, {"message": message})

    def on_tool_started(self, tool: str, call: str) -> None:
        """Let sentinels see the call of a tool."""
        self.observe(SentinelEventName.TOOL_STARTED, {"tool": tool, "id": call})

    def on_tool_completed(self, tool: str, call: str, *, success: bool) -> None:
        """Let sentinels see the end of a call."""
        event = {"tool": tool, "id": call, "success": success}
        self.observe(SentinelEventName.TOOL_COMPLETED, event)

    @property
    def unrecorded_micro(self) -> int:
        """The cost that is not written to the record yet.

        Where a provider corrected its costs downwards it is 0: recorded costs are not taken back.
        """
        return max(0, self.used.cost_micro - self._recorded_micro)

    def mark_recorded(self) -> None:
        """Note that all costs so far are written to the record."""
        self._recorded_micro = self.used.cost_micro

    def take_changes(self) -> list[RecordChange]:
        """Return the changes for the codon's record since the last call, in their order."""
        changes: list[RecordChange] = []
        for trigger, usage in self._costs:
            cost, tokens = COSTS[trigger]
            changes.append((trigger, {cost: usage.cost_micro, tokens: asdict(usage.tokens)}))
        self._costs.clear()
        if self.messages != self._messages_taken:
            self._messages_taken = self.messages
            count = {"new_count": self.messages}
            changes.append((Trigger.ASSISTANT_MESSAGE_COUNT_UPDATED, count))
        return changes
