"""Durations, ages and values as people read them."""

from __future__ import annotations

from interlock.workers.text import (
    duration,
    is_said,
    sentence,
    visible,
)

__all__ = [
    "duration",
    "is_said",
    "sentence",
    "visible",
]
