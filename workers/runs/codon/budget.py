"""Whether a budget is used up; it measures nothing itself."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.kernel.machines.runs.values import MICRO_MAX, BudgetExceeded
from interlock.workers.runs.plan.model import Budget


@dataclass(frozen=True, slots=True)
class Used:
    """What was used: micro-dollars, ms, tokens of output."""

    cost_micro: int = 0
    duration_ms: int = 0
    output_tokens: int = 0

    def plus(self, other: Used) -> Used:
        """Return both together; no sum grows beyond what can be counted."""
        return Used(
            min(self.cost_micro + other.cost_micro, MICRO_MAX),
            min(self.duration_ms + other.duration_ms, MICRO_MAX),
            min(self.output_tokens + other.output_tokens, MICRO_MAX),
        )


def exceeded(budget: Budget | None, used: Used) -> BudgetExceeded | None:
    """Return which limit is reached, in the units of the record; None where none is."""
    if budget is None:
        return None
    if budget.cost_micro is not None and used.cost_micro > budget.cost_micro:
        return BudgetExceeded(currency="cost", limit=budget.cost_micro, used=used.cost_micro)
    if budget.duration_s is not None and used.duration_ms > budget.duration_s * 1_000:
        limit = budget.duration_s * 1_000
        return BudgetExceeded(currency="duration", limit=limit, used=used.duration_ms)
    if budget.output_tokens is not None and used.output_tokens > budget.output_tokens:
        limit, used_tokens = budget.output_tokens, used.output_tokens
        return BudgetExceeded(currency="output_tokens", limit=limit, used=used_tokens)
    return None
