"""Runs a command as a bound process: it ends when the process that started it ends.

A small program, `bound_command.py`, runs between the two.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from interlock.workers.processes.bound_command import ADOPT, LEAVE

PROGRAM = Path(__file__).with_name("bound_command.py")


def start_bound(
    command: Sequence[str],
    *,
    folder: Path,
    output: IO[bytes],
    grace_s: float,
    environment: Mapping[str, str] | None = None,
    keep_open: Sequence[int] = (),
    ends_orphans: bool = True,
) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, bound to this process.

    Returns the program between the two. Closing its `stdin` ends the command: SIGTERM, then SIGKILL
    after `grace_s`. It exits with the command's exit code; with 127 and a line in the output if
    there is no such program. The command inherits the descriptors in `keep_open`. What it leaves
    behind ends with it, unless `ends_orphans` is false.
    """
    # -I and -S: the program needs the standard library only, and starts in a few milliseconds.
    orphans = ADOPT if ends_orphans else LEAVE
    program = [sys.executable, "-I", "-S", str(PROGRAM), str(grace_s), orphans, *command]
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


def extend(bound: subprocess.Popen[bytes], until: float) -> None:
    """Set the command's deadline, a time of `clock`; without calls it has none.

    A process that freezes, or loses its store, stops extending, and so leaves no command behind.
    Where the deadline has passed, the program between ends by SIGKILL.
    """
    with suppress(OSError, ValueError):
        if bound.stdin is not None:
            # Unbuffered: bytes left in a buffer would fail its close once the program has ended.
            os.write(bound.stdin.fileno(), f"{until:.3f}\n".encode())


def has_ended(bound: subprocess.Popen[bytes], *, within_s: float) -> bool:
    """Wait until the program has ended, at most `within_s`; return whether it has ended.

    `Popen.wait` with a time limit would ask the system every few milliseconds. The system reports
    an error of the pipe to the program as soon as the program has ended.
    """
    assert bound.stdin is not None, "started with a pipe"
    pipe = select.poll()
    pipe.register(bound.stdin, 0)
    pipe.poll(within_s * 1_000)
    return bound.poll() is not None


def end_bound(bound: subprocess.Popen[bytes], *, patience_s: float) -> int:
    """End the command and return its exit code; after `patience_s` it is killed."""
    if bound.stdin is not None:
        bound.stdin.close()
    try:
        return bound.wait(patience_s)
    except subprocess.TimeoutExpired:
        bound.kill()
        return bound.wait()
