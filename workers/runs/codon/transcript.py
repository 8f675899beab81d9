"""What a codon's process has said so far: session, messages, costs, result. It commits nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from interlock.kernel.machines.runs.codon.names import Trigger
from interlock.kernel.machines.runs.values import MICRO_MAX
from interlock.workers.runs.plan.model import Observed
from interlock.workers.supervision.reports import (
    AgentFailed,
    Progress,
    RejectedLine,
    ToolCompleted,
    ToolStarted,
)
from interlock.workers.supervision.session_reports import (
    ContextExceeded,
    CostsAdded,
    CostsFinal,
    CostsSet,
    MessageWritten,
    ResultReached,
    SessionOpened,
    SessionReport,
    TokenCounts,
)

TEXT_SHOWN_MAX = 4_000
Observe = Callable[[Observed, Mapping[str, Any]], None]
# A trigger and its payload, for the codon's record.
Told = tuple[Trigger, dict[str, Any]]


@dataclass(slots=True)
class Hearing:
    """One process, as it is understood. `observe` is told what sentinels may want to know."""

    observe: Observe
    session_id: str | None = None
    messages: int = 0
    result_received: bool = False
    context_exceeded: bool = False
    error: str = ""
    retry_after_ms: int | None = None
    cost_micro: int = 0
    tokens: TokenCounts = field(default_factory=TokenCounts)
    refused: list[str] = field(default_factory=list)
    _counted: int = 0
    _told_micro: int = 0
    _costs: list[Told] = field(default_factory=list)

    def feed(self, said: SessionReport | RejectedLine) -> None:
        """Take in what the process says next."""
        match said:
            case SessionOpened(id):
                self.session_id = self.session_id or id
            case CostsAdded(cost_micro, tokens):
                self._add(cost_micro, tokens)
            case CostsSet(cost_micro, tokens):
                self._set(Trigger.COSTS_UPDATED, "cost", "tokens", cost_micro, tokens)
            case CostsFinal(cost_micro, tokens):
                names = ("final_cost", "final_tokens")
                self._set(Trigger.CODON_FINAL_COST_SET, *names, cost_micro, tokens)
            case ResultReached():
                self.result_received = True
            case ContextExceeded(detail):
                self.context_exceeded, self.error = True, self.error or detail
            case AgentFailed():
                self._fail(said)
            case RejectedLine(reason):
                self.refused.append(reason)
            case _:
                self._observe_saying(said)

    def _observe_saying(self, said: SessionReport) -> None:
        """Tell what the agent does: none of it is kept in the codon's record but a count."""
        match said:
            case MessageWritten(text, continues):
                self.messages += not continues
                self.observe(Observed.ASSISTANT_MESSAGE, {"text": text[:TEXT_SHOWN_MAX]})
            case Progress(message):
                self.observe(Observed.PROGRESS, {"message": message})
            case ToolStarted(tool, id):
                self.observe(Observed.TOOL_STARTED, {"tool": tool, "id": id})
            case ToolCompleted(tool, id, success):
                about = {"tool": tool, "id": id, "success": success}
                self.observe(Observed.TOOL_COMPLETED, about)

    @property
    def untold_micro(self) -> int:
        """What was spent and nobody has taken; where the provider counted anew, the difference."""
        return max(0, self.cost_micro - self._told_micro)

    def told(self) -> None:
        """Note that the record knows all that was taken."""
        self._told_micro = self.cost_micro

    def take(self) -> list[Told]:
        """Return what the codon's record is to be told, in the order in which it was said."""
        told, self._costs = self._costs, []
        if self.messages != self._counted:
            self._counted = self.messages
            count = {"new_count": self.messages}
            told.append((Trigger.ASSISTANT_MESSAGE_COUNT_UPDATED, count))
        return told

    def _add(self, cost_micro: int, tokens: TokenCounts) -> None:
        self.cost_micro = min(self.cost_micro + cost_micro, MICRO_MAX)
        self.tokens = self.tokens.plus(tokens)
        last = self._costs[-1] if self._costs else None
        if last is not None and last[0] is Trigger.COSTS_INCREMENTED:
            # What was said within one look is told at once.
            cost_micro = min(cost_micro + last[1]["cost_delta"], MICRO_MAX)
            tokens = TokenCounts(**last[1]["tokens_delta"]).plus(tokens)
            self._costs.pop()
        added = {"cost_delta": cost_micro, "tokens_delta": asdict(tokens)}
        self._costs.append((Trigger.COSTS_INCREMENTED, added))

    def _set(
        self, trigger: Trigger, cost: str, kinds: str, cost_micro: int, tokens: TokenCounts
    ) -> None:
        self.cost_micro, self.tokens = cost_micro, tokens
        self._costs.append((trigger, {cost: cost_micro, kinds: asdict(tokens)}))

    def _fail(self, said: AgentFailed) -> None:
        self.error = said.error
        if said.retry_after_s is not None:
            self.retry_after_ms = said.retry_after_s * 1_000
