"""Sets up the rig of a codon before it starts: copies files and runs commands."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from interlock.system.agents import AgentProcess, Command, Exit
from interlock.system.text import one_line
from interlock.systems.runs.codon import rig_copy
from interlock.systems.runs.codon.usage import CODON_END_S
from interlock.systems.runs.outcome import NO_PROCESS, exit_code_of
from interlock.systems.runs.plan.path import path_within
from interlock.systems.runs.plan.rig import RigCommand, RigCopy, RigFolder

TIMED_OUT = "rig_timeout"
# A copy that makes progress may take long: this limit is for a disk that does not answer.
COPY_S = 86_400
COPY_PROGRAM = Path(rig_copy.__file__)
RunCommand = Callable[[Command, Callable[[AgentProcess], object]], Exit]


class RigError(Exception):
    """An item of a rig failed; the message says which one and why.

    `exit_code` is that of its process.
    """

    def __init__(self, number: int, problem: str, *, exit_code: int = NO_PROCESS) -> None:
        super().__init__(f"item {number} of the rig: {problem}")
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Rig:
    """The items of a rig, and how their commands are run.

    `base` is the command that is run with other arguments. `run_command` runs a command and calls
    back while it runs, and `reason_to_end` returns why to stop, if there is a reason.
    """

    items: tuple[RigCopy | RigCommand, ...]
    workspace: Path
    base: Command
    run_command: RunCommand
    reason_to_end: Callable[[], str | None]

    def set_up(self) -> list[str]:
        """Do every item in its order; return the failures that the plan allows. Raises RigError."""
        allowed_failures: list[str] = []
        copied_to = self.workspace
        for number, item in enumerate(self.items, start=1):
            if self.reason_to_end():
                break
            try:
                if isinstance(item, RigCopy):
                    copied_to = self._copy(number, item)
                else:
                    folder = copied_to if item.folder is RigFolder.COPIED else self.workspace
                    self._run(number, ("bash", "-c", item.run), folder, item.timeout_s)
            except RigError as error:
                if not item.allow_failure:
                    raise
                allowed_failures.append(str(error))
        return allowed_failures

    def _copy(self, number: int, item: RigCopy) -> Path:
        source, target = self._inside(number, item.source), self._inside(number, item.target)
        if not source.exists():
            raise RigError(number, f"there is no {item.source} to copy")
        # The target is removed before the copy is made, so it must not be or hold the source, also
        # where links lead there.
        resolved = target.parent.resolve() / target.name
        for origin in (source.parent.resolve() / source.name, source.resolve()):
            if resolved in (origin, *origin.parents) or origin in resolved.parents:
                raise RigError(number, f"{item.source} cannot be copied onto or into itself")
        arguments = (sys.executable, "-I", "-S", str(COPY_PROGRAM), str(source), str(target))
        self._run(number, arguments, self.workspace, COPY_S)
        return target if target.is_dir() else target.parent

    def _inside(self, number: int, path: str) -> Path:
        """Return a path in the workspace; check it again, as links may have changed since."""
        try:
            path_within(self.workspace, path)
        except ValueError as problem:
            raise RigError(number, f"{path}: {problem}") from problem
        return self.workspace / path

    def _run(self, number: int, arguments: tuple[str, ...], folder: Path, timeout_s: int) -> None:
        log_name = f"rig-{number}"
        command = replace(self.base, arguments=arguments, folder=folder, log_name=log_name)
        until = time.monotonic() + timeout_s

        def act(running: AgentProcess) -> None:
            if reason := self.reason_to_end() or (TIMED_OUT if time.monotonic() > until else None):
                running.end(reason, grace_s=CODON_END_S)

        try:
            ended = self.run_command(command, act)
        except OSError as error:
            raise RigError(number, one_line(str(error))) from error
        if ended.reason_by_us == TIMED_OUT:
            problem = f"it took more than {timeout_s} s"
            raise RigError(number, problem, exit_code=exit_code_of(ended.code))
        if ended.code and not self.reason_to_end():
            last_line = one_line(ended.errors.strip().rpartition("\n")[2])
            problem = f"it ended with {ended.code}" + (f": {last_line}" if last_line else "")
            raise RigError(number, problem, exit_code=exit_code_of(ended.code))
