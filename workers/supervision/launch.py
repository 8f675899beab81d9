"""Starts a keeper that outlives its starter: a process of its own, with its leases taken over.

A forker, a process of the starter's that has imported what keepers need, forks them: it is made
for the first, lives as long as its starter, and is made anew where it is gone.
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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, Self

from pydantic import TypeAdapter

from interlock.kernel.errors import KernelError
from interlock.workers.files.atomic import write_private

LAUNCH_S_MAX = 60
SPEC_FILE = "launch.json"
ERROR_LENGTH_MAX = 2_000
# What else is on its way to the starter is text.
READY = b"\0kept"
# Room for a keeper's own command line, which takes the place of the forker's.
TITLE_ROOM = 1_000


class SupervisorError(RuntimeError):
    """A keeper could not take over. The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """What a supervisor is started with: the lease that it takes over, and its work folder.

    Each kind of supervisor adds fields of its own. Only the owner of its file can read it, as it
    holds the lease's token.
    """

    key: str
    token: str
    work_folder: str

    def write(self) -> Path:
        """Write it into the work folder and return the file."""
        file = Path(self.work_folder) / SPEC_FILE
        write_private(file, json.dumps(asdict(self)))
        return file

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read the file that `write` wrote. Raises FileNotFoundError, ValidationError."""
        return TypeAdapter(cls).validate_json(file.read_bytes())


def process_label(work_folder: Path) -> str | None:
    """Return the label that the processes of a work folder's supervisor carry; None if none began.

    The label is the key of the lease that the supervisor took over.
    """
    try:
        return str(json.loads((work_folder / SPEC_FILE).read_text("utf-8"))["key"])
    except (FileNotFoundError, json.JSONDecodeError):
        # A supervisor is only started once its file is whole.
        return None


class Supervisor(Protocol):
    """Who keeps a process to its end; to make one takes its leases over."""

    def run(self) -> None:
        """Keep it to its end."""


class ForkServer:
    """The starter's side of the process that forks its keepers. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        # As this process was begun: its threads may be kept on one processor later.
        able = hasattr(os, "sched_setaffinity")
        self._processors = os.sched_getaffinity(0) if able else set[int]()

    def order(self, module: str, brief: Path, descriptors: Sequence[int]) -> None:
        """Order a keeper: the first descriptor becomes its stderr, the others are passed on."""
        order = [json.dumps([module, str(brief)]).encode()]
        with self._lock:
            with suppress(BrokenPipeError):
                if self._link is not None:
                    socket.send_fds(self._link, order, descriptors)
                    return
            # There was none, or it has been killed, and took no order.
            self._end()
            socket.send_fds(self._begun(), order, descriptors)

    def end(self) -> None:
        """End it, if there is one; the next order makes another. Its keepers stay."""
        with self._lock:
            self._end()

    def _begun(self) -> socket.socket:
        self._link, theirs = socket.socketpair()
        with theirs, self._everywhere():
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "interlock.workers.supervision.fork_server",
                    str(number),
                    " " * TITLE_ROOM,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(number,),
            )
        return self._link

    @contextmanager
    def _everywhere(self) -> Iterator[None]:
        """Let what the calling thread starts within the block run on every processor."""
        if not self._processors:
            yield
            return
        here = os.sched_getaffinity(0)
        # Processors may be lost meanwhile; then the system has placed the thread itself.
        with suppress(OSError):
            os.sched_setaffinity(0, self._processors)
        try:
            yield
        finally:
            with suppress(OSError):
                os.sched_setaffinity(0, here)

    def _end(self) -> None:
        if self._link is not None:
            self._link.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._link = self._process = None


FORK_SERVER = ForkServer()


def launch(
    module: str,
    brief: Path,
    renew: Callable[[], object],
    *,
    every_s: float,
    pass_fds: Sequence[int] = (),
) -> None:
    """Start a keeper, `main` of MODULE, and wait until it has taken over. Raises KeeperError.

    It finds its brief as sys.argv[1]. Meanwhile the leases are renewed every so often.
    """
    heard, told = os.pipe()
    try:
        try:
            FORK_SERVER.order(module, brief, (told, *pass_fds))
        finally:
            os.close(told)
        said = _answer(heard, renew, every_s=every_s)
    finally:
        os.close(heard)
    if not said.endswith(READY):
        why = said.decode(errors="replace").strip() or "it said nothing"
        raise SupervisorError(f"its keeper ended before it took over: {why}")


def _answer(heard: int, renew: Callable[[], object], *, every_s: float) -> bytes:
    """Return the end of what a keeper said until it took over, or ended. Raises KeeperError."""
    # Other than select.select it takes any number of a descriptor.
    coming = select.poll()
    coming.register(heard, select.POLLIN)
    said, until = b"", time.monotonic() + LAUNCH_S_MAX
    while not said.endswith(READY):
        if coming.poll(every_s * 1_000):
            chunk = os.read(heard, 4_096)
            if not chunk:
                break
            said = (said + chunk)[-ERROR_LENGTH_MAX:]
        elif time.monotonic() > until:
            # It may be the forker that hangs: the next start shall not find it.
            FORK_SERVER.end()
            raise SupervisorError(f"its keeper took nothing over in {LAUNCH_S_MAX} s")
        else:
            renew()
    return said


def hand_over(work_folder: Path, make: Callable[[], Supervisor]) -> None:
    """Let who started this process go when the keeper has taken over, and keep on alone."""
    log = os.open(work_folder / "keeper.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    # Who started it waits no longer, and does without it then.
    signal.alarm(LAUNCH_S_MAX)
    try:
        supervisor = make()
    except (KernelError, ValueError) as refusal:
        raise SystemExit(f"{type(refusal).__name__}: {refusal}") from None
    signal.alarm(0)
    told = os.dup(2)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)
    # Whose starter was killed meanwhile is kept all the same.
    with suppress(BrokenPipeError):
        os.write(told, READY)
    os.close(told)
    supervisor.run()
