"""What holds an agent's processes together, so that all of them are found; it starts none.

Three kinds, the best that works is taken: a cgroup of its own (and whatever descends besides), a
subreaper (whoever loses a parent becomes the child of a process of ours, so that descent tells
all), the process group alone. Only the first two also hold who called setsid or forked twice.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Collection
from enum import StrEnum

from interlock.workers.processes.agent.cgroup import Cgroup
from interlock.workers.processes.agent.process_table import Seen, carries, newest_first, send

MARK = "INTERLOCK_AGENT_MARK"
# Less than the watchdog's margin: who cannot be stopped must not make the killing late.
FREEZE_S = 0.25
_POLL_S = 0.005
_CALM_POLLS = 2
_PR_SET_CHILD_SUBREAPER = 36


class Containment(StrEnum):
    """The kinds of containment, the best first."""

    CGROUP = "cgroup"
    SUBREAPER = "subreaper"
    GROUP = "process group"


class Tree:
    """Everything below one process of ours, and everything in a cgroup where there is one.

    The root must be a subreaper, so that losing a parent takes nobody out of the tree. `spared`
    are children of the root that are not the agent's. Who carries the mark is found anywhere.
    """

    def __init__(
        self,
        root: int,
        *,
        cgroup: Cgroup | None = None,
        spared: Collection[Seen] = (),
        mark: str | None = None,
    ) -> None:
        self.cgroup = cgroup
        self._root = root
        self._spared = {(one.pid, one.started) for one in spared}
        self._mark = None if mark is None else os.fsencode(f"{MARK}={mark}")

    def signal(self, *numbers: int) -> list[Seen]:
        """Signal everyone; return all as they were just before, the dead among them."""
        found, others = list[Seen](), dict[int, list[Seen]]()
        inside = set[int]() if self.cgroup is None else self.cgroup.members()
        for seen in newest_first():
            if seen.pid in inside or self._ours(seen):
                # At once, not after the whole look: who forks and ends is gone by then.
                send(seen, *numbers)
                found.append(seen)
            else:
                others.setdefault(seen.parent, []).append(seen)
        for seen in found:
            # The list grows while it is walked: children of children follow.
            for child in others.pop(seen.pid, ()):
                send(child, *numbers)
                found.append(child)
        return found

    def ask(self) -> None:
        """Ask everyone to end; who is stopped has to wake up to hear it."""
        self.signal(signal.SIGTERM, signal.SIGCONT)

    def freeze(self, until: float) -> None:
        """Stop everyone, so that nobody starts another or answers a death with a new child."""
        calm = 0
        while not self.left() and calm < _CALM_POLLS and time.monotonic() < until:
            # Two looks: a child may be born after the list was made, before its parent was read.
            calm = calm + 1 if all(seen.halted for seen in self.signal(signal.SIGSTOP)) else 0

    def kill(self) -> None:
        """Kill everyone who is seen now."""
        if self.cgroup is not None:
            self.cgroup.kill()
        self.signal(signal.SIGKILL)

    def pids(self) -> list[int]:
        """Return the numbers of the live processes."""
        return [seen.pid for seen in self.signal() if not seen.dead]

    def left(self) -> bool:
        """Tell whether the cgroup holds anyone; of descent, only who reaps can be sure."""
        return self.cgroup is not None and self.cgroup.populated()

    def _ours(self, seen: Seen) -> bool:
        if seen.pid == os.getpid():
            return False
        if seen.parent == self._root:
            return (seen.pid, seen.started) not in self._spared
        return self._mark is not None and carries(seen.pid, self._mark)


class Group:
    """The process group of a leader: all there is where the system has nothing better."""

    cgroup = None

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self._gone = False

    def signal(self, *numbers: int) -> None:
        """Signal everyone in the group."""
        for number in numbers:
            # Once the group was seen empty, its number may belong to strangers.
            if self._gone:
                return
            try:
                os.killpg(self.leader, number)
            except ProcessLookupError:
                self._gone = True
            except PermissionError:
                return

    def ask(self) -> None:
        """Ask everyone to end; who is stopped has to wake up to hear it."""
        self.signal(signal.SIGTERM, signal.SIGCONT)

    def freeze(self, until: float) -> None:
        """Do nothing: the system signals a group in one step, no fork slips through."""

    def kill(self) -> None:
        """Kill everyone in the group."""
        self.signal(signal.SIGKILL)

    def pids(self) -> list[int]:
        """Return the group's number if anyone is left: who is in it is not to be had."""
        return [self.leader] if self.left() else []

    def left(self) -> bool:
        """Tell whether anyone is left in the group."""
        self.signal(0)
        return not self._gone


def kill_everything(
    held: Tree | Group, *, nothing_left: Callable[[], bool], within_s: float
) -> bool:
    """Kill until nothing is left; False if the time was too short for that."""
    began = time.monotonic()
    held.freeze(began + min(FREEZE_S, within_s))
    while True:
        held.kill()
        if nothing_left():
            return True
        if time.monotonic() > began + within_s:
            return False
        time.sleep(_POLL_S)


def end_marked(mark: str, *, within_s: float) -> bool:
    """Kill who was started with this mark and everyone below, when neither keeper nor watchdog is.

    The last resort: who was started with another environment, and lost its parent, is not found.
    False if somebody is left, or where the system does not show environments.
    """
    if sys.platform != "linux":
        return False
    held, calm = Tree(-1, mark=mark), 0

    def nothing_left() -> bool:
        nonlocal calm
        calm = 0 if held.pids() else calm + 1
        return calm >= _CALM_POLLS

    return kill_everything(held, nothing_left=nothing_left, within_s=within_s)


def adopt_orphans(*, wanted: bool) -> bool:
    """Make this process the parent of orphaned descendants, or stop that; False if it cannot be."""
    if sys.platform != "linux":
        return False
    result: int = ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)
    return result == 0
