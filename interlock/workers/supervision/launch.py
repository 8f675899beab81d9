"""Launches a supervisor: a process that outlives the worker and takes its leases over.

A fork server, which has imported what supervisors need, forks it. The first launch starts the fork
server, which then lives as long as the worker; if it is gone, the next launch starts another.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter

from interlock.kernel.errors import KernelError
from interlock.workers.engine.task_events import this_worker
from interlock.workers.engine.work import EffectWork
from interlock.workers.files.private import PrivateFile
from interlock.workers.processes.module_server import start_server

LAUNCH_S_MAX = 60
SPEC_FILE = "launch.json"
ERROR_LENGTH_MAX = 2_000
# Sent by a supervisor that has taken over. All else that it sends is the text of an error.
READY = b"\0ready"


class SupervisorError(OSError):
    """A supervisor could not take over; the message has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """The lease that a supervisor takes over, its work folder, and the worker that launches it.

    Each kind of supervisor adds fields. The file is readable by its owner only, because it has the
    token of the lease.
    """

    key: str
    token: str
    work_folder: str
    worker: str = field(default_factory=this_worker)

    def write(self) -> Path:
        """Write the spec into the work folder, and return its file."""
        file = Path(self.work_folder) / SPEC_FILE
        PrivateFile(file).write(json.dumps(asdict(self)))
        return file

    def launch(
        self,
        module: str,
        renew: Callable[[], object],
        *,
        every_s: float,
        pass_fds: Sequence[int] = (),
    ) -> None:
        """Start `main` of a supervisor's module, and wait until it has taken over.

        Until it has, `renew` is called every `every_s` seconds. The supervisor gets these open
        files. Raises OSError if it has not taken over.
        """
        launch(module, self.write(), renew, every_s=every_s, pass_fds=pass_fds)

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read the file that `write` wrote. Raises FileNotFoundError, ValidationError."""
        return TypeAdapter(cls).validate_json(file.read_bytes())


class ForkServerLink:
    """A worker's connection to its fork server, which it starts. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        # The processors at the start: later, threads of this process may be pinned to one of them.
        able = hasattr(os, "sched_setaffinity")
        self._processors = os.sched_getaffinity(0) if able else set[int]()

    def request(self, module: str, spec_file: Path, descriptors: Sequence[int]) -> None:
        """Request a supervisor. Its stderr is the first descriptor; the others are passed on."""
        # This process has added the folders of its systems to its path.
        request = [json.dumps([module, str(spec_file), sys.path]).encode()]
        with self._lock:
            with suppress(BrokenPipeError):
                if self._link is not None:
                    socket.send_fds(self._link, request, descriptors)
                    return
            # No server runs yet, or it was killed before it read the request.
            self._end()
            socket.send_fds(self._start(), request, descriptors)

    def end(self) -> None:
        """Kill the server if it runs. Its supervisors go on; the next request starts another."""
        with self._lock:
            self._end()

    def _start(self) -> socket.socket:
        with self._on_all_processors():
            self._process, self._link = start_server("interlock.workers.supervision.fork_server")
        return self._link

    @contextmanager
    def _on_all_processors(self) -> Iterator[None]:
        """Let processes that the calling thread starts in this block run on every processor."""
        if not self._processors:
            yield
            return
        present = os.sched_getaffinity(0)
        # A container may lose processors while it runs; then the system has moved the thread.
        with suppress(OSError):
            os.sched_setaffinity(0, self._processors)
        try:
            yield
        finally:
            with suppress(OSError):
                os.sched_setaffinity(0, present)

    def _end(self) -> None:
        if self._link is not None:
            self._link.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._link = self._process = None


FORK_SERVER = ForkServerLink()


def hand_over(work: EffectWork[Any], module: str, work_folder: Path) -> None:
    """Launch a supervisor that takes over the lease of an effect, and reports how that ends.

    `module` is where the supervisor's `main` is. The handler returns None after that. Raises
    OSError if no supervisor has taken over: the handler still has the lease.
    """
    lease, lease_ms = work.lease, work.held.lease_ms
    spec = LaunchSpec(key=lease.key, token=lease.token, work_folder=str(work_folder))
    renew = partial(work.dispatch.leases.renew, {lease.key: (lease.token, lease_ms, 0)})
    spec.launch(module, renew, every_s=lease_ms / 3_000)
    work.handed_over.set()


def launch(
    module: str,
    spec_file: Path,
    renew: Callable[[], object],
    *,
    every_s: float,
    pass_fds: Sequence[int] = (),
) -> None:
    """Start `main` of a supervisor's module, and wait until it has taken over.

    The module finds its spec file in sys.argv[1]. Until it has taken over, `renew` is called every
    `every_s` seconds. Raises SupervisorError.
    """
    reading, writing = os.pipe()
    try:
        try:
            FORK_SERVER.request(module, spec_file, (writing, *pass_fds))
        finally:
            os.close(writing)
        output = _read_until_ready(reading, renew, every_s=every_s)
    finally:
        os.close(reading)
    if not output.endswith(READY):
        error = output.decode(errors="replace").strip() or "it gave no reason"
        raise SupervisorError(f"its supervisor ended before it took over: {error}")


def _read_until_ready(reading: int, renew: Callable[[], object], *, every_s: float) -> bytes:
    """Return a supervisor's last output before it took over or ended. Raises SupervisorError."""
    # Unlike select.select, poll takes descriptors of any number.
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    output, until = b"", time.monotonic() + LAUNCH_S_MAX
    while not output.endswith(READY):
        if poll.poll(every_s * 1_000):
            chunk = os.read(reading, 4_096)
            if not chunk:
                break
            output = (output + chunk)[-ERROR_LENGTH_MAX:]
        elif time.monotonic() > until:
            # The fork server itself may hang, so the next launch starts another.
            FORK_SERVER.end()
            raise SupervisorError(f"its supervisor did not take over in {LAUNCH_S_MAX} s")
        else:
            renew()
    return output


def take_over_and_supervise(
    work_folder: Path, take_over: Callable[[], Callable[[], object]]
) -> None:
    """Take the leases over, report that to the launching process, and supervise.

    A supervisor calls this. `take_over` adopts the leases, and returns what supervises.
    """
    log = os.open(work_folder / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    # The launching process waits no longer: after that time SIGALRM ends this process.
    signal.alarm(LAUNCH_S_MAX)
    try:
        run = take_over()
    except (KernelError, ValueError) as refusal:
        raise SystemExit(f"{type(refusal).__name__}: {refusal}") from None
    signal.alarm(0)
    launching = os.dup(2)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)
    # If the launching process was killed meanwhile, the supervisor runs all the same.
    with suppress(BrokenPipeError):
        os.write(launching, READY)
    os.close(launching)
    run()
