"""Tries an effect alone, in a process of its own, after a worker died that was at work on it.

That worker may have died of this effect or of one that ran beside it. In a process of its own an
effect that kills its process kills nothing else, and this worker sees how the process died.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from interlock.workers.engine.work import EffectWork
from interlock.workers.processes.bound_process import end_bound, has_ended, start_bound

MODULE = "interlock.workers.alone"
# Each process takes the memory of a worker.
PROCESSES_MAX = 4
POLL_S = 0.1
GRACE_S = 5.0
SIGNALS_FROM = 128  # the exit code of a process that a signal ended, as a shell gives it
# What mostly sends these signals.
CAUSES = {
    signal.SIGKILL: ", as the system does when memory runs out",
    **dict.fromkeys(
        (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT),
        ", as after a fault in native code",
    ),
}


class ProcessDiedError(RuntimeError):
    """The process of an effect that was tried alone has died; the message says how."""


@dataclass(frozen=True, slots=True)
class Performed:
    """What came of an effect: a line for people, and the name of the error that it ended with."""

    line: str
    error: str = ""

    def write(self, file: Path) -> None:
        """Write it down for the process that waits for it."""
        file.write_text(json.dumps(asdict(self)))


def is_suspect(work: EffectWork) -> bool:
    """Whether a worker died that was at work on this effect, so that it is to be tried alone.

    Each such loss gave it one attempt more (poll.lua). A quick effect runs no code of others.
    """
    effect = work.effect
    return work.restartable and not effect.quick and work.entry.attempts_max > effect.attempts_max


class Isolation:
    """The processes of effects that this worker tries alone."""

    def __init__(self) -> None:
        self._room = threading.BoundedSemaphore(PROCESSES_MAX)

    def perform(self, work: EffectWork) -> Performed:
        """Let another process perform a claimed effect, under the lease of this one.

        Raises CancelledError if it was stopped, ProcessDiedError, or OSError if none can start.
        """
        with self._place(work), TemporaryDirectory(prefix="interlock-alone-") as folder:
            answer = Path(folder) / "answer"
            with os.fdopen(os.dup(2), "wb") as errors:
                # Supervisors, which it may launch, go on.
                process = start_bound(
                    _command(work, answer),
                    folder=Path.cwd(),
                    output=errors,
                    grace_s=GRACE_S,
                    ends_orphans=False,
                )
            try:
                _wait(process, work)
            finally:
                code = end_bound(process, patience_s=2 * GRACE_S)
            if answer.exists():
                return Performed(**json.loads(answer.read_bytes()))
        work.raise_if_stopped()
        raise ProcessDiedError(
            f"its worker died, so it was tried alone, in a process of its own; {how_it_ended(code)}"
        )

    @contextmanager
    def _place(self, work: EffectWork) -> Iterator[None]:
        while not self._room.acquire(timeout=POLL_S):
            work.raise_if_stopped()
        try:
            yield
        finally:
            self._room.release()


def how_it_ended(code: int) -> str:
    """Say how a process ended that has given no answer."""
    number = -code if code < 0 else code - SIGNALS_FROM
    try:
        ended_by = signal.Signals(number)
    except ValueError:
        return f"that process ended with exit code {code}"
    return f"that process was killed by {ended_by.name}{CAUSES.get(ended_by, '')}"


def _command(work: EffectWork, answer: Path) -> list[str]:
    nonce = work.lease.token.partition("-")[2]
    about = (work.machine.name, work.lease.name, work.key, nonce, str(answer))
    return [sys.executable, "-m", MODULE, *about]


def _wait(process: subprocess.Popen[bytes], work: EffectWork) -> None:
    """Wait for the end of a process. It gets the orders of its lease itself, and some time then."""
    while not has_ended(process, within_s=POLL_S):
        if work.giving_back.is_set():
            return
        if work.stopped.is_set():
            has_ended(process, within_s=work.effect.grace_ms / 2_000)
            return
