"""Reaps the processes of one agent and adds up what they used; it ends none."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from interlock.workers.processes.agent.containment import Group, Tree

_RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024
_CALM_POLLS = 2


class Reaper:
    """Takes the exit codes of children; the leader's is kept in `code`, negative is a signal."""

    def __init__(self, leader: int) -> None:
        self.code: int | None = None
        self.cpu_s = 0.0
        self.max_rss_bytes = 0
        self._leader = leader
        self._calm = 0

    def childless(self) -> bool:
        """Reap every child that has ended; tell whether this process has no child at all.

        In a subreaper that is the system's own proof that no descendant is left.
        """
        try:
            while self._reap(-1):
                pass
        except ChildProcessError:
            return True
        return False

    def bereaved(self, held: Tree | Group) -> bool:
        """Do the same where this process has children besides that are not the agent's."""
        if isinstance(held, Group):
            return not held.left()
        seen = held.signal()
        for one in seen:
            if one.dead and one.parent == os.getpid():
                with suppress(ChildProcessError):
                    self._reap(one.pid)
        # Two looks: who was born and died between them would still be there, unreaped.
        self._calm = 0 if seen else self._calm + 1
        return self._calm >= _CALM_POLLS and not held.left()

    def _reap(self, pid: int) -> bool:
        reaped, status, usage = os.wait4(pid, os.WNOHANG)
        if not reaped:
            return False
        if reaped == self._leader:
            self.code = os.waitstatus_to_exitcode(status)
        self.cpu_s += usage.ru_utime + usage.ru_stime
        self.max_rss_bytes = max(self.max_rss_bytes, usage.ru_maxrss * _RSS_UNIT_BYTES)
        return True
