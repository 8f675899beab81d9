"""Finds all processes of an agent, and signals and kills them.

There are three kinds of containment; the first that works is used: a cgroup of its own and all
descendants; a subreaper, so that a process which loses its parent stays a descendant of ours; or
the process group alone. Only the first two contain processes that called setsid or forked twice.
"""

from __future__ import annotations

import _signal as signal
import ctypes
import os
import sys
import time

from interlock.workers.processes.agent.process_table import (
    ProcessInfo,
    has_variable,
    newest_processes,
    send_signals,
)

# Not imported when it runs: the comment in `watchdog` says why.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from interlock.workers.processes.agent.cgroup import Cgroup

# The kinds of containment, the best first.
CGROUP, SUBREAPER, GROUP = KINDS = ("cgroup", "subreaper", "process group")
LABEL_VARIABLE = "INTERLOCK_AGENT_MARK"
# Less than the watchdog's margin, so that a process that cannot be stopped does not delay the kill.
FREEZE_S = 0.25
_POLL_S = 0.005
_QUIET_POLLS = 2
_PR_SET_CHILD_SUBREAPER = 36


class ProcessTree:
    """All descendants of one process of ours, and all processes of a cgroup if there is one.

    The root must be a subreaper, so that a process that loses its parent stays in the tree.
    `excluded` are children of the root that do not belong to the agent. Processes with the label
    are found even outside the tree.
    """

    def __init__(
        self,
        root: int,
        *,
        cgroup: Cgroup | None = None,
        excluded: Collection[ProcessInfo] = (),
        label: str | None = None,
    ) -> None:
        self.cgroup = cgroup
        self._root = root
        self._excluded = {(each.pid, each.started) for each in excluded}
        self._label = None if label is None else os.fsencode(f"{LABEL_VARIABLE}={label}")

    def signal(self, *signals: int) -> list[ProcessInfo]:
        """Signal all processes, and return them as they were just before, zombies included."""
        found, others = list[ProcessInfo](), dict[int, list[ProcessInfo]]()
        inside = set[int]() if self.cgroup is None else self.cgroup.members()
        for process in newest_processes():
            if process.pid in inside or self._is_agents(process):
                # Signalled at once: at the end of the list it may have forked and ended.
                send_signals(process, *signals)
                found.append(process)
            else:
                others.setdefault(process.parent, []).append(process)
        for process in found:
            # The list grows during the loop, so children of children follow.
            for child in others.pop(process.pid, ()):
                send_signals(child, *signals)
                found.append(child)
        return found

    def terminate(self) -> None:
        """Send SIGTERM to all, and SIGCONT so that stopped processes receive it.

        The oldest comes first: a shell whose child ends before it would go on with its script.
        """
        for process in sorted(self.signal(), key=lambda found: (found.started, found.pid)):
            send_signals(process, signal.SIGTERM, signal.SIGCONT)

    def freeze(self, until: float) -> None:
        """Stop all processes, so that none can start another one during the kill."""
        # A cgroup is killed in one step.
        if not self.any_left():
            self.pause(until)

    def pause(self, until: float) -> bool:
        """Stop all processes; return whether all have stopped in time."""
        quiet = 0
        while quiet < _QUIET_POLLS:
            # Two rounds: a child may start after the list is made and before its parent is read.
            quiet = (
                quiet + 1
                if all(process.is_halted for process in self.signal(signal.SIGSTOP))
                else 0
            )
            # Checked after a round, so that there is at least one even after a stall.
            if quiet < _QUIET_POLLS and time.monotonic() >= until:
                return False
        return True

    def kill(self) -> None:
        """Kill all processes that are found now."""
        if self.cgroup is not None:
            self.cgroup.kill()
        self.signal(signal.SIGKILL)

    def pids(self) -> list[int]:
        """Return the ids of the live processes."""
        return [process.pid for process in self.signal() if not process.has_ended]

    def any_left(self) -> bool:
        """Whether a process is left in the cgroup; only the reaper knows of other descendants."""
        return self.cgroup is not None and self.cgroup.populated()

    def _is_agents(self, process: ProcessInfo) -> bool:
        if process.pid == os.getpid():
            return False
        if process.parent == self._root:
            return (process.pid, process.started) not in self._excluded
        return self._label is not None and has_variable(process.pid, self._label)


class AgentGroup:
    """The process group of an agent's leader, for systems without a better containment."""

    cgroup = None

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self._gone = False

    def signal(self, *signals: int) -> None:
        """Signal all processes of the group."""
        for number in signals:
            # Once the group was empty, its number may be that of another group.
            if self._gone:
                return
            try:
                os.killpg(self.leader, number)
            except ProcessLookupError:
                self._gone = True
            except PermissionError:
                return

    def terminate(self) -> None:
        """Send SIGTERM to all, and SIGCONT so that stopped processes receive it."""
        self.signal(signal.SIGTERM, signal.SIGCONT)

    def freeze(self, until: float) -> None:
        """Do nothing: a group is signalled in one step, during which none can fork."""

    def pause(self, until: float) -> bool:
        """Stop all processes of the group, which takes one step."""
        del until
        self.signal(signal.SIGSTOP)
        return True

    def kill(self) -> None:
        """Kill all processes of the group."""
        self.signal(signal.SIGKILL)

    def pids(self) -> list[int]:
        """Return the group's number if it is not empty; its members cannot be listed."""
        return [self.leader] if self.any_left() else []

    def any_left(self) -> bool:
        """Whether a process is left in the group."""
        self.signal(0)
        return not self._gone


def kill_everything(
    processes: ProcessTree | AgentGroup, *, nothing_left: Callable[[], bool], within_s: float
) -> bool:
    """Kill until no process is left; False if some are left after `within_s`."""
    began = time.monotonic()
    processes.freeze(began + min(FREEZE_S, within_s))
    while True:
        processes.kill()
        if nothing_left():
            return True
        if time.monotonic() > began + within_s:
            return False
        time.sleep(_POLL_S)


def kill_labelled(label: str, *, within_s: float) -> bool:
    """Kill processes with this label and their descendants, when supervisor and watchdog are gone.

    This is the last resort: a process that was started with another environment and has lost its
    parent is not found. Returns False if a process is left, or if the system is not Linux: only
    Linux shows the environment of other processes.
    """
    if sys.platform != "linux":
        return False
    processes = ProcessTree(-1, label=label)

    def nothing_left() -> bool:
        if processes.pids():
            return False
        # A second look: a child may have started meanwhile, and one that starts shows no label.
        time.sleep(_POLL_S)
        return not processes.pids()

    # Looked at first: mostly nothing is left, and each round reads all processes of the computer.
    return nothing_left() or kill_everything(
        processes, nothing_left=nothing_left, within_s=within_s
    )


def adopt_orphans(*, enabled: bool) -> bool:
    """Make this process a subreaper of its descendants, or undo that; False if it cannot."""
    if sys.platform != "linux":
        return False
    result: int = ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(enabled), 0, 0, 0)
    return result == 0
