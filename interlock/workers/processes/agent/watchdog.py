"""The watchdog: starts one agent for its supervisor, reaps it and kills it in time.

It is a small program in a session of its own, child of the supervisor and parent of the agent. When
the supervisor dies, its pipe closes, and the watchdog kills all that the agent started. It also
kills at a deadline which the supervisor must keep moving, so that the agent of a frozen supervisor
ends too. After the computer has slept, when nobody could move the deadline, it stops the agent's
processes instead, and lets them go on once the supervisor has renewed its leases. It is a
subreaper, so processes of the agent that lose their parent stay below it. The supervisor is a
subreaper as well, for the case that the watchdog is killed.
"""

from __future__ import annotations

import _signal as signal
import marshal
import os
import select
import sys
import time

from interlock.workers.processes.agent.containment import (
    CGROUP,
    GROUP,
    AgentGroup,
    ProcessTree,
    adopt_orphans,
    kill_everything,
)
from interlock.workers.processes.agent.reaper import Reaper
from interlock.workers.processes.clock import clock

# No module that is imported at the start may import `contextlib`, `enum`, `json`, `signal` or
# `typing`: together they take as long as the start of the interpreter. A watchdog that makes a
# cgroup imports more when it makes it. `_signal` is the part of `signal` without the enums. Type
# checkers take this name for true.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

    from interlock.workers.processes.agent.cgroup import Cgroup

LEFT_BEHIND_GRACE_S = 1.0
KILL_S_MAX = 5.0
NEVER = float("inf")
# The cause in the report of an agent that ended by itself.
ITSELF = "itself"
# Killing takes a moment, and must be done by the deadline.
MARGIN_S = 0.5
# A watchdog that is later than this has not run: the computer slept, or all its processes stopped.
AWAY_S = 3.0
# After that the agent's processes are stopped at once. So long the supervisor has to move the
# deadline: it renews its leases every two seconds, if the store still has them as its own.
PAUSE_S_MAX = 2.0
RENEWAL_S_MAX = 30.0
_POLL_S = 1.0
_ENDING_POLL_S = 0.02
_LEFT_POLL_S, _LEFT_POLLS = 0.005, 20
_ROUNDS_MAX = 600
_SHOWN_MAX = 20
_IGNORED_SIGNALS = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM),
)
# An agent expects what these do by default.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_NOT_JOINED, _NOT_STARTED = 125, 126
_READ_BYTES = 64 * 1024


class WatchdogSpec:
    """How to start an agent. `descriptors` become its stdin, stdout, stderr and report pipe.

    All values are of built-in types, and of no subclass of them such as a StrEnum.
    """

    def __init__(
        self,
        *,
        command: list[str],
        folder: str,
        environment: dict[str, str],
        kinds: list[str],
        cgroup: str | None,
        descriptors: list[int],
        deadline: float,
    ) -> None:
        self.command, self.folder, self.environment = command, folder, environment
        self.kinds, self.cgroup = kinds, cgroup
        self.descriptors, self.deadline = descriptors, deadline


class JoinError(Exception):
    """The agent could not join its cgroup, so it has not run."""


def to_line(spec: WatchdogSpec) -> bytes:
    """Encode a spec as a line; ValueError if a value is of a type that is not built in.

    JSON would need modules that import many more.
    """
    try:
        return marshal.dumps(vars(spec)).hex().encode() + b"\n"
    except ValueError as error:
        raise ValueError(
            "a part of its command or environment is not of a built-in type; convert it to str"
        ) from error


def from_line(line: bytes) -> WatchdogSpec:
    """Decode the spec that the supervisor, which runs in the same Python, has encoded.

    An agent can write to the pipes of its watchdog, so no other line may be decoded in this way.
    """
    values = marshal.loads(bytes.fromhex(line.decode()))  # noqa: S302 - read before the agent runs
    return WatchdogSpec(**values)


def main() -> None:
    """Start the agent of the first line on stdin, and stay until none of its processes is left."""
    woken = _ignore_signals()
    orders = OrderReader(0)
    spec = from_line(orders.first())
    try:
        leader, processes, kind = _launch(spec)
    except (OSError, ValueError) as error:
        _report("failed", _reason(error))
        return
    for descriptor in spec.descriptors:
        os.close(descriptor)
    _report("started", leader, kind)
    Watchdog(leader, processes, orders=orders, woken=woken, deadline=spec.deadline).guard()


class Watchdog:
    """Guards one running agent."""

    def __init__(
        self,
        leader: int,
        processes: ProcessTree | AgentGroup,
        *,
        orders: OrderReader,
        woken: int,
        deadline: float,
    ) -> None:
        self._processes, self._orders, self._woken = processes, orders, woken
        self._reaper = Reaper(leader)
        self._deadline, self._kill_at = deadline, NEVER
        self._cause: str | None = None
        self._slept_s, self._due_back = 0.0, clock()
        self._exit_reported = False
        self._began, self._rounds = time.monotonic(), 0

    def guard(self) -> None:
        """Stay until no process of the agent is left."""
        while not self._nothing_left() and self._rounds < _ROUNDS_MAX:
            self._note_exit()
            if clock() >= min(self._kill_at, self._deadline - MARGIN_S):
                if not self._was_away() or not self._pause():
                    self._kill()
            else:
                self._listen()
        self._note_exit()
        if self._rounds >= _ROUNDS_MAX:
            return
        cpu_s, cgroup = self._reaper.cpu_s, self._processes.cgroup
        if cgroup is not None:
            cpu_s = cgroup.cpu_s() or cpu_s
            cgroup.remove()
        _report("gone", cpu_s, self._reaper.max_rss_bytes)

    def _nothing_left(self) -> bool:
        return self._reaper.reap_all() and not self._processes.any_left()

    def _note_exit(self) -> None:
        if self._reaper.code is None or self._exit_reported:
            return
        self._exit_reported = True
        left_behind = 0 if self._cause else self._count_left_behind()
        wall_s = time.monotonic() - self._began
        _report("exited", self._reaper.code, left_behind, self._cause or ITSELF, wall_s)
        if left_behind:
            self._processes.terminate()
            self._kill_at = min(self._kill_at, clock() + LEFT_BEHIND_GRACE_S)

    def _count_left_behind(self) -> int:
        # The first process of a sandbox ends a moment after its command.
        for _ in range(_LEFT_POLLS):
            if self._nothing_left():
                return 0
            time.sleep(_LEFT_POLL_S)
        return len(self._processes.pids())

    def _was_away(self) -> bool:
        """Whether this program, and so most likely every other, did not run for a while."""
        return self._kill_at == NEVER and clock() > self._due_back + AWAY_S

    def _pause(self) -> bool:
        """Stop the agent's processes until the supervisor moves the deadline; whether all stopped.

        Nobody else has the leases, or somebody has them by now: only the store can tell.
        """
        self._slept_s = self._slept_s or clock() - self._due_back
        self._due_back = clock()
        self._deadline = self._due_back + RENEWAL_S_MAX
        return self._processes.pause(time.monotonic() + PAUSE_S_MAX)

    def _arm(self, deadline: float) -> None:
        if not self._slept_s:
            self._deadline = deadline
        elif deadline - MARGIN_S > clock():
            # An older order, from before the sleep, does not let the processes go on.
            self._deadline = deadline
            self._processes.signal(signal.SIGCONT)
            _report("slept", self._slept_s)
            self._slept_s = 0.0

    def _kill(self) -> None:
        self._cause = self._cause or "deadline"
        self._rounds += 1
        self._deadline = NEVER
        if kill_everything(self._processes, nothing_left=self._nothing_left, within_s=KILL_S_MAX):
            return
        _report("left", *self._processes.pids()[:_SHOWN_MAX])
        self._kill_at = clock() + _POLL_S

    def _listen(self) -> None:
        ending = self._kill_at < NEVER
        until = min(self._kill_at, self._deadline - MARGIN_S) - clock()
        wait_s = max(0.0, min(until, _ENDING_POLL_S if ending else _POLL_S))
        self._due_back = clock() + wait_s
        for order in self._orders.read_orders(self._woken, wait_s):
            match order:
                case ["arm", deadline]:
                    self._arm(float(deadline))
                case ["end", grace_s]:
                    self._end(float(grace_s))
        if self._orders.closed:
            self._cause, self._kill_at = self._cause or "supervisor", -NEVER

    def _end(self, grace_s: float) -> None:
        # An agent that ended before this order arrived has ended by itself.
        self._reaper.reap_all()
        if self._reaper.code is None and self._cause is None:
            self._cause = "order"
            if self._slept_s:
                # Stopped processes are not let go on for a grace: another holder may be at work.
                grace_s = 0.0
            else:
                self._processes.terminate()
        self._kill_at = min(self._kill_at, clock() + grace_s)


class OrderReader:
    """Reads the supervisor's orders, one a line; `closed` is set once the supervisor is gone."""

    def __init__(self, descriptor: int) -> None:
        self.closed = False
        self._descriptor = descriptor
        self._parent = os.getppid()
        self._pending = b""

    def first(self) -> bytes:
        """Return the first line; exit if the supervisor is gone before it sent one."""
        while b"\n" not in self._pending:
            chunk = os.read(self._descriptor, _READ_BYTES)
            if not chunk:
                sys.exit(1)
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def read_orders(self, woken: int, wait_s: float) -> Iterator[list[str]]:
        """Wait for orders, a signal or the timeout; yield each order as its fields."""
        watched = [woken] if self.closed else [woken, self._descriptor]
        ready, _, _ = select.select(watched, [], [], wait_s)
        if woken in ready:
            os.read(woken, _READ_BYTES)
        if self._descriptor in ready:
            chunk = os.read(self._descriptor, _READ_BYTES)
            self.closed = not chunk
            self._pending += chunk
        # The parent is checked too: a child that the supervisor forked may hold the pipe open.
        self.closed = self.closed or os.getppid() != self._parent
        *lines, self._pending = self._pending.split(b"\n")
        yield from (line.decode().split() for line in lines)


def _launch(spec: WatchdogSpec) -> tuple[int, ProcessTree | AgentGroup, str]:
    adopts = adopt_orphans(enabled=True)
    for kind in spec.kinds:
        cgroup = None
        if kind == CGROUP and spec.cgroup is not None:
            cgroup = make_cgroup(spec.cgroup)
        if kind == CGROUP and cgroup is None:
            continue
        if kind != GROUP and not adopts:
            continue
        try:
            leader = _start(spec, cgroup)
        except (JoinError, OSError, ValueError) as error:
            if cgroup is not None:
                cgroup.remove()
            if isinstance(error, JoinError):
                # The next kind may work.
                continue
            raise
        if kind == GROUP:
            return leader, AgentGroup(leader), kind
        return leader, ProcessTree(os.getpid(), cgroup=cgroup), kind
    raise ValueError("none of the requested kinds of containment works on this system")


def make_cgroup(folder: str) -> Cgroup | None:
    """Make a cgroup that can be killed; None if the system does not allow that."""
    from pathlib import Path  # noqa: PLC0415 - most systems have no cgroups, and start without it

    from interlock.workers.processes.agent.cgroup import Cgroup  # noqa: PLC0415 - as above

    return Cgroup.make(Path(folder))


def _start(spec: WatchdogSpec, cgroup: Cgroup | None) -> int:
    """Start the agent's command, and return its process id.

    Raises OSError, JoinError, or ValueError with the reason why it cannot be run.
    """
    # The start of the command closes the pipe.
    failure, failing = os.pipe()
    leader = os.fork()
    if not leader:
        _become_agent(spec, cgroup, failing)
    os.close(failing)
    reason = os.read(failure, _READ_BYTES).decode()
    os.close(failure)
    if reason:
        _, status = os.waitpid(leader, 0)
        raise JoinError if os.waitstatus_to_exitcode(status) == _NOT_JOINED else ValueError(reason)
    return leader


def _become_agent(spec: WatchdogSpec, cgroup: Cgroup | None, failing: int) -> NoReturn:
    """Turn this process into the agent; where that fails, write the reason to `failing`."""
    code = _NOT_JOINED
    try:
        if cgroup is not None:
            cgroup.join()
        code = _NOT_STARTED
        os.chdir(spec.folder)
        os.setsid()
        for number, descriptor in enumerate(spec.descriptors[:3]):
            os.dup2(descriptor, number)
            os.close(descriptor)
        for ignored in _IGNORED_BY_PYTHON:
            signal.signal(ignored, signal.SIG_DFL)
        os.execvpe(spec.command[0], spec.command, spec.environment)  # noqa: S606 - no shell is wanted
    except Exception as error:  # noqa: BLE001 - the watchdog reports every reason
        os.write(failing, (_reason(error) or type(error).__name__).encode())
    finally:
        os._exit(code)


def _reason(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _report(*fields: object) -> None:
    # A reason may have line breaks, or characters that are not text.
    words = " ".join(map(str, fields)).split()
    try:
        os.write(1, " ".join(words).encode(errors="backslashreplace") + b"\n")
    except BrokenPipeError:
        return


def _ignore_signals() -> int:
    """Ignore all signals but SIGKILL; return the descriptor that SIGCHLD makes readable."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # Handlers instead of SIG_IGN, because the agent would inherit SIG_IGN.
    for number in (signal.SIGCHLD, *_IGNORED_SIGNALS):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    return woken
