"""Whose the files of a task are: in whose name they are committed, and which are its own; pure."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.workers.gateways.git.repository import Identity

# The code of a failure for changes beyond the files that a task owns.
SCOPE_VIOLATION = "scope_violation"
IDENTITY = Identity("Interlock", "interlock@localhost")


def outside(paths: tuple[str, ...], owned: Sequence[str]) -> tuple[str, ...]:
    """Return what was changed beyond the files that a task owns; without any, all are its own."""
    if not owned:
        return ()
    return tuple(
        path
        for path in paths
        if not any(path == one or path.startswith(f"{one}/") for one in owned)
    )
