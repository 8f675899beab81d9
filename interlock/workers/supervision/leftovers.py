"""Kills processes that an agent left running on this host.

The watchdog ends an agent when its supervisor dies, and the supervisor ends it when the watchdog
dies. If both are killed at once, the agent goes on, and would write into a folder in which another
agent works by then.
"""

from __future__ import annotations

import sys
from pathlib import Path

from interlock.workers.processes.agent.containment import kill_labelled
from interlock.workers.supervision.work_command import process_label

END_S_MAX = 10.0


class LeftoversError(OSError):
    """Processes that an agent left running cannot be killed. Try again a little later."""


def kill_leftovers(logs: Path, *, owner: str) -> None:
    """Kill the processes on this host of commands whose logs are in a folder.

    Raises LeftoversError.
    """
    label = process_label(logs)
    # Only Linux shows the environment of other processes.
    if sys.platform == "linux" and not kill_labelled(label, within_s=END_S_MAX):
        raise LeftoversError(f"a process that {owner} left behind cannot be ended")
