"""A command of an agent, job or codon, and everything that its process is started with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from pathlib import Path

from interlock.kernel.store.outputs import ERRORS, OUTPUT
from interlock.workers.config import Settings
from interlock.workers.engine.work import EffectWork
from interlock.workers.engine.work_environment import (
    environment_of_check,
    environment_of_program,
    environment_of_work,
)
from interlock.workers.processes.agent.contained import run_contained
from interlock.workers.processes.agent.containment import LABEL_VARIABLE
from interlock.workers.processes.bound_process import end_bound, extend, has_ended, start_bound
from interlock.workers.processes.clock import clock
from interlock.workers.processes.process_group import CommandResult, Takes, run_command
from interlock.workers.processes.sandbox import Sandbox

END_WAIT_S = 10.0  # after SIGKILL, until the processes of a bound command have to be gone
POLL_S = 0.1  # between two looks at a bound command and its lease
# Longer than the system may take to poll: the computer slept, or all its processes were stopped.
AWAY_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command, and everything that its process is started with.

    A supervisor runs it under leases; `run_bound` runs it in a handler, and `run_contained` and
    `run` run a short one without a lease. Its environment is that of this process without the
    settings of Interlock, with the `variables`, which describe its work, and the trace of the
    caller. `variables=None` is for a command that checks work.

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
    settings: Mapping[str, str] = field(default_factory=dict)  # those that `trusted` gives it
    logs: Path = Path()
    log_name: str = ""
    prompt: str = ""
    more_follows: bool = False
    reads_output: bool = False
    environment: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        """Make the environment, in the span of the caller."""
        if self.variables is None:
            made = environment_of_check()
        else:
            made = environment_of_work(self.variables, settings=self.settings)
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

    def run_bound(self, work: EffectWork, act: Callable[[float], object], *, grace_s: float) -> int:
        """Run a command in a handler, bound to its process and its lease; return the exit code.

        Its output and errors are one log. It gets SIGTERM, and SIGKILL after `grace_s`, when the
        work is stopped or given back, and when this process ends. When the lease runs out it is
        killed, even if this process is frozen then. `act` is often called while the command runs,
        with the seconds for which the computer slept, mostly 0. Raises CancelledError if the
        command was ended, OSError if it cannot be started.
        """
        with self.log_files[0].open("wb") as output:
            process = start_bound(
                self.confined,
                folder=self.folder,
                output=output,
                grace_s=grace_s,
                environment=self.environment,
            )
            try:
                _follow(process, work, act)
            finally:
                code = end_bound(process, patience_s=grace_s + END_WAIT_S)
        # The program between the two ends by a signal when the lease has run out.
        if code < 0 or work.stopped.is_set() or work.giving_back.is_set():
            raise CancelledError
        return code

    def trusted(self, module: str, settings: Settings, *names: str) -> Command:
        """Return a command that runs a module which may read the settings of these names.

        The command has no sandbox; it gets the named settings and what its spans need. Some
        settings are secrets, so the module must run no other program.
        """
        # Without -P, Python would take a folder `interlock` of the work for Interlock.
        arguments = (sys.executable, "-P", "-m", module)
        given = environment_of_program(settings, *names)
        variables = self.variables or {}
        return replace(self, arguments=arguments, sandbox=None, variables=variables, settings=given)


def _follow(
    process: subprocess.Popen[bytes], work: EffectWork, act: Callable[[float], object]
) -> None:
    """Wait until a command of a handler has ended or has to end."""
    slept_s = 0.0
    while not (work.stopped.is_set() or work.giving_back.is_set()):
        # When the lease runs out, another worker may start the same command: this one is dead by
        # then, even if this process freezes.
        extend(process, work.held.valid_until)
        asked_at = clock()
        if has_ended(process, within_s=POLL_S):
            return
        slept_s = max(slept_s, clock() - asked_at)
        # A lease that could not be renewed meanwhile may be lost.
        if slept_s > AWAY_S and work.held.left_s > 0:
            act(slept_s)
            slept_s = 0.0
        else:
            act(0.0)


def process_label(logs: Path) -> str:
    """Return what marks every process of the commands that have their logs in a folder.

    Another deployment on this computer may have a record with the same id, but not the same folder.
    """
    return str(logs.absolute())
