"""Lengths of time and texts as people read them."""

from __future__ import annotations

from interlock.workers.text import (
    age,
    duration,
    sentence,
    visible,
)

__all__ = [
    "age",
    "duration",
    "sentence",
    "visible",
]
