"""Runs the command of a worker or reviewer, and ends it when its job is stopped.

The command is bound to this process: it ends with it, even if the process dies by SIGKILL.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from interlock import EffectWork, KernelError
from interlock.system.agents import (
    Sandbox,
    clock,
    end_bound,
    extend,
    has_ended,
    start_bound,
)
from interlock.systems.jobs.brief import BRIEF_FILE, REPLY_FILE, variables
from interlock.systems.jobs.machines.job.changes import phase_of
from interlock.systems.jobs.machines.job.data import JobData
from interlock.systems.jobs.reply import open_plain_file

OUTPUT_FILE = "output.log"
RUNS = "runs"
COMMAND_END_S = 5.0  # from SIGTERM until SIGKILL, for a command of a job
END_WAIT_S = 10.0  # after that, until its processes have to be gone
POLL_S = 0.1  # between two looks at the command and its lease
LATE_REPLY_LENGTH_MAX = 2_000  # characters that are noted of a reply that came too late
# Longer than the system may take to poll: the computer slept, or all its processes were stopped.
AWAY_S = 3.0
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
        environment = variables(work.record, self.role, self.folder, self.run_folder, work.key)
        arguments = ["/bin/bash", "-c", command]
        if (sandbox := self._sandbox()) is not None:
            arguments = sandbox.around(arguments, folder)
        with (self.run_folder / OUTPUT_FILE).open("wb") as output:
            process = start_bound(
                arguments,
                folder=folder,
                output=output,
                grace_s=COMMAND_END_S,
                environment=environment,
            )
            try:
                self._watch(process)
            finally:
                code = end_bound(process, patience_s=COMMAND_END_S + END_WAIT_S)
        # The program between the two has then ended by a signal.
        cut_off = code < 0
        if work.stopped.is_set() or work.giving_back.is_set() or cut_off:
            if self.reply.exists():
                reply = self.last_of(self.reply, LATE_REPLY_LENGTH_MAX)
                work.audit("late_reply", {"role": self.role, "reply": reply})
            raise CancelledError
        return code

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

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the command ends or has to stop; note its output as signs of life."""
        work, noted_size, noted_at, slept_s = self.work, 0, time.monotonic(), 0.0
        while True:
            # When the lease runs out, another worker may start this run: the command is killed by
            # then, even if this process freezes.
            extend(process, work.held.valid_until)
            asked_at = clock()
            if has_ended(process, within_s=POLL_S):
                return
            slept_s = max(slept_s, clock() - asked_at)
            if slept_s > AWAY_S and work.held.left_s > 0:
                self._note("slept", {"seconds": round(slept_s)})
                slept_s = 0.0
            if work.stopped.is_set() or work.giving_back.is_set():
                return
            size = (self.run_folder / OUTPUT_FILE).stat().st_size
            now = time.monotonic()
            if size != noted_size and now - noted_at >= self._silence_s / SIGNS_PER_SILENCE:
                noted_size, noted_at = size, now
                self._note_sign_of_life(size)

    def _note_sign_of_life(self, size: int) -> None:
        self._note("sign_of_life", {"output_bytes": size})

    def _note(self, kind: str, detail: Mapping[str, int]) -> None:
        """Write a note, which is a sign of life."""
        # If the lease is lost, the order to stop follows. If the store is away, the next one may be
        # noted.
        with suppress(KernelError):
            self.work.note(kind, detail, stall_ms=int(self._silence_s * 1_000))
