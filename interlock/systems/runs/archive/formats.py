"""Tells the two formats of an exported file apart: an archive, and the page's state file."""

from __future__ import annotations

import json
from typing import Any

from interlock.systems.runs.archive.archive import BrokenArchiveError, read_archive


def state_in(content: bytes) -> dict[str, Any] | None:
    """Return the object of a state file, or None where these bytes are none."""
    try:
        state = json.loads(content)
    except (ValueError, RecursionError):
        return None
    has_runs = isinstance(state, dict) and isinstance(state.get("runs"), list)
    return state if has_runs else None


def is_archive(content: bytes) -> bool:
    """Return whether these bytes are a complete archive."""
    try:
        read_archive(content)
    except BrokenArchiveError:
        return False
    return True
