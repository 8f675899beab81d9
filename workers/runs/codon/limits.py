"""What a codon may use: time, silence, budgets of its own and of its run. It ends nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass

from interlock.kernel.machines.runs.values import MICRO_MAX, BudgetExceeded
from interlock.workers.runs.codon.transcript import Hearing
from interlock.workers.runs.outcome import Patience
from interlock.workers.runs.plan.model import Budget, Exceeded, PlannedCodon

TIMED_OUT, IDLE, SPENT = "timeout", "idle", "budget"
PATIENCE = {TIMED_OUT: Patience.WHOLE, IDLE: Patience.IDLE}


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


class Limits:
    """The limits of one execution, counted from when its process began.

    `whole` is the run's budget, and `before` what was used of that by earlier codons. `over` is the
    budget that is used up, and `policy` what then becomes of the codon.
    """

    def __init__(self, codon: PlannedCodon, whole: Budget | None, before: Used) -> None:
        self.codon, self.whole, self.before = codon, whole, before
        self.over: BudgetExceeded | None = None
        self.policy = Exceeded.COMPLETE
        self.began = 0.0

    def begin(self) -> None:
        """Count from now."""
        self.began = time.monotonic()

    def passed(self, hearing: Hearing, progress: float) -> str | None:
        """Return which limit is passed; `progress` is the time of the last sign of life."""
        now = time.monotonic()
        if self.codon.timeout_s is not None and now > self.began + self.codon.timeout_s:
            return TIMED_OUT
        if now > max(progress, self.began) + self.codon.idle_s:
            return IDLE
        return SPENT if self._is_over(hearing, now) else None

    def _is_over(self, hearing: Hearing, now: float) -> bool:
        if self.over is not None:
            return True
        lasted_ms, output = int((now - self.began) * 1_000), hearing.tokens.output_tokens
        own = Used(hearing.cost_micro, lasted_ms, output)
        for budget, used in ((self.codon.budget, own), (self.whole, own.plus(self.before))):
            if budget is not None and (over := exceeded(budget, used)):
                self.over, self.policy = over, budget.exceeded
                return True
        return False


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
