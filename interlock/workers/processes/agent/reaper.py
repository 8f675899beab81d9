"""Reaps the ended processes of one agent, and adds up the resources that they used."""

from __future__ import annotations

import os
import sys

from interlock.workers.processes.agent.containment import AgentGroup, ProcessTree

_RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024
_QUIET_POLLS = 2


class Reaper:
    """Takes the exit codes of children. `code` is the leader's; a negative one is a signal."""

    def __init__(self, leader: int) -> None:
        self.code: int | None = None
        self.cpu_s = 0.0
        self.max_rss_bytes = 0
        self._leader = leader
        self._quiet = 0

    def reap_all(self) -> bool:
        """Reap every child that has ended; return whether this process has no child at all.

        In a subreaper, no child means that no descendant is left.
        """
        try:
            while self._reap(-1):
                pass
        except ChildProcessError:
            return True
        return False

    def reap_ended(self, processes: ProcessTree | AgentGroup) -> bool:
        """Reap the agent's ended children in a process that has others; return if none is left."""
        if isinstance(processes, AgentGroup):
            return not processes.any_left()
        found = processes.signal()
        for process in found:
            if process.has_ended and process.parent == os.getpid():
                try:
                    self._reap(process.pid)
                except ChildProcessError:
                    continue
        # Two rounds: a process that started and ended between them would still be unreaped.
        self._quiet = 0 if found else self._quiet + 1
        return self._quiet >= _QUIET_POLLS and not processes.any_left()

    def _reap(self, pid: int) -> bool:
        reaped, status, usage = os.wait4(pid, os.WNOHANG)
        if not reaped:
            return False
        if reaped == self._leader:
            self.code = os.waitstatus_to_exitcode(status)
        self.cpu_s += usage.ru_utime + usage.ru_stime
        self.max_rss_bytes = max(self.max_rss_bytes, usage.ru_maxrss * _RSS_UNIT_BYTES)
        return True
