"""Tries an effect alone, in a process of its own, after an attempt that took its worker with it.

A worker that died may have died of this effect or of one that ran beside it; a handler that hangs
keeps a thread. In a process of its own an effect that kills its process kills nothing else, and
this worker sees how the process died. One that hangs is killed when its time is over.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

from celery.exceptions import Ignore

from interlock.workers.engine.effect_ends import (
    EffectFailedError,
    EffectNotOwedError,
    EffectRetriedError,
)
from interlock.workers.engine.work import EffectWork
from interlock.workers.processes.bound_process import end_bound, has_ended, start_bound
from interlock.workers.processes.clock import clock

MODULE = "interlock.workers.alone"
# Each process takes the memory of a worker.
PROCESSES_MAX = 4
POLL_S = 0.1
ISOLATED_END_S = 5.0  # from SIGTERM until SIGKILL, for an effect in a process of its own
START_S = 20.0  # how long a process may take to begin, beside the time of its effect
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

    @classmethod
    def of(cls, perform: Callable[[], str]) -> Performed:
        """Perform an effect, and return what came of it."""
        try:
            return cls(perform())
        except EffectRetriedError as retried:
            return cls(str(retried.message), type(retried).__name__)
        except (EffectFailedError, EffectNotOwedError, Ignore) as ended:
            return cls(str(ended), type(ended).__name__)

    def write(self, file: Path) -> None:
        """Write it down for the process that waits for it."""
        file.write_text(json.dumps(asdict(self)))


def is_suspect(work: EffectWork) -> bool:
    """Whether a worker died that was at work on this effect, or a handler of it hung.

    A quick effect runs no code of others.
    """
    has_lost = work.lease.has_hung or work.entry.losses > 0
    return work.restartable and not work.effect.quick and has_lost


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
                    grace_s=ISOLATED_END_S,
                    ends_orphans=False,
                )
            try:
                _wait(process, work)
            finally:
                code = end_bound(process, patience_s=2 * ISOLATED_END_S)
            if answer.exists():
                return Performed(**json.loads(answer.read_bytes()))
        if work.limit.has_passed:
            raise work.limit.error
        work.raise_if_stopped()
        why = "an attempt hung" if work.lease.has_hung else "its worker died"
        raise ProcessDiedError(
            f"{why}, so it was tried alone, in a process of its own; {how_it_ended(code)}"
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
    """Wait for the end of a process. It gets the orders of its lease itself, and some time then.

    It ends itself when its time is over, unless it hangs in native code.
    """
    limit_s = work.limit.ms / 1_000 or inf
    over_at = clock() + limit_s + START_S
    while not has_ended(process, within_s=POLL_S):
        if clock() > over_at:
            work.limit.has_passed = True
        if work.giving_back.is_set() or work.limit.has_passed:
            return
        if work.stopped.is_set():
            has_ended(process, within_s=work.effect.grace_ms / 2_000)
            return
