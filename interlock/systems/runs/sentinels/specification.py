"""The specification of one sentinel, as a host gets it from the plan."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.systems.runs.machines.limits import NAME_LENGTH_MAX
from interlock.systems.runs.plan.model import PlannedSentinel, PlannedStrategy
from interlock.systems.runs.sentinels.call_timing import BatchingKind, BatchingStrategy
from interlock.systems.runs.sentinels.trigger import SentinelTrigger


@dataclass(frozen=True, slots=True)
class SentinelSpecification:
    """One sentinel. It has either a command, or a model with a prompt."""

    id: str
    trigger: SentinelTrigger
    strategy: BatchingStrategy
    command: str | None
    model: str | None
    prompt: str | None
    required: bool
    timeout_s: float

    @property
    def display_name(self) -> str:
        """The model, or the first word of the command."""
        name = self.model if self.command is None else self.command.split(maxsplit=1)[0]
        return (name or "")[:NAME_LENGTH_MAX]

    @classmethod
    def of(cls, planned: PlannedSentinel) -> SentinelSpecification:
        """Return the specification of a sentinel of a plan."""
        return cls(
            id=planned.id,
            trigger=SentinelTrigger(
                tuple(map(str, planned.sequence or planned.on)), ordered=bool(planned.sequence)
            ),
            strategy=_strategy(planned.strategy),
            command=planned.command,
            model=planned.model,
            prompt=planned.prompt,
            required=planned.required,
            timeout_s=planned.timeout_s,
        )


def _strategy(planned: PlannedStrategy) -> BatchingStrategy:
    if planned.debounce_ms is not None:
        return BatchingStrategy(BatchingKind.DEBOUNCE_S, planned.debounce_ms / 1_000)
    if planned.count is not None:
        return BatchingStrategy(BatchingKind.COUNT, planned.count)
    if planned.window_ms is not None:
        return BatchingStrategy(BatchingKind.WINDOW_S, planned.window_ms / 1_000)
    return BatchingStrategy(BatchingKind.IMMEDIATE)
