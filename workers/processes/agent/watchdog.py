"""Starts one agent for its keeper, reaps it and ends it in time; it never starts it again.

A small program between the two: child of the keeper, parent of the agent, in a session of its own.
It kills everything the agent started when the keeper dies (its pipe closes), and by a deadline that
the keeper must keep moving, so that a frozen keeper's agent ends too. As a subreaper it keeps below
itself whoever loses a parent; the keeper is one as well, for the day this program is killed.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from interlock.workers.processes.agent.cgroup import Cgroup
from interlock.workers.processes.agent.containment import (
    Containment,
    Group,
    Tree,
    adopt_orphans,
    kill_everything,
)
from interlock.workers.processes.agent.process_table import look
from interlock.workers.processes.agent.reaper import Reaper

LEFT_BEHIND_GRACE_S = 1.0
KILL_S_MAX = 5.0
# Killing takes a moment, and has to be over by the deadline.
MARGIN_S = 0.5
_POLL_S = 1.0
_ENDING_POLL_S = 0.02
_ROUNDS_MAX = 600
_SHOWN_MAX = 20
_DEAF_TO = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM),
)
_READ_BYTES = 64 * 1024


class Commission(NamedTuple):
    """What to start: `descriptors` are the agent's stdin, stdout, stderr and report descriptor."""

    command: list[str]
    folder: str
    environment: dict[str, str]
    kinds: list[str]
    cgroup: str | None
    descriptors: list[int]
    deadline: float


def start_watchdog(commission: Commission) -> subprocess.Popen[bytes]:
    """Start the program. Its first line on stdout is `started` or `failed`."""
    root = str(Path(__file__).absolute().parents[4])
    load = f"import sys; sys.path.insert(0, {root!r}); from {__name__} import main"
    program = f"{load}; main()"
    # -I and -S: it needs the standard library alone, and is up in a few hundredths of a second.
    watchdog = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        cwd="/",
        pass_fds=commission.descriptors,
        start_new_session=True,
    )
    assert watchdog.stdin is not None, "started with pipes"
    with suppress(BrokenPipeError):
        rest = memoryview(json.dumps(commission).encode() + b"\n")
        while rest:
            rest = rest[watchdog.stdin.write(rest) :]
    return watchdog


def clock() -> float:
    """Return seconds on a clock that also counts while the machine sleeps: leases do not wait."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def deadline_of(kill_by: float) -> float:
    """Return a time of `time.monotonic` on the watchdog's clock."""
    # This order: a keeper frozen between the two readings gets an earlier deadline, not a later.
    return clock() + (kill_by - time.monotonic())


def main() -> None:
    """Start what the first line on stdin says and stay until nothing of it is left."""
    woken = _stay_deaf()
    lines = _Lines(0)
    commission = Commission(*json.loads(lines.first()))
    try:
        leader, held, kind = _launch(commission)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        _say("failed", reason)
        return
    for descriptor in commission.descriptors:
        os.close(descriptor)
    seen = look(leader)
    _say("started", leader, seen.started if seen else 0, kind)
    Watchdog(leader, held, lines=lines, woken=woken, deadline=commission.deadline).guard()


class Watchdog:
    """The guard over one agent that runs."""

    def __init__(
        self, leader: int, held: Tree | Group, *, lines: _Lines, woken: int, deadline: float
    ) -> None:
        self._held, self._lines, self._woken = held, lines, woken
        self._reaper = Reaper(leader)
        self._deadline, self._kill_at = deadline, math.inf
        self._cause: str | None = None
        self._exit_said = False
        self._began, self._rounds = time.monotonic(), 0

    def guard(self) -> None:
        """Stay until nothing is left, whatever it takes."""
        while not self._nothing_left() and self._rounds < _ROUNDS_MAX:
            self._note_exit()
            if clock() >= min(self._kill_at, self._deadline - MARGIN_S):
                self._kill()
            else:
                self._listen()
        self._note_exit()
        if self._rounds >= _ROUNDS_MAX:
            return
        cpu_s, cgroup = self._reaper.cpu_s, self._held.cgroup
        if cgroup is not None:
            cpu_s = cgroup.cpu_s() or cpu_s
            cgroup.remove()
        _say("gone", cpu_s, self._reaper.max_rss_bytes)

    def _nothing_left(self) -> bool:
        return self._reaper.childless() and not self._held.left()

    def _note_exit(self) -> None:
        if self._reaper.code is None or self._exit_said:
            return
        self._exit_said = True
        left_behind = 0 if self._cause else len(self._held.pids())
        wall_s = time.monotonic() - self._began
        _say("exited", self._reaper.code, left_behind, self._cause, wall_s)
        if left_behind:
            self._held.ask()
            self._kill_at = min(self._kill_at, clock() + LEFT_BEHIND_GRACE_S)

    def _kill(self) -> None:
        self._cause = self._cause or "deadline"
        self._rounds += 1
        self._deadline = math.inf
        if kill_everything(self._held, nothing_left=self._nothing_left, within_s=KILL_S_MAX):
            return
        _say("left", self._held.pids()[:_SHOWN_MAX])
        self._kill_at = clock() + _POLL_S

    def _listen(self) -> None:
        ending = self._kill_at < math.inf
        until = min(self._kill_at, self._deadline - MARGIN_S) - clock()
        wait_s = max(0.0, min(until, _ENDING_POLL_S if ending else _POLL_S))
        for words in self._lines.heard(self._woken, wait_s):
            match words:
                case ["arm", deadline]:
                    self._deadline = float(deadline)
                case ["end", grace_s]:
                    self._end(float(grace_s))
        if self._lines.closed:
            self._cause, self._kill_at = self._cause or "keeper", -math.inf

    def _end(self, grace_s: float) -> None:
        # Who has ended by itself was not ended by us, even if the order was on its way.
        self._reaper.childless()
        if self._reaper.code is None and self._cause is None:
            self._cause = "order"
            self._held.ask()
        self._kill_at = min(self._kill_at, clock() + grace_s)


class _Lines:
    """What the keeper writes, line by line; closed once the keeper is no more."""

    def __init__(self, descriptor: int) -> None:
        self.closed = False
        self._descriptor = descriptor
        self._keeper = os.getppid()
        self._pending = b""

    def first(self) -> bytes:
        """Return the first line; end this program if the keeper is gone before it came."""
        while b"\n" not in self._pending:
            chunk = os.read(self._descriptor, _READ_BYTES)
            if not chunk:
                sys.exit(1)
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def heard(self, woken: int, wait_s: float) -> Iterator[list[str]]:
        """Wait for orders, a signal or the time; yield the orders as words."""
        wanted = [woken] if self.closed else [woken, self._descriptor]
        ready, _, _ = select.select(wanted, [], [], wait_s)
        if woken in ready:
            os.read(woken, _READ_BYTES)
        if self._descriptor in ready:
            chunk = os.read(self._descriptor, _READ_BYTES)
            self.closed = not chunk
            self._pending += chunk
        # A child that the keeper forked may hold the pipe open, so the parent is looked at too.
        self.closed = self.closed or os.getppid() != self._keeper
        *lines, self._pending = self._pending.split(b"\n")
        yield from (line.decode().split() for line in lines)


def _launch(commission: Commission) -> tuple[int, Tree | Group, str]:
    adopts = adopt_orphans(wanted=True)
    for kind in map(Containment, commission.kinds):
        cgroup = None
        if kind is Containment.CGROUP and commission.cgroup is not None:
            cgroup = Cgroup.make(Path(commission.cgroup))
        if kind is Containment.CGROUP and cgroup is None:
            continue
        if kind is not Containment.GROUP and not adopts:
            continue
        try:
            leader = _start(commission, cgroup)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            if cgroup is not None:
                cgroup.remove()
            if isinstance(error, subprocess.SubprocessError):
                # It could not join, so nothing of it has run: the next kind may do.
                continue
            raise
        if kind is Containment.GROUP:
            return leader, Group(leader), kind
        return leader, Tree(os.getpid(), cgroup=cgroup), kind
    raise ValueError("no containment that was asked for works on this system")


def _start(commission: Commission, cgroup: Cgroup | None) -> int:
    stdin, stdout, stderr, report = commission.descriptors
    leader = subprocess.Popen(
        commission.command,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=commission.folder,
        env=commission.environment,
        pass_fds=(report,),
        start_new_session=True,
        preexec_fn=None if cgroup is None else cgroup.join,  # noqa: PLW1509 - one thread here
    )
    # The reaper takes the exit code; Popen shall not look for it.
    leader.returncode = 0
    return leader.pid


def _say(*words: Any) -> None:
    with suppress(BrokenPipeError):
        os.write(1, json.dumps(words).encode() + b"\n")


def _stay_deaf() -> int:
    """Let only SIGKILL and the keeper end this program; return what wakes it for its children."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # Handlers and not SIG_IGN: the agent would inherit that.
    for number in (signal.SIGCHLD, *_DEAF_TO):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    return woken
