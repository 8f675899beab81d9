"""Runs the command of a worker or reviewer, and ends it when its job is stopped.

The command is bound to this process: it ends with it, even if the process dies by SIGKILL.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from interlock import EffectWork, KernelError
from interlock.system.agents import Command, Sandbox
from interlock.systems.jobs.brief import BRIEF_FILE, REPLY_FILE, variables
from interlock.systems.jobs.machines.job.changes import phase_of
from interlock.systems.jobs.machines.job.data import JobData
from interlock.systems.jobs.reply import open_plain_file

OUTPUT_FILE = "output.log"
RUNS = "runs"
COMMAND_END_S = 5.0  # from SIGTERM until SIGKILL, for a command of a job
LATE_REPLY_LENGTH_MAX = 2_000  # characters that are noted of a reply that came too late
# Output is noted as a sign of life at most this often within the longest silence that is allowed.
SIGNS_PER_SILENCE = 20


class CommandRun:
    """One run of a command, with a folder of its own for its brief, reply and output."""

    def __init__(self, work: EffectWork[JobData], role: str, folder: Path) -> None:
        self.work, self.role, self.folder = work, role, folder
        data = work.record.data
        name = f"{data['runs']:03d}-{phase_of(data)}-{role}"
        self.run_folder = folder / RUNS / name
        self.run_folder.mkdir(parents=True, exist_ok=True)
        self._silence_s = float(data["running_s" if role == "worker" else "reviewing_s"])
        self._noted_size, self._noted_at = 0, time.monotonic()

    @property
    def reply(self) -> Path:
        """The file to which the command writes its reply."""
        return self.run_folder / REPLY_FILE

    def run(self, command: str) -> int:
        """Run the command to its end and return its exit code.

        Raises CancelledError if the command was ended because the job was stopped or the lease ran
        out. A reply that it wrote before that is only noted in the log.
        """
        work = self.work
        # A lost attempt at this same run may have left a reply.
        self.reply.unlink(missing_ok=True)
        assert (self.run_folder / BRIEF_FILE).exists(), "the brief is written before the run"
        folder = Path(work.record.data.get("folder") or self.folder)
        shell = Command(
            arguments=("/bin/bash", "-c", command),
            folder=folder,
            sandbox=self._sandbox(),
            variables=variables(work.record, self.role, self.folder, self.run_folder, work.key),
            logs=self.run_folder,
        )
        try:
            return shell.run_bound(work, self._act, grace_s=COMMAND_END_S)
        except CancelledError:
            if self.reply.exists():
                reply = self.last_of(self.reply, LATE_REPLY_LENGTH_MAX)
                work.audit("late_reply", {"role": self.role, "reply": reply})
            raise

    def _sandbox(self) -> Sandbox | None:
        """Return the sandbox of the command. Raises SandboxError.

        It is open, since a person wrote the command into the graph: it may write where its user
        may. The files of its graph's jobs are in a hidden folder; it can change its own alone.
        """
        work, sandbox = self.work, Sandbox.open(self.work.records.settings)
        graph = work.records.settings.home.absolute() / "jobs" / work.record.root
        if sandbox is None:
            return None
        opened = replace(sandbox, is_closed=False)
        return opened.with_more(read_only=[graph], writable=[self.folder])

    def last_output(self, length_max: int) -> str:
        """Return the end of the command's output."""
        return self.last_of(self.run_folder / OUTPUT_FILE, length_max)

    def last_of(self, file: Path, length_max: int) -> str:
        """Return the end of a file as text."""
        try:
            with open_plain_file(file) as opened:
                opened.seek(max(0, os.fstat(opened.fileno()).st_size - length_max))
                return opened.read(length_max).decode(errors="replace").strip()
        except OSError as refusal:
            return f"it cannot be read: {refusal.strerror or refusal}"

    def _act(self, slept_s: float) -> None:
        """Note that the computer slept, or the output as a sign of life."""
        if slept_s:
            self._note("slept", {"seconds": round(slept_s)})
        size = (self.run_folder / OUTPUT_FILE).stat().st_size
        now = time.monotonic()
        is_due = now - self._noted_at >= self._silence_s / SIGNS_PER_SILENCE
        if size != self._noted_size and is_due:
            self._noted_size, self._noted_at = size, now
            self._note("sign_of_life", {"output_bytes": size})

    def _note(self, kind: str, detail: Mapping[str, int]) -> None:
        """Write a note, which is a sign of life."""
        # If the lease is lost, the order to stop follows. If the store is away, the next one may be
        # noted.
        with suppress(KernelError):
            self.work.note(kind, detail, stall_ms=int(self._silence_s * 1_000))
