"""Timers: after which time a state fires a trigger, or reminds somebody."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from interlock.kernel.effect import Effect

Since = Literal["entry", "created", "epoch"]
DELAY_MS_MAX = 10**14  # until the year 5138


@dataclass(frozen=True, slots=True)
class Timer:
    """A named delay in a stage, in ms from the entry; None sets no timer.

    With `since="created"` it counts from the creation of the record, by the store's clock, and is
    due at the same time in every state that has it. With `since="epoch"` it is no delay, but the
    time at which the timer is due, in ms since 1970. What is past already is due at once.

    When it is due, the stall sweep fires `trigger` with `payload`. Where no worker ever claimed the
    state's effect, it fires with `unbegun_payload`, and `unbegun_deltas` take back what was counted
    too early. A timer without a trigger is a reminder: the sweep makes the record owe `effect`
    again, writes a note and sets the timer again, each time with a longer delay.
    """

    name: str
    delay: Callable[[Any], int | None]
    trigger: StrEnum | None = None
    effect: Effect | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    unbegun_payload: Mapping[str, Any] | None = None
    unbegun_deltas: Callable[[Any], Mapping[str, int]] | None = None
    since: Since = "entry"

    def payload_when(self, *, begun: bool) -> Mapping[str, Any]:
        """Return the payload that the timer fires its trigger with."""
        return self.payload if begun or self.unbegun_payload is None else self.unbegun_payload

    def deltas_when(self, data: Mapping[str, Any], *, begun: bool) -> Mapping[str, int]:
        """Return how the record's counters change when the timer fires."""
        return {} if begun or self.unbegun_deltas is None else self.unbegun_deltas(data)

    def due(self, data: Mapping[str, Any]) -> TimerDue | None:
        """Return when the timer is due in a record with this data. Raises TypeError."""
        delay = self.delay(data)
        if delay is None:
            return None
        is_number = isinstance(delay, (int, float)) and not isinstance(delay, bool)
        if not is_number or not abs(delay) <= DELAY_MS_MAX:
            raise TypeError(f"the timer {self.name} takes a number of ms, not {delay!r}")
        return TimerDue(self.name, int(delay), self.since)


@dataclass(frozen=True, slots=True)
class TimerDue:
    """A timer that a decision starts."""

    name: str
    delay_ms: int
    since: Since = "entry"
