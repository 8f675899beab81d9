"""Lengths of time as a workflow says them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

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


SECOND, HOUR, DAY = seconds(1), hours(1), days(1)


def as_ms(length: timedelta) -> int:
    """Return a length of time in ms, at least 1."""
    return max(1, length // MS)


def delay_of(length: timedelta) -> Callable[[Mapping[str, Any]], int]:
    """Return a delay in ms that is the same whatever the data of the record."""
    ms = as_ms(length)

    def delay(data: Mapping[str, Any]) -> int:
        del data
        return ms

    return delay
