"""Kills processes that an agent left running on this host.

The watchdog ends an agent when its supervisor dies, and the supervisor ends it when the watchdog
dies. If both are killed at once, the agent goes on, and would write into a folder in which another
agent works by then.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from interlock.workers.processes.agent.containment import LABEL_VARIABLE, kill_labelled
from interlock.workers.processes.agent.process_table import environment_of, newest_processes
from interlock.workers.supervision.work_command import process_label

END_S_MAX = 10.0


class LeftoversError(OSError):
    """Processes that an agent left running cannot be killed. Try again a little later."""


def kill_leftovers(logs: Path, *, owner: str) -> None:
    """Kill the processes on this host of commands whose logs are in a folder.

    `logs` is `Command.logs` as an absolute path. `owner` names the agent in the error, such as
    "agent shop/1". Raises LeftoversError.
    """
    # Only Linux shows the environment of other processes.
    if sys.platform != "linux":
        return
    label = process_label(logs)
    for each in (label, *_labels_of_before(label)):
        if not kill_labelled(each, within_s=END_S_MAX):
            raise LeftoversError(f"a process that {owner} left behind cannot be ended")


def _labels_of_before(folder: str) -> set[str]:
    """Return the labels that supervisors of earlier versions gave to processes of this folder.

    They are `<key of the lease> <folder>`, and `<key of the lease> <folder>~sentinels`. Such a
    supervisor outlives the upgrade of its worker. This function may go once no agent can be left
    that was started before the upgrade to 1.0.
    """
    name, found = f"{LABEL_VARIABLE}=", set[str]()
    ends = (f" {folder}", f" {folder}~sentinels")
    for process in newest_processes():
        for entry in os.fsdecode(environment_of(process.pid)).split("\0"):
            # A key is no path, so the label of now of another folder is none of these.
            if entry.startswith(name) and entry.endswith(ends) and entry[len(name)] != "/":
                found.add(entry.removeprefix(name))
    return found
