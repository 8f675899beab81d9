"""Lengths of time as a workflow says them."""

from __future__ import annotations

from datetime import timedelta

MS = timedelta(milliseconds=1)


def seconds(number: float) -> timedelta:
    """Return so many seconds."""
    return timedelta(seconds=number)


def minutes(number: float) -> timedelta:
    """Return so many minutes."""
    return timedelta(minutes=number)


def hours(number: float) -> timedelta:
    """Return so many hours."""
    return timedelta(hours=number)


def days(number: float) -> timedelta:
    """Return so many days of 24 hours."""
    return timedelta(days=number)


HOUR, DAY = hours(1), days(1)


def as_ms(length: timedelta) -> int:
    """Return a length of time in ms, at least 1."""
    return max(1, length // MS)


def in_words(length: timedelta) -> str:
    """Return a length of time in its largest whole unit, as `3 days`."""
    whole = int(length.total_seconds())
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if whole >= size and whole % size == 0:
            number = whole // size
            return f"{number} {unit}{'s' if number != 1 else ''}"
    return f"{length.total_seconds():g} s"
