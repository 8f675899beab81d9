"""One-line text for logs and records."""

from __future__ import annotations

DETAIL_LENGTH_MAX = 500


def sentence(text: str, *, length_max: int = DETAIL_LENGTH_MAX) -> str:
    """Return any text as one line that fits into a log: no newline, no lone surrogate."""
    line = " ".join(text[: 8 * length_max].split())
    line = line.encode(errors="backslashreplace").decode()
    return line if len(line) <= length_max else line[: length_max - 3] + "..."
