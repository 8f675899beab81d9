"""One agent's command and everything it starts, from its start until nothing of it is left.

It knows no store and no lease, only a time by which all must be dead unless it is moved. The
process that uses it runs one agent, and starts nothing else while it runs.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from interlock.workers.processes.agent.cgroup import own_folder
from interlock.workers.processes.agent.containment import MARK, Containment
from interlock.workers.processes.agent.guard import Guard
from interlock.workers.processes.agent.output import Log
from interlock.workers.processes.agent.pipes import Pipes
from interlock.workers.processes.agent.process_table import Seen, look
from interlock.workers.processes.agent.watchdog import Commission, deadline_of

REPORT_FD = "INTERLOCK_REPORT_FD"
# Words of our own beside the caller's, for an end that nobody ordered.
KILL_BY_PASSED = "kill_by_passed"
WATCHDOG_LOST = "watchdog_lost"
CLOSED = "closed"
_CLOSE_S_MAX = 20.0


class SpawnError(Exception):
    """The command cannot be started, and nothing of it ran. The message says why."""

    def __init__(self, command: Sequence[str], problem: str) -> None:
        shown = command[0] if command else ""
        super().__init__(f"cannot start {shown!r}: {problem}")
        self.command, self.problem = tuple(command), problem


@dataclass(frozen=True, slots=True)
class Exit:
    """How an agent ended, after nothing of it was left.

    A negative `code` is a signal's number. `reason_by_us` is None if the leader ended by itself,
    whatever the code says. `left_behind` counts who was still there when it did. `output` and
    `errors` are the last 16 KiB; `cut` says that a log lacks something. `max_rss_bytes` is that of
    the largest single process.
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


@dataclass(frozen=True, slots=True)
class Logs:
    """The files for output and errors, and how large each may become."""

    output: Path
    errors: Path
    bytes_max: int


class AgentProcess:
    """A command that runs, with all it started; `start` makes one. Safe to use from any thread."""

    def __init__(self, guard: Guard, pipes: Pipes) -> None:
        self._guard, self._pipes = guard, pipes
        self._words = guard.words()
        self._leader: Seen | None = None
        self._reason: str | None = None
        self._exit: Exit | None = None
        self._over = threading.Event()
        self._began = time.monotonic()
        self.pid = 0
        self.containment = Containment.GROUP
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
        hears_output: bool,
        logs: Logs,
        mark: str,
        kill_by: float,
        kinds: Sequence[Containment] = tuple(Containment),
    ) -> Self:
        """Start a command; unless `arm` moves it, all is dead by `kill_by` (of time.monotonic).

        The environment is the whole one; the mark and the descriptor for reports are added. The
        prompt goes to stdin, which closes after it unless more follows. Who hears the output has
        to take its lines. Raises SpawnError, or OSError if a log cannot be made.
        """
        problem = _problem(command, folder, {**environment, MARK: mark}, prompt)
        if problem is not None:
            raise SpawnError(command, problem)
        output, errors = _open(logs)
        pipes = Pipes(
            output=output, errors=errors, prompt=prompt.encode(), more_follows=more_follows
        )
        if hears_output:
            pipes.hear_output()
        told = {MARK: mark, REPORT_FD: str(pipes.theirs[-1])}
        commission = Commission(
            command=list(command),
            folder=str(folder),
            environment={**environment, **told},
            kinds=[str(kind) for kind in kinds],
            cgroup=_cgroup_place(),
            descriptors=list(pipes.theirs),
            deadline=deadline_of(kill_by),
        )
        try:
            guard = Guard(commission)
        except OSError as error:
            pipes.finish()
            raise SpawnError(command, f"its watchdog cannot be started: {error}") from error
        agent = cls(guard, pipes)
        agent._begin(command)
        return agent

    @property
    def heartbeat(self) -> bool:
        """Tell whether the leader exists: this very process, and not as a zombie."""
        if self._leader is None:
            return not self._over.is_set()
        now = look(self.pid)
        return self._leader.same(now) and now is not None and not now.dead

    @property
    def progress(self) -> float:
        """Return the time (of time.monotonic) of the last byte of output or line of report."""
        return self._pipes.progress

    def reports(self) -> list[bytes]:
        """Take the lines that came on the report descriptor; untaken, the agent has to wait."""
        return self._pipes.take(self._pipes.reports)

    def output_lines(self) -> list[bytes]:
        """Take the lines of the output, if it is heard; untaken, the agent has to wait."""
        return self._pipes.take(self._pipes.spoken)

    def send(self, text: str, *, last: bool) -> bool:
        """Add to the agent's stdin; False if that is closed already."""
        return self._pipes.send(text.encode(), last=last)

    def arm(self, kill_by: float) -> bool:
        """Move the time by which all must be dead; False if nobody is there to keep it."""
        return self._guard.order("arm", deadline_of(kill_by))

    def end(self, reason: str, *, grace_s: float) -> None:
        """Begin to end everything: asked now, killed after the grace. `wait` tells when it is over.

        The first reason stays; a repeated call can only shorten the grace.
        """
        self._reason = self._reason or reason
        self._guard.expect_word_within(grace_s)
        self._guard.order("end", grace_s)

    def wait(self, timeout_s: float | None) -> Exit | None:
        """Wait until nothing is left; None if that took too long: `survivors` may say who is."""
        self._over.wait(timeout_s)
        return self._exit

    def close(self) -> None:
        """End what still runs, at once."""
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
        said: list[Any] = next(self._words, [])
        match said:
            case ["started", int(pid), int(started), str(kind)]:
                self.pid, self.containment = pid, Containment(kind)
                self._leader = Seen(pid, started, 0, "") if started else None
            case _:
                self._guard.close()
                if not said:
                    # It may have started the agent and died before it could say so.
                    self._guard.take_over(0, None, tell=self._tell)
                self._guard.release()
                self._pipes.finish()
                problem = said[1] if said else "its watchdog was lost before it said that it did"
                raise SpawnError(command, problem)
        self._guard.expect_word_within(math.inf)
        self._pipes.start()
        threading.Thread(target=self._watch, name="agent-watch", daemon=True).start()

    def _watch(self) -> None:
        exited: list[Any] | None = None
        used: list[Any] | None = None
        for word, *values in self._words:
            match word:
                case "exited":
                    exited = values
                case "left":
                    self._tell(values[0])
                case "gone":
                    used = values
        self._guard.close()
        if used is None:
            reaper = self._guard.take_over(self.pid, self.containment, tell=self._tell)
            if reaper is None:
                return
            used = [reaper.cpu_s, reaper.max_rss_bytes]
            code = -signal.SIGKILL if reaper.code is None else reaper.code
            exited = exited or [code, 0, "lost", time.monotonic() - self._began]
        self._guard.release()
        self._pipes.finish()
        assert exited is not None, "the watchdog says how the leader ended before it goes"
        self._exit = self._ended(exited, used)
        self.survivors = ()
        self._over.set()

    def _tell(self, survivors: list[int]) -> None:
        self.survivors = tuple(survivors)

    def _ended(self, exited: list[Any], used: list[Any]) -> Exit:
        code, left_behind, cause, wall_s = exited
        reasons = {None: None, "order": self._reason, "deadline": KILL_BY_PASSED}
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
    """Return why this cannot be started, as far as that shows without running anything."""
    words = [*command, *environment, *environment.values()]
    if not command or not command[0]:
        return "the command is empty"
    if any("\0" in word for word in words):
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


def _program_problem(name: str, folder: Path, places: str) -> str | None:
    # Looked for where the start will look: in its own folder, on its own PATH.
    if os.path.dirname(name):  # noqa: PTH120 - "./name" has one, Path("./name") has lost it
        file: str | None = str(folder / name)
    else:
        file = shutil.which(name, path=places) or shutil.which(name, mode=os.F_OK, path=places)
    if file is None or not Path(file).exists():
        return "there is no such command"
    if Path(file).is_dir() or not os.access(file, os.X_OK):
        return f"{file} is not executable"
    return None


def _open(logs: Logs) -> tuple[Log, Log]:
    output = Log(logs.output, bytes_max=logs.bytes_max)
    try:
        return output, Log(logs.errors, bytes_max=logs.bytes_max)
    except OSError:
        output.close()
        raise


def _cgroup_place() -> str | None:
    own = own_folder()
    return None if own is None else str(own / f"interlock-{uuid4().hex}")
