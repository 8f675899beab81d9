"""Reads the end of a file that another process may be writing."""

from __future__ import annotations

from pathlib import Path


def last_bytes(file: Path, bytes_max: int) -> tuple[bytes, int]:
    """Return the last bytes of a file, and the size of the whole file in bytes. Raises OSError."""
    with file.open("rb") as source:
        size = source.seek(0, 2)
        source.seek(max(size - bytes_max, 0))
        found = source.read(min(size, bytes_max))
    return found, size
