"""Lengths of time and texts as people read them.

LINE_LENGTH_MAX, 100 characters, is the length of a text in a line of a page: pass it to `one_line`.
"""

from __future__ import annotations

from interlock.workers.text import (
    LINE_LENGTH_MAX,
    age,
    duration,
    one_line,
    visible,
)

__all__ = [
    "LINE_LENGTH_MAX",
    "age",
    "duration",
    "one_line",
    "visible",
]
