"""Sets up what a codon needs before it starts: copies files, runs commands. It undoes nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from interlock.workers.processes.agent.process import AgentProcess, SpawnError
from interlock.workers.runs.codon import rig_copy
from interlock.workers.runs.codon.process import Command, Process
from interlock.workers.runs.outcome import NO_PROCESS, exit_code_of
from interlock.workers.runs.plan.model import RigCommand, RigCopy, RigFolder
from interlock.workers.runs.plan.path import path_within
from interlock.workers.text import sentence

TIMED_OUT = "rig_timeout"
# One that goes on at all ends some time: this is for a disk that does not answer.
COPY_S = 86_400
COPY = Path(rig_copy.__file__)
Run = Callable[[Command], Process]


class RigError(Exception):
    """An item of a rig failed: its message says which and why, the exit code of what."""

    def __init__(self, number: int, problem: str, *, exit_code: int = NO_PROCESS) -> None:
        super().__init__(f"item {number} of the rig: {problem}")
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Rig:
    """What is set up, where, and how its commands are run; `go_on` says why not to, or nothing."""

    items: tuple[RigCopy | RigCommand, ...]
    workspace: Path
    base: Command
    run: Run
    go_on: Callable[[], str | None]

    def set_up(self) -> list[str]:
        """Do every item in order; return what failed and may. Raises RigError."""
        allowed: list[str] = []
        copied = self.workspace
        for number, item in enumerate(self.items, start=1):
            if self.go_on():
                break
            try:
                if isinstance(item, RigCopy):
                    copied = self._copied(number, item)
                else:
                    folder = copied if item.folder is RigFolder.COPIED else self.workspace
                    self._run(number, ("bash", "-c", item.run), folder, item.timeout_s)
            except RigError as error:
                if not item.allow_failure:
                    raise
                allowed.append(str(error))
        return allowed

    def _copied(self, number: int, item: RigCopy) -> Path:
        source, target = self._inside(number, item.source), self._inside(number, item.target)
        if not source.exists():
            raise RigError(number, f"there is no {item.source} to copy")
        # Also where a link leads there: what the target is goes before the copy is made.
        place = target.parent.resolve() / target.name
        for whence in (source.parent.resolve() / source.name, source.resolve()):
            if place in (whence, *whence.parents) or whence in place.parents:
                raise RigError(number, f"{item.source} cannot be copied onto or into itself")
        words = (sys.executable, "-I", "-S", str(COPY), str(source), str(target))
        self._run(number, words, self.workspace, COPY_S)
        return target if target.is_dir() else target.parent

    def _inside(self, number: int, path: str) -> Path:
        """Return a place of the workspace; since the plan was read a link may have come there."""
        try:
            path_within(self.workspace, path)
        except ValueError as problem:
            raise RigError(number, f"{path}: {problem}") from problem
        return self.workspace / path

    def _run(self, number: int, words: tuple[str, ...], folder: Path, timeout_s: int) -> None:
        command = replace(
            self.base,
            words=words,
            folder=folder,
            output=self.base.output.with_name(f"rig-{number}.log"),
            errors=self.base.errors.with_name(f"rig-{number}.errors.log"),
        )
        until = time.monotonic() + timeout_s
        process = self.run(command)

        def look(running: AgentProcess) -> str | None:
            running.reports()
            return self.go_on() or (TIMED_OUT if time.monotonic() > until else None)

        try:
            with process.start() as running:
                ended = process.followed(running, look)
        except (SpawnError, OSError) as error:
            raise RigError(number, sentence(str(error))) from error
        if ended.reason_by_us == TIMED_OUT:
            problem = f"it took more than {timeout_s} s"
            raise RigError(number, problem, exit_code=exit_code_of(ended.code))
        if ended.code and not self.go_on():
            said = sentence(ended.errors.strip().rpartition("\n")[2])
            problem = f"it ended with {ended.code}" + (f": {said}" if said else "")
            raise RigError(number, problem, exit_code=exit_code_of(ended.code))
