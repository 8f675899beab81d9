"""What words of a text mean in time: a day, a time of day, a length, or nothing that is clear."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, time


@dataclass(frozen=True, slots=True)
class When:
    """A day, a time of day and a length of time; each is None if it is not known."""

    day: date | None = None
    time_of_day: time | None = None
    minutes: int | None = None

    def or_else(self, other: When) -> When:
        """Return a copy with the unknown parts taken from `other`."""
        return When(
            self.day or other.day,
            self.time_of_day or other.time_of_day,
            self.minutes if self.minutes is not None else other.minutes,
        )


@dataclass(frozen=True, slots=True)
class Mention:
    """Some words of a text that name a time: what they mean, or why that is not clear."""

    start: int
    end: int
    words: str
    when: When = When()
    unclear: str | None = None
    # Whether it names a time, but no exact one: "next week".
    is_vague: bool = False
    # Whether it names a time of day, and not a day.
    is_clock: bool = False
    # The part of a day or another addition that `when` has no place for: "morning".
    beside: str = ""
    # The times that an end without a begin may mean: "until five".
    ends: tuple[time, ...] = ()
