"""Reads the end of a file that another process may be writing."""

from __future__ import annotations

from pathlib import Path

BYTES_MAX = 16_384


def last_lines(file: Path, lines_max: int) -> str:
    """Return the last lines of a text file, of at most BYTES_MAX bytes; '' if there is no file."""
    try:
        with file.open("rb") as source:
            size = source.seek(0, 2)
            source.seek(max(size - BYTES_MAX, 0))
            found = source.read()
    except FileNotFoundError:
        return ""
    return "\n".join(found.decode("utf-8", "replace").splitlines()[-lines_max:])
