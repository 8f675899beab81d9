"""What an agent left running on this machine, ended where nobody else is there to end it.

A watchdog ends it when the keeper dies, a keeper when the watchdog does. Where both are lost at
once, what they guarded goes on, and would write where another is at work, or where nothing is.
"""

from __future__ import annotations

import sys

from interlock.workers.processes.agent.containment import end_marked

END_S_MAX = 10.0


class LeftoversError(OSError):
    """What an agent left running cannot be ended. Try again a little later."""


def kill_leftovers(mark: str | None, *, of: str) -> None:
    """Kill what still runs here under an agent's mark. Raises RemainsError if some stays."""
    # Elsewhere the system does not show whose a process is.
    if mark and sys.platform == "linux" and not end_marked(mark, within_s=END_S_MAX):
        raise LeftoversError(f"a process that {of} left behind cannot be ended")
