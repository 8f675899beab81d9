"""The files that a task owns, and the name under which its changes are committed. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.workers.gateways.git.repository import Identity

# The code of a failure for changes of files that the task does not own.
SCOPE_VIOLATION = "scope_violation"
COMMITTER = Identity("Interlock", "interlock@localhost")


def outside(paths: tuple[str, ...], owned: Sequence[str]) -> tuple[str, ...]:
    """Return the paths that a task does not own. A task that lists none owns every file."""
    if not owned:
        return ()
    return tuple(
        path
        for path in paths
        if not any(path == item or path.startswith(f"{item}/") for item in owned)
    )
