"""Runs one command of a run under its leases: it moves its time to die, and hears it; no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from interlock.kernel.machines.runs.effects import CONDUCTOR
from interlock.workers.engine.work import Work
from interlock.workers.processes.agent.process import AgentProcess, Exit, LogFiles

POLL_S = 0.05
GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class Command:
    """What is run: its words, where, with which environment and input, and where it prints to."""

    words: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    output: Path
    errors: Path
    mark: str
    prompt: str = ""
    reads_output: bool = False

    def heard(self, *, output: bool) -> Command:
        """Return the same, whose output is heard line by line or not."""
        return replace(self, reads_output=output)

    def other(self, words: tuple[str, ...], prompt: str) -> Command:
        """Return other words in the same place, with something to read."""
        return replace(self, words=words, prompt=prompt)


class Process:
    """A command that runs as long as the leases of who runs it are good."""

    def __init__(self, command: Command, leases: tuple[Work, ...], *, log_bytes_max: int) -> None:
        self.command, self._leases, self._log_bytes_max = command, leases, log_bytes_max
        self._armed = 0.0

    def start(self) -> AgentProcess:
        """Start it. Raises SpawnError, or OSError if a log cannot be made."""
        one = self.command
        self._armed = self._kill_by()
        return AgentProcess.start(
            list(one.words),
            folder=one.folder,
            environment=one.environment,
            prompt=one.prompt,
            more_follows=False,
            reads_output=one.reads_output,
            logs=LogFiles(one.output, one.errors, self._log_bytes_max),
            label=one.mark,
            kill_by=self._armed,
        )

    def followed(self, process: AgentProcess, look: Callable[[AgentProcess], str | None]) -> Exit:
        """Return how it ended. `look` is called all the time; what it returns ends the process."""
        while True:
            ended = process.wait(POLL_S)
            why = look(process)
            if ended is not None:
                return ended
            if self._kill_by() > self._armed + 1:
                self._armed = self._kill_by()
                process.arm(self._armed)
            if why:
                process.end(why, grace_s=GRACE_S)

    def _kill_by(self) -> float:
        """Return when all must be dead if nothing is renewed any more, on this machine's clock."""
        valid_until = min(work.held.valid_until for work in self._leases)
        return valid_until + CONDUCTOR.grace_ms / 2_000
