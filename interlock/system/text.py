"""Lengths of time and texts as people read them."""

from __future__ import annotations

from interlock.workers.text import (
    duration,
    sentence,
    visible,
)

__all__ = [
    "duration",
    "sentence",
    "visible",
]
