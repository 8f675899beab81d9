"""Runs an agent's command and all processes that it starts, until none of them is left.

All of them are killed at a deadline unless the caller moves it. A process that uses this module
must run only one agent, and start no other process meanwhile.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from interlock.workers.processes.agent.cgroup import fresh_folder
from interlock.workers.processes.agent.containment import GROUP, KINDS, LABEL_VARIABLE
from interlock.workers.processes.agent.output import OutputLog
from interlock.workers.processes.agent.pipes import Pipes
from interlock.workers.processes.agent.watchdog import ITSELF, WatchdogSpec
from interlock.workers.processes.agent.watchdog_client import WatchdogClient

REPORT_FD = "INTERLOCK_REPORT_FD"
# Reasons of an end that the caller did not order.
KILL_BY_PASSED = "kill_by_passed"
WATCHDOG_LOST = "watchdog_lost"
CLOSED = "closed"
_CLOSE_S_MAX = 20.0
SLEEPS_MAX = 100  # that are kept until they are taken


# The errors of processes that their supervisor did not end, by the reason of their end.
LEASE_LOST_ERRORS = {
    KILL_BY_PASSED: "its lease could not be renewed in time: the store or this computer was away",
    WATCHDOG_LOST: "its watchdog was lost",
}


class SpawnError(OSError):
    """The command cannot be started, and no part of it ran. The message has the reason."""

    def __init__(self, command: Sequence[str], problem: str) -> None:
        shown = command[0] if command else ""
        super().__init__(f"cannot start {shown!r}: {problem}")
        self.command, self.problem = tuple(command), problem


@dataclass(frozen=True, slots=True)
class Exit:
    """How an agent ended. It is known once none of its processes is left.

    A negative `code` is a signal's number. `reason_by_us` is None if the leader ended by itself,
    with any code. `left_behind` counts the processes that outlived it. `output` and `errors`
    are the last 16 KiB; `cut` means that a log is incomplete. `max_rss_bytes` is that of the
    largest single process.
    """

    code: int
    reason_by_us: str | None
    left_behind: int
    output: str
    errors: str
    cut: bool
    wall_s: float
    cpu_s: float
    max_rss_bytes: int

    @property
    def by_supervisor(self) -> bool:
        """Whether the supervisor ended the agent, which neither ended by itself nor was lost."""
        return self.reason_by_us not in (None, WATCHDOG_LOST)

    @property
    def outlived_lease(self) -> bool:
        """Whether the agent was killed because its lease was not renewed in time."""
        return self.reason_by_us == KILL_BY_PASSED

    @property
    def lease_error(self) -> str:
        """The error of an agent that died with its lease or its watchdog; '' of any other."""
        return LEASE_LOST_ERRORS.get(self.reason_by_us or "", "")


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The files for output and errors, and the maximum size of each."""

    output: Path
    errors: Path
    bytes_max: int


class AgentProcess:
    """A running command with all that it started. Safe to use from any thread."""

    def __init__(self, watchdog: WatchdogClient, pipes: Pipes) -> None:
        self._watchdog, self._pipes = watchdog, pipes
        self._reports = watchdog.reports()
        self._reason: str | None = None
        self._exit: Exit | None = None
        self._over = threading.Event()
        self._sleeps = deque[float](maxlen=SLEEPS_MAX)
        # Taken before any output is read, so `progress` is later only if there was output.
        self.began = time.monotonic()
        self.pid = 0
        self.containment = GROUP
        self.survivors: tuple[int, ...] = ()

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        prompt: str,
        more_follows: bool,
        reads_output: bool,
        logs: LogFiles,
        label: str,
        kill_by: float,
        kinds: Sequence[str] = KINDS,
    ) -> Self:
        """Start a command. All is killed by `kill_by`, a time of `clock`, unless `arm` moves that.

        The command gets this environment, the label and the report descriptor, but no variable of
        this process. The prompt goes to stdin, which is then closed unless `more_follows`. With
        `reads_output` the caller has to take the output's lines. Raises SpawnError.
        """
        problem = _problem(command, folder, {**environment, LABEL_VARIABLE: label}, prompt)
        if problem is not None:
            raise SpawnError(command, problem)
        try:
            output, errors = _open(logs)
            pipes = Pipes(
                output=output, errors=errors, prompt=prompt.encode(), more_follows=more_follows
            )
        except OSError as error:
            raise SpawnError(command, str(error)) from error
        if reads_output:
            pipes.keep_output_lines()
        added = {LABEL_VARIABLE: label, REPORT_FD: str(pipes.agent_ends[-1])}
        spec = WatchdogSpec(
            command=list(command),
            folder=str(folder),
            environment={**environment, **added},
            kinds=list(kinds),
            cgroup=fresh_folder(),
            descriptors=list(pipes.agent_ends),
            deadline=kill_by,
        )
        try:
            watchdog = WatchdogClient(spec)
        except (OSError, ValueError) as error:
            pipes.finish()
            raise SpawnError(command, f"its watchdog cannot be started: {error}") from error
        agent = cls(watchdog, pipes)
        agent._begin(command)
        return agent

    @property
    def progress(self) -> float:
        """The time (of time.monotonic) of the last output or complete report line."""
        return self._pipes.progress

    def reports(self) -> list[bytes]:
        """Take the lines from the report descriptor; the agent is blocked if they are not taken."""
        return self._pipes.take(self._pipes.reports)

    def output_lines(self) -> list[bytes]:
        """Take the lines of the output, with `reads_output`; the agent is blocked otherwise."""
        return self._pipes.take(self._pipes.output_lines)

    def send(self, text: str, *, last: bool) -> bool:
        """Write to the agent's stdin; False if it is closed already."""
        return self._pipes.send(text.encode(), last=last)

    def arm(self, kill_by: float) -> bool:
        """Move the deadline by which all is killed; False if the watchdog is gone."""
        return self._watchdog.order("arm", kill_by)

    def take_sleeps(self) -> list[float]:
        """Take the seconds of each sleep of the computer after which the agent went on."""
        return [self._sleeps.popleft() for _ in range(len(self._sleeps))]

    def end(self, reason: str, *, grace_s: float) -> None:
        """Begin to end all processes: SIGTERM now, SIGKILL after the grace. `wait` for the end.

        The first reason stays; a further call can only shorten the grace.
        """
        self._reason = self._reason or reason
        self._watchdog.expect_report_within(grace_s)
        self._watchdog.order("end", grace_s)

    def wait(self, timeout_s: float | None) -> Exit | None:
        """Wait until no process is left; None after the timeout: see `survivors` then."""
        self._over.wait(timeout_s)
        return self._exit

    def close(self) -> None:
        """Kill all processes that still run."""
        if not self._over.is_set():
            self.end(CLOSED, grace_s=0)
            self._over.wait(_CLOSE_S_MAX)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _begin(self, command: Sequence[str]) -> None:
        report = next(self._reports, ())
        match report:
            case ("started", int(pid), str(kind)):
                self.pid, self.containment = pid, kind
            case _:
                self._watchdog.close()
                if not report:
                    # It may have started the agent and died before it could report that.
                    self._watchdog.take_over(0, None, on_survivors=self._set_survivors)
                self._watchdog.release()
                self._pipes.finish()
                problem = (
                    report[1] if report else "its watchdog was lost before it reported a start"
                )
                raise SpawnError(command, problem)
        self._watchdog.expect_report_within(math.inf)
        self._pipes.start()
        threading.Thread(target=self._watch, name="agent-watch", daemon=True).start()

    def _watch(self) -> None:
        exited: Sequence[Any] | None = None
        used: Sequence[Any] | None = None
        for kind, *values in self._reports:
            match kind:
                case "exited":
                    exited = values
                case "slept":
                    self._sleeps.append(values[0])
                case "left":
                    self._set_survivors(values[0])
                case "gone":
                    used = values
        # The agent can write these reports too, but it cannot let a killed watchdog exit with 0.
        is_done = self._watchdog.close()
        if used is None or exited is None or not is_done:
            reaper = self._watchdog.take_over(
                self.pid, self.containment, on_survivors=self._set_survivors
            )
            if reaper is None:
                return
            used = [reaper.cpu_s, reaper.max_rss_bytes]
            code = -signal.SIGKILL if reaper.code is None else reaper.code
            exited = exited or [code, 0, "lost", time.monotonic() - self.began]
        self._watchdog.release()
        self._pipes.finish()
        self._exit = self._ended(exited, used)
        self.survivors = ()
        self._over.set()

    def _set_survivors(self, survivors: list[int]) -> None:
        self.survivors = tuple(survivors)

    def _ended(self, exited: Sequence[Any], used: Sequence[Any]) -> Exit:
        code, left_behind, cause, wall_s = exited
        reasons = {ITSELF: None, "order": self._reason, "deadline": KILL_BY_PASSED}
        pipes = self._pipes
        return Exit(
            code=code,
            reason_by_us=reasons.get(cause, self._reason or WATCHDOG_LOST),
            left_behind=left_behind,
            output=pipes.output.tail(),
            errors=pipes.errors.tail(),
            cut=pipes.cut or pipes.output.cut or pipes.errors.cut,
            wall_s=wall_s,
            cpu_s=used[0],
            max_rss_bytes=used[1],
        )


def _problem(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], prompt: str
) -> str | None:
    """Return a reason why this command cannot start, if one shows without starting it."""
    texts = [*command, *environment, *environment.values()]
    if not command or not command[0]:
        return "the command is empty"
    if any("\0" in text for text in texts):
        return "a NUL character is in the command or in its environment"
    if any(not name or "=" in name for name in environment):
        return "a variable of its environment has no name, or one with a ="
    if not folder.is_dir():
        return f"there is no folder {folder}"
    try:
        prompt.encode()
    except UnicodeEncodeError:
        return "its prompt is not text"
    return _program_problem(command[0], folder, os.pathsep.join(os.get_exec_path(environment)))


def _program_problem(name: str, folder: Path, search_path: str) -> str | None:
    # Searched as the start will search: in the agent's folder, on the agent's PATH.
    if os.path.dirname(name):  # noqa: PTH120 - "./name" has one, Path("./name") has lost it
        file: str | None = str(folder / name)
    else:
        file = shutil.which(name, path=search_path) or shutil.which(
            name, mode=os.F_OK, path=search_path
        )
    if file is None or not Path(file).exists():
        return "there is no such command"
    if Path(file).is_dir() or not os.access(file, os.X_OK):
        return f"{file} is not executable"
    return None


def _open(logs: LogFiles) -> tuple[OutputLog, OutputLog]:
    output = OutputLog(logs.output, bytes_max=logs.bytes_max)
    try:
        return output, OutputLog(logs.errors, bytes_max=logs.bytes_max)
    except OSError:
        output.close()
        raise
