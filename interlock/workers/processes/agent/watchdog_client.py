"""The supervisor's connection to a watchdog: sends orders, reads reports, takes over its work."""

from __future__ import annotations

import math
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from interlock.workers.processes.agent import watchdog
from interlock.workers.processes.agent.cgroup import Cgroup
from interlock.workers.processes.agent.containment import (
    GROUP,
    LABEL_VARIABLE,
    AgentGroup,
    ProcessTree,
    adopt_orphans,
    kill_everything,
)
from interlock.workers.processes.agent.process_table import ProcessInfo, newest_processes
from interlock.workers.processes.agent.reaper import Reaper
from interlock.workers.processes.agent.watchdog import KILL_S_MAX, WatchdogSpec, to_line

START_S_MAX = 20.0
# A watchdog that is ending an agent reports more often than this.
SILENCE_S_MAX = 10.0
_POLL_S = 0.5
_ROUNDS_MAX = 600
_READ_BYTES = 64 * 1024
_LINE_BYTES_MAX = 64 * 1024


class WatchdogClient:
    """The supervisor's side of a watchdog: it starts the watchdog and can take over its work."""

    def __init__(self, spec: WatchdogSpec) -> None:
        # Children that exist already do not belong to the agent: `take_over` must spare them.
        self._excluded = _children()
        if any(kind != GROUP for kind in spec.kinds):
            adopt_orphans(enabled=True)
        self._spec = spec
        self._process = start_watchdog(spec)
        assert self._process.stdin is not None, "started with pipes"
        self._orders, self._lock = self._process.stdin, threading.Lock()
        os.set_blocking(self._orders.fileno(), False)
        self._silent_until = time.monotonic() + START_S_MAX

    def order(self, *fields: object) -> bool:
        """Send the watchdog an order; False if it does not read orders any more."""
        line = " ".join(map(str, fields)).encode() + b"\n"
        with self._lock:
            try:
                written = not self._orders.closed and self._orders.write(line) is not None
            except BrokenPipeError:
                return False
        if not written:
            # It has not read a whole pipe of orders, so it is frozen and guards nothing.
            self._process.kill()
        return written

    def expect_report_within(self, silence_s: float) -> None:
        """Kill the watchdog if it reports nothing for `silence_s` plus SILENCE_S_MAX."""
        self._silent_until = time.monotonic() + silence_s + SILENCE_S_MAX

    def reports(self) -> Iterator[tuple[Any, ...]]:
        """Yield the reports of the watchdog until it is gone.

        Its agent can write to the same pipe. A watchdog whose reports cannot be understood any
        more is killed, so that it counts as lost.
        """
        try:
            yield from map(read_report, self._lines())
        except ValueError:
            self._process.kill()

    def close(self) -> bool:
        """Kill the watchdog if it still runs, and close the pipes to it.

        Returns whether it has ended by itself and without an error.
        """
        self._process.kill()
        # Its children become ours only after it is reaped.
        code = self._process.wait()
        with self._lock:
            self._orders.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code == 0

    def release(self) -> None:
        """Stop adopting orphans, because no process of the agent is left."""
        adopt_orphans(enabled=False)

    def take_over(
        self, leader: int, kind: str | None, *, on_survivors: Callable[[list[int]], None]
    ) -> Reaper | None:
        """Kill all processes of the agent after the watchdog died; None if that was not possible.

        `kind` is None if the watchdog did not report a containment. `on_survivors` is called with
        the ids of processes that survive a round.
        """
        folder = self._spec.cgroup
        # A cgroup that was not made behaves like an empty one.
        cgroup = None if folder is None else Cgroup(Path(folder))
        processes: ProcessTree | AgentGroup = AgentGroup(leader)
        if kind != GROUP:
            label = self._spec.environment[LABEL_VARIABLE]
            processes = ProcessTree(
                os.getpid(), cgroup=cgroup, excluded=self._excluded, label=label
            )
        reaper = Reaper(leader)
        for _ in range(_ROUNDS_MAX):
            if kill_everything(
                processes, nothing_left=lambda: reaper.reap_ended(processes), within_s=KILL_S_MAX
            ):
                if cgroup is not None:
                    cgroup.remove()
                return reaper
            on_survivors(processes.pids())
        return None

    def _lines(self) -> Iterator[bytes]:
        assert self._process.stdout is not None, "started with pipes"
        descriptor, pending = self._process.stdout.fileno(), b""
        while True:
            # Asked before the pipe is read, so that no report of an ended watchdog is missed.
            has_ended = self._process.poll() is not None
            ready, _, _ = select.select([descriptor], [], [], _POLL_S)
            now = time.monotonic()
            if ready:
                chunk = os.read(descriptor, _READ_BYTES)
                if not chunk:
                    return
                self._silent_until = max(self._silent_until, now + SILENCE_S_MAX)
                *lines, pending = (pending + chunk).split(b"\n")
                yield from lines
                if len(pending) > _LINE_BYTES_MAX:
                    raise ValueError("a line of the watchdog's pipe is too long for a report")
            elif has_ended:
                return  # the agent, which can open the pipe as well, keeps it from its end
            elif now > self._silent_until:
                self._process.kill()


def read_report(line: bytes) -> tuple[Any, ...]:
    """Return the kind of a watchdog's report and its values; ValueError if it is not a report."""
    match line.decode().split():
        case ["started", pid, *kind]:
            return "started", int(pid), " ".join(kind)
        case ["failed", *reason]:
            return "failed", " ".join(reason)
        case ["exited", code, left_behind, cause, wall_s]:
            return "exited", int(code), int(left_behind), cause, _seconds(wall_s)
        case ["slept", slept_s]:
            return "slept", _seconds(slept_s)
        case ["left", *pids]:
            return "left", [int(pid) for pid in pids]
        case ["gone", cpu_s, max_rss_bytes]:
            return "gone", _seconds(cpu_s), int(max_rss_bytes)
    raise ValueError(f"a watchdog has no such report: {line!r}")


def _seconds(word: str) -> float:
    seconds = float(word)
    if not 0 <= seconds < math.inf:
        raise ValueError(f"not a number of seconds: {word!r}")
    return seconds


def start_watchdog(spec: WatchdogSpec) -> subprocess.Popen[bytes]:
    """Start the program. Its first line on stdout is `started` or `failed`.

    Raises OSError, or ValueError if the spec has a value of a type that is not built in.
    """
    line = to_line(spec)
    root = str(Path(__file__).absolute().parents[4])
    load = f"sys.path.insert(0, {root!r}); from {watchdog.__name__} import main"
    # Garbage collection during the imports, and the teardown at the end, are a sixth of its time.
    program = f"import gc, os, sys; gc.disable(); {load}; gc.enable(); main(); os._exit(0)"
    # -I and -S: it needs the standard library only, and starts in a few hundredths of a second.
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        cwd="/",
        pass_fds=spec.descriptors,
        start_new_session=True,
    )
    assert process.stdin is not None, "started with pipes"
    with suppress(BrokenPipeError):
        rest = memoryview(line)
        while rest:
            rest = rest[process.stdin.write(rest) :]
    return process


def _children() -> list[ProcessInfo]:
    if sys.platform != "linux":
        return []  # other systems have no /proc to find them in
    try:
        # Mostly there is none, and to read all processes of the computer takes much longer.
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return []
    return [process for process in newest_processes() if process.parent == os.getpid()]
