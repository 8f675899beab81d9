"""The limits of a codon's execution: its time, its silence, its own budget and that of its run."""

from __future__ import annotations

import time
from dataclasses import dataclass

from interlock.systems.runs.codon.transcript import Transcript
from interlock.systems.runs.machines.limits import MICRO_MAX
from interlock.systems.runs.machines.values import BudgetExceeded
from interlock.systems.runs.outcome import TimeLimit
from interlock.systems.runs.plan.model import BudgetPolicy, PlanBudget, PlannedCodon

CODON_END_S = 5.0  # from SIGTERM until SIGKILL, for the processes of a codon
TIMED_OUT, IDLE, OVER_BUDGET = "timeout", "idle", "budget"
TIME_LIMITS = {TIMED_OUT: TimeLimit.WHOLE, IDLE: TimeLimit.IDLE}


@dataclass(frozen=True, slots=True)
class BudgetUsage:
    """How much of a budget is used: micro-dollars, ms, output tokens."""

    cost_micro: int = 0
    duration_ms: int = 0
    output_tokens: int = 0

    def plus(self, other: BudgetUsage) -> BudgetUsage:
        """Return the sum of both, each number at most as large as a record can store."""
        return BudgetUsage(
            min(self.cost_micro + other.cost_micro, MICRO_MAX),
            min(self.duration_ms + other.duration_ms, MICRO_MAX),
            min(self.output_tokens + other.output_tokens, MICRO_MAX),
        )


class CodonLimits:
    """The limits of one execution, counted from the start of its agent's process.

    `run_budget` is the run's budget, and `used_before` the part that earlier codons used. Once a
    budget is used up, `budget_exceeded` names its limit, and `policy` is the policy of the budget.
    """

    def __init__(
        self, codon: PlannedCodon, run_budget: PlanBudget | None, used_before: BudgetUsage
    ) -> None:
        self.codon, self.run_budget, self.used_before = codon, run_budget, used_before
        self.budget_exceeded: BudgetExceeded | None = None
        self.policy = BudgetPolicy.COMPLETE
        self.started_at = 0.0

    def start(self) -> None:
        """Start counting the time."""
        self.started_at = time.monotonic()

    def reason_to_end(self, transcript: Transcript, last_activity: float) -> str | None:
        """Return which limit is passed, if any: TIMED_OUT, IDLE or OVER_BUDGET.

        `last_activity` is the time of the agent's last output or report.
        """
        now = time.monotonic()
        if self.codon.timeout_s is not None and now > self.started_at + self.codon.timeout_s:
            return TIMED_OUT
        if now > max(last_activity, self.started_at) + self.codon.idle_s:
            return IDLE
        return OVER_BUDGET if self._is_over_budget(transcript, now) else None

    def _is_over_budget(self, transcript: Transcript, now: float) -> bool:
        if self.budget_exceeded is not None:
            return True
        duration_ms = int((now - self.started_at) * 1_000)
        used = transcript.used
        usage = BudgetUsage(used.cost_micro, duration_ms, used.tokens.output_tokens)
        of_run = usage.plus(self.used_before)
        for budget, of_it in ((self.codon.budget, usage), (self.run_budget, of_run)):
            if budget is not None and (over := exceeded_limit(budget, of_it)):
                self.budget_exceeded, self.policy = over, budget.exceeded
                return True
        return False


def exceeded_limit(budget: PlanBudget | None, usage: BudgetUsage) -> BudgetExceeded | None:
    """Return the limit of a budget that is exceeded, in the units of the record, or None."""
    if budget is None:
        return None
    if budget.cost_micro is not None and usage.cost_micro > budget.cost_micro:
        return BudgetExceeded(currency="cost", limit=budget.cost_micro, used=usage.cost_micro)
    if budget.duration_s is not None and usage.duration_ms > budget.duration_s * 1_000:
        limit = budget.duration_s * 1_000
        return BudgetExceeded(currency="duration", limit=limit, used=usage.duration_ms)
    if budget.output_tokens is not None and usage.output_tokens > budget.output_tokens:
        limit, used = budget.output_tokens, usage.output_tokens
        return BudgetExceeded(currency="output_tokens", limit=limit, used=used)
    return None
