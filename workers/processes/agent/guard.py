"""The keeper's side of a watchdog: orders to it, words from it, and its work should it die."""

from __future__ import annotations

import json
import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from interlock.workers.processes.agent.cgroup import Cgroup
from interlock.workers.processes.agent.containment import (
    MARK,
    Containment,
    Group,
    Tree,
    adopt_orphans,
    kill_everything,
)
from interlock.workers.processes.agent.process_table import Seen, newest_first
from interlock.workers.processes.agent.reaper import Reaper
from interlock.workers.processes.agent.watchdog import KILL_S_MAX, Commission, start_watchdog

START_S_MAX = 20.0
# A watchdog that is at work says so more often than this.
SILENCE_S_MAX = 10.0
_POLL_S = 0.5
_ROUNDS_MAX = 600
_READ_BYTES = 64 * 1024


class Guard:
    """A watchdog, the agent it was told to start, and whom neither of the two shall touch."""

    def __init__(self, commission: Commission) -> None:
        # What is there already is not the agent's, should this process have to look for it.
        self._spared = _children()
        if any(kind != Containment.GROUP for kind in commission.kinds):
            adopt_orphans(wanted=True)
        self._commission = commission
        self._watchdog = start_watchdog(commission)
        assert self._watchdog.stdin is not None, "started with pipes"
        self._orders, self._lock = self._watchdog.stdin, threading.Lock()
        os.set_blocking(self._orders.fileno(), False)
        self._silent_until = time.monotonic() + START_S_MAX

    def order(self, *words: object) -> bool:
        """Tell the watchdog something; False if there is none that listens."""
        line = " ".join(map(str, words)).encode() + b"\n"
        with self._lock:
            try:
                heard = not self._orders.closed and self._orders.write(line) is not None
            except BrokenPipeError:
                return False
        if not heard:
            # It has left a whole pipe unread: it is frozen, and guards nobody.
            self._watchdog.kill()
        return heard

    def expect_word_within(self, silence_s: float) -> None:
        """Take the watchdog for lost if it is silent for so long and SILENCE_S_MAX more."""
        self._silent_until = time.monotonic() + silence_s + SILENCE_S_MAX

    def words(self) -> Iterator[list[Any]]:
        """Yield what the watchdog says, until it is gone."""
        assert self._watchdog.stdout is not None, "started with pipes"
        descriptor, pending = self._watchdog.stdout.fileno(), b""
        while True:
            ready, _, _ = select.select([descriptor], [], [], _POLL_S)
            now = time.monotonic()
            if ready:
                chunk = os.read(descriptor, _READ_BYTES)
                if not chunk:
                    return
                self._silent_until = max(self._silent_until, now + SILENCE_S_MAX)
                *lines, pending = (pending + chunk).split(b"\n")
                yield from map(json.loads, lines)
            elif now > self._silent_until:
                self._watchdog.kill()

    def close(self) -> None:
        """Let go of the watchdog, which has ended or is of no use."""
        self._watchdog.kill()
        # Only once it is reaped for sure are the children of the dead ours.
        self._watchdog.wait()
        with self._lock:
            self._orders.close()
        if self._watchdog.stdout is not None:
            self._watchdog.stdout.close()

    def release(self) -> None:
        """Adopt no more orphans: nothing of the agent is left."""
        adopt_orphans(wanted=False)

    def take_over(
        self, leader: int, kind: str | None, *, tell: Callable[[list[int]], None]
    ) -> Reaper | None:
        """Kill everything in the place of a watchdog that died; None if that was not possible.

        No kind means that it never said which. Who survives a round is told by number.
        """
        place = self._commission.cgroup
        # A cgroup that was never made is as good as an empty one.
        cgroup = None if place is None else Cgroup(Path(place))
        held: Tree | Group = Group(leader)
        if kind != Containment.GROUP:
            mark = self._commission.environment[MARK]
            held = Tree(os.getpid(), cgroup=cgroup, spared=self._spared, mark=mark)
        reaper = Reaper(leader)
        for _ in range(_ROUNDS_MAX):
            if kill_everything(
                held, nothing_left=lambda: reaper.bereaved(held), within_s=KILL_S_MAX
            ):
                if cgroup is not None:
                    cgroup.remove()
                return reaper
            tell(held.pids())
        return None


def _children() -> list[Seen]:
    return [seen for seen in newest_first() if seen.parent == os.getpid()]
