"""A job's command while it runs: tied to this process, watched for signs of life, ended by order.

The command cannot outlive whoever runs it, not even a SIGKILL of the worker.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from concurrent.futures import CancelledError
from pathlib import Path

from interlock.kernel.errors import KernelError
from interlock.kernel.machines.jobs.job.changes import phase_of
from interlock.workers.engine.work import Work
from interlock.workers.jobs.brief import BRIEF, REPLY, variables
from interlock.workers.jobs.reply import open_plain
from interlock.workers.processes.bound import end_bound, extend, start_bound

OUTPUT = "output.log"
RUNS = "runs"
GRACE_S = 5.0
PATIENCE_S = 10.0
POLL_S = 0.1
ENDED = (128 + signal.SIGTERM, 128 + signal.SIGKILL)
# How often a sign of life is written down, as a part of how long a silence may last.
TOUCHES = 20


class Errand:
    """One run of a command. Each has a folder of its own for its brief, reply and output."""

    def __init__(self, work: Work, role: str, folder: Path) -> None:
        self.work, self.role, self.folder = work, role, folder
        data = work.record.data
        name = f"{data['runs']:03d}-{phase_of(data)}-{role}"
        self.place = folder / RUNS / name
        self.place.mkdir(parents=True, exist_ok=True)
        self._silence_s = float(data["running_s" if role == "worker" else "reviewing_s"])

    @property
    def reply(self) -> Path:
        """Where the command writes what it has to say."""
        return self.place / REPLY

    def run(self, command: str) -> int:
        """Run it to its end and return its exit code.

        Raises CancelledError where it was ordered, or its lease ran out: it was ended by then.

        What it said although it was stopped is noted, and counts for nothing.
        """
        work = self.work
        # Of an earlier attempt at this very run.
        self.reply.unlink(missing_ok=True)
        assert (self.place / BRIEF).exists(), "it was told what to do"
        where = Path(work.record.data.get("folder") or self.folder)
        environment = variables(work.record, self.role, self.folder, self.place, work.key)
        with (self.place / OUTPUT).open("wb") as output:
            keeper = start_bound(
                ["/bin/bash", "-c", command],
                folder=where,
                output=output,
                grace_s=GRACE_S,
                environment=environment,
            )
            try:
                self._watch(keeper)
            finally:
                code = end_bound(keeper, patience_s=GRACE_S + PATIENCE_S)
        cut_off = work.held.left_s <= 0 and code in ENDED
        if work.stopped.is_set() or work.giving_back.is_set() or cut_off:
            if self.reply.exists():
                said = self.last_of(self.reply, 2_000)
                work.audit("late_reply", {"role": self.role, "reply": said})
            raise CancelledError
        return code

    def last_output(self, length_max: int) -> str:
        """Return the end of what it printed."""
        return self.last_of(self.place / OUTPUT, length_max)

    def last_of(self, file: Path, length_max: int) -> str:
        """Return the end of a file as text."""
        try:
            with open_plain(file) as opened:
                opened.seek(max(0, os.fstat(opened.fileno()).st_size - length_max))
                return opened.read(length_max).decode(errors="replace").strip()
        except OSError as refusal:
            return f"it cannot be read: {refusal.strerror or refusal}"

    def _watch(self, keeper: subprocess.Popen[bytes]) -> None:
        """Wait for its end or an order to stop; each output is a sign of life."""
        work, seen, told_at = self.work, 0, time.monotonic()
        while True:
            # Without a lease somebody else may begin: it ends in time even if this process freezes.
            extend(keeper, work.held.left_s)
            try:
                keeper.wait(POLL_S)
            except subprocess.TimeoutExpired:
                pass
            else:
                return
            if work.stopped.is_set() or work.giving_back.is_set():
                return
            size = (self.place / OUTPUT).stat().st_size
            now = time.monotonic()
            if size != seen and now - told_at >= self._silence_s / TOUCHES:
                seen, told_at = size, now
                self._alive(size)

    def _alive(self, size: int) -> None:
        limit_ms = int(self._silence_s * 1_000)
        try:
            self.work.note("sign_of_life", {"output_bytes": size}, stall_ms=limit_ms)
        except KernelError:
            # Fenced: the order to stop is on its way. Away: the next sign may be written down.
            return
