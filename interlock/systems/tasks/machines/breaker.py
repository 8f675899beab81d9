"""When an agent is cut off at work: for its scope, its budget or repeated failures. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum, auto

from interlock.system.tables import AbortReason, TransitionReason, dollars
from interlock.systems.tasks.machines.task.limits import TOOL_FAILURES

FILES_SHOWN_MAX = 5  # of the files that an agent changed and does not own, those that are named


class TripCause(StrEnum):
    """The reasons for which the breaker trips."""

    SCOPE = auto()
    BUDGET = auto()
    FAILURES = auto()


@dataclass(frozen=True, slots=True)
class BreakerLimits:
    """The limits of one try: micro-dollars (None: no limit), and failed tool calls in a row."""

    budget_micro: int | None = None
    failures_max: int = TOOL_FAILURES


@dataclass(frozen=True, slots=True)
class Trip:
    """Why an agent was cut off: a sentence and the published codes.

    `final` means that trying the task again cannot help.
    """

    cause: TripCause
    reason: str
    abort: AbortReason
    why: TransitionReason
    final: bool = False


def tripped(
    limits: BreakerLimits, *, spent_micro: int, failures_in_row: int, outside: Sequence[str]
) -> Trip | None:
    """Return why an agent must be cut off now, or None; of several causes the gravest.

    `outside` are the files that it changed and does not own.
    """
    if outside:
        named = ", ".join(outside[:FILES_SHOWN_MAX])
        return Trip(
            TripCause.SCOPE,
            f"it changed files that it does not own: {named}",
            AbortReason.PERMISSION_DENIED,
            TransitionReason.PERMISSION_DENIED,
            final=True,
        )
    if limits.budget_micro is not None and spent_micro > limits.budget_micro:
        return Trip(
            TripCause.BUDGET,
            f"it spent {dollars(spent_micro)} of {dollars(limits.budget_micro)}",
            AbortReason.SHUTDOWN_SIGNAL,
            TransitionReason.ABORTED,
        )
    if failures_in_row >= limits.failures_max:
        return Trip(
            TripCause.FAILURES,
            f"{failures_in_row} of its tool calls failed in a row",
            AbortReason.BASH_ERROR,
            TransitionReason.ABORTED,
        )
    return None
