"""Runs a command exactly as long as the one who started it lives; it never restarts it.

The starter holds a pipe. When the pipe closes, even by a SIGKILL of the starter, this file, run as
a small program of its own between the two, ends the command and its group. A death signal set
by the kernel of Linux on the starter's child would be simpler, but it fires when the *thread* that
started the child ends. Here the starting thread is the only one, so the death signal serves for
the other half: should this program be killed, the command dies with it.
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
    """Start a command in a session of its own, tied to this process, and return its keeper.

    Close the keeper's `stdin` to end the command: SIGTERM, then SIGKILL after `grace_s`. The keeper
    ends with the command's exit code. The command inherits the descriptors in `keep_open`.
    """
    # -I and -S: the keeper needs the standard library alone, and is up in a few milliseconds.
    keeper = [sys.executable, "-I", "-S", __file__, str(grace_s), *command]
    return subprocess.Popen(
        keeper,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        cwd=folder,
        env=environment,
        pass_fds=keep_open,
        start_new_session=True,
    )


def extend(keeper: subprocess.Popen[bytes], left_s: float) -> None:
    """Let the command live so long from now. Told once, it ends where nothing more is told.

    So what froze, or was cut off from whoever lets it work, leaves no command behind.
    """
    with suppress(OSError, ValueError):
        if keeper.stdin is not None:
            # Past its buffer: what a keeper that has ended does not take would fail its closing.
            os.write(keeper.stdin.fileno(), f"{max(left_s, 0):.3f}\n".encode())


def end_bound(keeper: subprocess.Popen[bytes], *, patience_s: float) -> int:
    """End the command and return its exit code; what outlives `patience_s` is killed."""
    if keeper.stdin is not None:
        keeper.stdin.close()
    try:
        return keeper.wait(patience_s)
    except subprocess.TimeoutExpired:
        keeper.kill()
        return keeper.wait()


def main(arguments: Sequence[str]) -> int:
    """Run the command until it ends or the pipe on stdin closes."""
    grace_s, command = float(arguments[0]), arguments[1:]
    starter = os.getppid()
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
    until, begun = math.inf, b""
    while child.poll() is None and not ended and os.getppid() == starter:
        left_s = until - time.monotonic()
        if left_s <= 0:
            break
        # The look at the parent is for a starter that forked: its child keeps the pipe open.
        ready, _, _ = select.select([0, woken], [], [], min(PARENT_POLL_S, left_s))
        if woken in ready:
            os.read(woken, 1024)
        if 0 in ready:
            told = os.read(0, 4096)
            if not told:
                break
            heard, newline, begun = (begun + told).rpartition(b"\n")
            if newline:
                until = time.monotonic() + float(heard.split()[-1])
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
    libc, keeper = ctypes.CDLL(None), os.getpid()

    def set_death_signal() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(1)

    return set_death_signal


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
