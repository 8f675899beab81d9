"""The program between a bound command and the process that started it.

The starting process holds a pipe to this program's stdin. When the pipe closes, even because that
process was killed by SIGKILL, this program ends the command and its group. A death signal, which
Linux can set on a child, would be simpler, but it fires when the *thread* that started the child
ends. This program has only one thread, so it sets the death signal on the command: if this program
is killed, the command dies too.

After the computer has slept, when nobody could extend the command's time, the command is stopped
instead, and goes on once its time is extended: the starting process has renewed its lease then.

On Linux this program also adopts what the command leaves behind, such as a server in a session of
its own, and ends it together with the command; with the word LEAVE it leaves that alone.

Every command of a job waits for this program to start. So it imports little: `contextlib` and
`signal`, which makes enums of its numbers, would make its start half as long again. The interpreter
is not torn down at the end.
"""

from __future__ import annotations

import _signal as signal
import ctypes
import os
import select
import sys
import time

ADOPT, LEAVE = "adopt", "leave"
PARENT_POLL_S = 1.0
# As those of the watchdog of an agent.
AWAY_S = 3.0
RENEWAL_S_MAX = 30.0
NO_PROGRAM = 127  # as a shell exits when it does not find a program
_END_POLL_S = 0.01
_READ_BYTES = 4096
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_ORPHANS_S_MAX = 5.0  # a process that the system cannot kill is not waited for longer
# A command expects the default actions. It would inherit that Python ignores the first two. The
# third is reset because this program's handler would stay until the command is executed.
_RESET = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM)


def main(arguments: list[str]) -> int:
    """Run the command until it ends or the pipe on stdin closes; return its exit code.

    The arguments are the seconds of grace, ADOPT or LEAVE, and the command. Where its time is over,
    this program ends by SIGKILL, so that no code is taken for that of the command.
    """
    grace_s, adopts, command = float(arguments[0]), arguments[1] == ADOPT, arguments[2:]
    parent = os.getppid()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    stops: list[int] = []
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda number, _: stops.append(number))
    if adopts and sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    child = _start(command)
    until, partial = float("inf"), b""
    due_back, paused, code = clock(), False, None
    while code is None and not stops and os.getppid() == parent:
        left_s = until - clock()
        if left_s <= 0:
            if clock() <= due_back + AWAY_S:
                _end(child, None, 0.0 if paused else grace_s)
                os.kill(os.getpid(), signal.SIGKILL)
            paused, left_s = True, RENEWAL_S_MAX
            until = clock() + left_s
            os.killpg(child, signal.SIGSTOP)
        wait_s = min(PARENT_POLL_S, left_s)
        due_back = clock() + wait_s
        # The parent is checked too: a child that it forked may keep the pipe open.
        ready, _, _ = select.select([0, woken], [], [], wait_s)
        if woken in ready:
            os.read(woken, _READ_BYTES)
        if 0 in ready:
            chunk = os.read(0, _READ_BYTES)
            if not chunk:
                break
            lines, newline, partial = (partial + chunk).rpartition(b"\n")
            extended = float(lines.split()[-1]) if newline else 0.0
            if extended and not paused:
                until = extended
            elif extended > clock():
                # One that was written before the sleep is over, too.
                until, paused = extended, False
                os.killpg(child, signal.SIGCONT)
        code = _code(child)
    # A command that is stopped gets no time of grace, in which another one may be at work.
    return _end(child, code, 0.0 if paused else grace_s)


def clock() -> float:
    """Return seconds as `clock.py` does, which this program cannot import."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _start(command: list[str]) -> int:
    """Start the command in a process group of its own, with an empty stdin; return its id."""
    program = os.getpid()
    # `_end` may send SIGTERM before the child executes the command. If it were not blocked, the
    # child would call this program's handler, and the command would then run on without the signal.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        # In both processes, because either may be the first to go on.
        try:  # noqa: SIM105 - `contextlib` imports much
            os.setpgid(child, child)
        except OSError:
            pass
        return child
    try:
        os.setpgid(0, 0)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == program:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for number in _RESET:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
            os.execvp(command[0], command)  # noqa: S606 - a command brings its own shell
    except OSError as error:
        os.write(2, f"{command[0]} cannot be run: {error.strerror}\n".encode())
    os._exit(NO_PROGRAM)


def _code(child: int) -> int | None:
    """Return the exit code of the command once it has ended, as a shell names it."""
    ended, status = os.waitpid(child, os.WNOHANG)
    code = os.waitstatus_to_exitcode(status) if ended else None
    return 128 - code if code is not None and code < 0 else code


def _end(child: int, code: int | None, grace_s: float) -> int:
    """End the command and its group; return its exit code."""
    waited_s = 0.0
    if code is None:
        # The whole group: in a sandbox the command is not the first process.
        _signal_group(child, signal.SIGTERM)
    while code is None and waited_s < grace_s:
        time.sleep(_END_POLL_S)
        waited_s += _END_POLL_S
        code = _code(child)
    _signal_group(child, signal.SIGKILL)
    while code is None:
        time.sleep(_END_POLL_S)
        code = _code(child)
    _end_orphans()
    return code


def _signal_group(group: int, number: int) -> None:
    try:  # noqa: SIM105 - `contextlib` imports much
        os.killpg(group, number)
    except ProcessLookupError:
        pass


def _end_orphans() -> None:
    """Kill the processes that the command left behind. Those of a killed one come next."""
    until = clock() + _ORPHANS_S_MAX
    while (orphans := _children()) and clock() < until:
        for orphan in orphans:
            os.kill(orphan, signal.SIGKILL)  # it is a child, so no other process has its id
        while _reaped():
            pass
        time.sleep(_END_POLL_S)


def _children() -> list[int]:
    try:
        listed = os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY)
    except OSError:
        return []  # not Linux, or a system that does not list them
    with os.fdopen(listed, "rb") as children:
        return [int(word) for word in children.read().split()]


def _reaped() -> bool:
    """Take the exit code of a child that has ended, if there is one."""
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
