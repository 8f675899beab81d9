"""Durations, ages and values as people read them."""

from __future__ import annotations

from interlock.workers.redaction import Redaction
from interlock.workers.text import (
    age,
    duration,
    is_said,
    moment,
    sentence,
    value_words,
    visible,
    visible_json,
    visible_line,
)
from interlock.workers.text import clock as clock_time

__all__ = [
    "Redaction",
    "age",
    "clock_time",
    "duration",
    "is_said",
    "moment",
    "sentence",
    "value_words",
    "visible",
    "visible_json",
    "visible_line",
]
