"""What a host is told of one sentinel, as a value; it loads nothing."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.workers.runs.plan.model import PlannedSentinel
from interlock.workers.runs.plan.model import Strategy as PlannedStrategy
from interlock.workers.runs.sentinels.strategy import Kind, Strategy
from interlock.workers.runs.sentinels.trigger import Trigger
from interlock.workers.specs.json_line import NAME_LENGTH_MAX


@dataclass(frozen=True, slots=True)
class SentinelSpecification:
    """One sentinel. Either a command, or a model and what it is told, is called."""

    id: str
    trigger: Trigger
    strategy: Strategy
    command: str | None
    model: str | None
    prompt: str | None
    required: bool
    timeout_s: float

    @property
    def doer(self) -> str:
        """The model, or the first word of the command."""
        named = self.model if self.command is None else self.command.split(maxsplit=1)[0]
        return (named or "")[:NAME_LENGTH_MAX]

    @classmethod
    def of(cls, planned: PlannedSentinel) -> SentinelSpecification:
        """Return what a plan says of it."""
        return cls(
            id=planned.id,
            trigger=Trigger(
                tuple(map(str, planned.sequence or planned.on)), ordered=bool(planned.sequence)
            ),
            strategy=_strategy(planned.strategy),
            command=planned.command,
            model=planned.model,
            prompt=planned.prompt,
            required=planned.required,
            timeout_s=planned.timeout_s,
        )


def _strategy(planned: PlannedStrategy) -> Strategy:
    if planned.debounce_ms is not None:
        return Strategy(Kind.DEBOUNCE_S, planned.debounce_ms / 1_000)
    if planned.count is not None:
        return Strategy(Kind.COUNT, planned.count)
    if planned.window_ms is not None:
        return Strategy(Kind.WINDOW_S, planned.window_ms / 1_000)
    return Strategy(Kind.IMMEDIATE)
