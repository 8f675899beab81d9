"""Runs one command while the leases hold: extends its kill deadline, or ends it for a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from interlock.kernel.machines.runs.effects import LAUNCH
from interlock.workers.engine.work import Work
from interlock.workers.processes.agent.process import (
    KILL_BY_PASSED,
    WATCHDOG_LOST,
    AgentProcess,
    Exit,
    LogFiles,
)

POLL_S = 0.05
GRACE_S = 5.0
# The reasons for which a process is killed although this program did not end it.
LEASE_LOST_ERRORS = {
    KILL_BY_PASSED: "its lease could not be renewed in time: the store was away, or this machine",
    WATCHDOG_LOST: "its watchdog was lost",
}


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its arguments, folder, environment, standard input and log files.

    `reads_output` says whether its output is read line by line, and not only logged.
    """

    arguments: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    output: Path
    errors: Path
    process_label: str
    prompt: str = ""
    reads_output: bool = False

    def reading_output(self, reads_output: bool) -> Command:  # noqa: FBT001 - it is the only one
        """Return the same command, whose output is read line by line or not."""
        return replace(self, reads_output=reads_output)

    def with_arguments(self, arguments: tuple[str, ...], prompt: str) -> Command:
        """Return the same command with other arguments, and a prompt as its standard input."""
        return replace(self, arguments=arguments, prompt=prompt)


class LeasedProcess:
    """A command whose process lives no longer than the leases of those that run it."""

    def __init__(self, command: Command, leases: tuple[Work, ...], *, log_bytes_max: int) -> None:
        self.command, self._leases, self._log_bytes_max = command, leases, log_bytes_max
        self._kill_by = 0.0

    def start(self) -> AgentProcess:
        """Start it. Raises SpawnError, or OSError if a log cannot be made."""
        command = self.command
        self._kill_by = self._kill_deadline()
        return AgentProcess.start(
            list(command.arguments),
            folder=command.folder,
            environment=command.environment,
            prompt=command.prompt,
            more_follows=False,
            reads_output=command.reads_output,
            logs=LogFiles(command.output, command.errors, self._log_bytes_max),
            label=command.process_label,
            kill_by=self._kill_by,
        )

    def run_until(
        self, process: AgentProcess, reason_to_end: Callable[[AgentProcess], str | None]
    ) -> Exit:
        """Wait for the process to end, and return how it ended.

        `reason_to_end` is called at every poll; as soon as it returns a reason, the process is
        ended for it. If this process dies, a watchdog kills the command at its kill deadline.
        """
        while True:
            ended = process.wait(POLL_S)
            reason = reason_to_end(process)
            if ended is not None:
                return ended
            if self._kill_deadline() > self._kill_by + 1:
                self._kill_by = self._kill_deadline()
                process.arm(self._kill_by)
            if reason:
                process.end(reason, grace_s=GRACE_S)

    def _kill_deadline(self) -> float:
        """Return the time by which the process must be dead unless the leases are renewed."""
        valid_until = min(work.held.valid_until for work in self._leases)
        return valid_until + LAUNCH.grace_ms / 2_000
