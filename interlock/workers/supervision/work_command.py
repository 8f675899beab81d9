"""A command of an agent, job or codon, and everything that its process is started with."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from interlock.kernel.store.outputs import ERRORS, OUTPUT
from interlock.workers.config import Settings
from interlock.workers.engine.work_environment import (
    environment_of_check,
    environment_of_program,
    environment_of_work,
)
from interlock.workers.processes.agent.contained import run_contained
from interlock.workers.processes.agent.containment import LABEL_VARIABLE
from interlock.workers.processes.process_group import CommandResult, Takes, run_command
from interlock.workers.processes.sandbox import Sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command, and everything that its process is started with.

    Its environment is that of the process which makes the command, without settings, and the
    `variables`, which describe its work; without them it is a check of work. It names the span in
    which the command is made.

    `logs` is the folder of `output.log` and `errors.log`, in the work folder of its supervisor
    unless it is a whole path; with a `log_name` they are `<log_name>.log` and
    `<log_name>.errors.log`. What the command leaves running is found by that folder. The prompt
    is its standard input, which is closed after it unless `more_follows`; with `reads_output` its
    output is also read line by line.
    """

    arguments: tuple[str, ...]
    folder: Path
    sandbox: Sandbox | None
    variables: Mapping[str, str] | None = None
    logs: Path = Path()
    log_name: str = ""
    prompt: str = ""
    more_follows: bool = False
    reads_output: bool = False
    environment: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        """Make the environment, in the span of the caller."""
        variables = self.variables
        made = environment_of_check() if variables is None else environment_of_work(variables)
        object.__setattr__(self, "environment", made)

    @property
    def log_files(self) -> tuple[Path, Path]:
        """The files of its output and of its errors."""
        name = self.log_name
        names = (f"{name}.log", f"{name}.errors.log") if name else (OUTPUT, ERRORS)
        return self.logs / names[0], self.logs / names[1]

    @property
    def confined(self) -> Sequence[str]:
        """The arguments that run the command in its sandbox."""
        return self.sandbox.around(self.arguments, self.folder) if self.sandbox else self.arguments

    async def run(
        self, given: bytes, *, within_s: float, grace_s: float, takes: Takes | None = None
    ) -> CommandResult:
        """Run a command with this input, without a lease, as a process group; return how it ended.

        After `within_s`, or if this is cancelled, the group gets SIGTERM, and SIGKILL after
        `grace_s`. `takes` gets each line of the output, and says whether to leave it out of the
        result. Raises OSError or ValueError if the command cannot be started.
        """
        return await run_command(
            self.confined,
            folder=self.folder,
            environment={**self.environment, LABEL_VARIABLE: process_label(self.logs)},
            grace_s=grace_s,
            within_s=within_s,
            given=given,
            takes=takes,
        )

    async def run_contained(self, *, within_s: float) -> CommandResult:
        """Run a command without a lease or an input, and end all that it starts, daemons too.

        They are ended when the command has ended, after `within_s`, or if this is cancelled. Its
        errors are a part of its output. Raises OSError or ValueError if it cannot be started.
        """
        return await run_contained(
            self.confined, folder=self.folder, environment=self.environment, within_s=within_s
        )

    def trusted(self, module: str, settings: Settings, *names: str) -> Command:
        """Return a command that runs a module which may read the settings of these names.

        It has no sandbox, and what its spans need. Some settings are secrets, so the module must
        run no other program.
        """
        # Without -P, Python would take a folder `interlock` of the work for Interlock.
        arguments = (sys.executable, "-P", "-m", module)
        variables = {**(self.variables or {}), **environment_of_program(settings, *names)}
        return replace(self, arguments=arguments, sandbox=None, variables=variables)


def process_label(logs: Path) -> str:
    """Return what marks every process of the commands that have their logs in a folder.

    Another deployment on this computer may have a record with the same id, but not the same folder.
    """
    return str(logs.absolute())
