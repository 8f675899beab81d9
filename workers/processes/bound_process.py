"""Runs a command as a bound process: it ends when the process that started it ends.

This file is also a small program that runs between the two. The starting process holds a pipe to
it. When the pipe closes, even because that process was killed by SIGKILL, this program ends the
command and its group. A death signal, which Linux can set on a child, would be simpler, but it
fires when the *thread* that started the child ends. This program has only one thread, so it sets
the death signal on the command: if this program is killed, the command dies too.
"""

from __future__ import annotations

import ctypes
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

PARENT_POLL_S = 1.0
_PR_SET_PDEATHSIG = 1


def start_bound(
    command: Sequence[str],
    *,
    folder: Path,
    output: IO[bytes],
    grace_s: float,
    environment: Mapping[str, str] | None = None,
    keep_open: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, bound to this process.

    Returns the program between the two. Closing its `stdin` ends the command: SIGTERM, then SIGKILL
    after `grace_s`. It exits with the command's exit code. The command inherits the descriptors in
    `keep_open`.
    """
    # -I and -S: the program needs the standard library only, and starts in a few milliseconds.
    program = [sys.executable, "-I", "-S", __file__, str(grace_s), *command]
    return subprocess.Popen(
        program,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        cwd=folder,
        env=environment,
        pass_fds=keep_open,
        start_new_session=True,
    )


def extend(bound: subprocess.Popen[bytes], left_s: float) -> None:
    """Set the command's deadline to so many seconds from now; without calls it has none.

    A process that freezes, or loses its store, stops extending, and so leaves no command behind.
    """
    with suppress(OSError, ValueError):
        if bound.stdin is not None:
            # Unbuffered: bytes left in a buffer would fail its close once the program has ended.
            os.write(bound.stdin.fileno(), f"{max(left_s, 0):.3f}\n".encode())


def end_bound(bound: subprocess.Popen[bytes], *, patience_s: float) -> int:
    """End the command and return its exit code; after `patience_s` it is killed."""
    if bound.stdin is not None:
        bound.stdin.close()
    try:
        return bound.wait(patience_s)
    except subprocess.TimeoutExpired:
        bound.kill()
        return bound.wait()


def main(arguments: Sequence[str]) -> int:
    """Run the command until it ends or the pipe on stdin closes."""
    grace_s, command = float(arguments[0]), arguments[1:]
    parent = os.getppid()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    ended: list[int] = []
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda signum, _: ended.append(signum))
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        close_fds=False,
        process_group=0,
        preexec_fn=_dying_with_parent(),
    )
    until, partial = math.inf, b""
    while child.poll() is None and not ended and os.getppid() == parent:
        left_s = until - time.monotonic()
        if left_s <= 0:
            break
        # The parent is checked too: a child that it forked may keep the pipe open.
        ready, _, _ = select.select([0, woken], [], [], min(PARENT_POLL_S, left_s))
        if woken in ready:
            os.read(woken, 1024)
        if 0 in ready:
            chunk = os.read(0, 4096)
            if not chunk:
                break
            lines, newline, partial = (partial + chunk).rpartition(b"\n")
            if newline:
                until = time.monotonic() + float(lines.split()[-1])
    return _end(child, grace_s)


def _end(child: subprocess.Popen[bytes], grace_s: float) -> int:
    child.terminate()
    with suppress(subprocess.TimeoutExpired):
        child.wait(grace_s)
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    code = child.wait()
    return code if code >= 0 else 128 - code


def _dying_with_parent() -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    libc, parent = ctypes.CDLL(None), os.getpid()

    def set_death_signal() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return set_death_signal


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
