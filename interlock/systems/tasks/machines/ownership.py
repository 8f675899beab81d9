"""Which files a task owns. Pure."""

from __future__ import annotations

from collections.abc import Sequence

# The code of a failure for changes of files that the task does not own.
SCOPE_VIOLATION = "scope_violation"


def outside(paths: Sequence[str], owned: Sequence[str]) -> tuple[str, ...]:
    """Return the paths that a task does not own.

    It owns the listed files and folders with all that is in them, or every file if it lists none.
    """
    if not owned:
        return ()
    return tuple(
        path
        for path in paths
        if not any(path == item or path.startswith(f"{item}/") for item in owned)
    )
