"""Starts the process that forks the workers of a test run, and requests workers from it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from interlock.workers.processes.module_server import COMMAND_LINE_ROOM
from tests.processes import kill_group, start_of, still_runs
from tests.waiting import until

# All processes of a test run share one. Its address is in this variable.
ADDRESS = "TEST_PRELOADED_PROCESS"
# The command line has room for that of a supervisor, which replaces it.
COMMAND = (sys.executable, "-m", "tests.end_to_end.engine.preloaded", " " * COMMAND_LINE_ROOM)
REPLY_BYTES_MAX = 32


@contextmanager
def preloaded_process(folder: Path) -> Iterator[Path]:
    """Start one, which serves at the address that this returns until the block ends."""
    address = folder / "preloaded"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(address))
        listener.listen()
        process = subprocess.Popen(
            [*COMMAND, str(os.getpid()), str(listener.fileno())],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
        )
    try:
        yield address
    finally:
        process.kill()  # its children end with it
        process.wait()


class Preloaded:
    """A link to that process."""

    def __init__(self, address: Path) -> None:
        self._link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._link.connect(str(address))
        self._started: dict[int, int] = {}

    def start(self, argv: Sequence[str], environment: Mapping[str, str], log: Path) -> int:
        """Let it fork a child that runs `celery` with these arguments; return its process id."""
        request = {
            "module": "celery",
            "arguments": [*argv],
            "environment": {**environment},
            "output": str(log),
        }
        self._link.send(json.dumps(request).encode())
        reply = self._link.recv(REPLY_BYTES_MAX)
        assert reply, "the preloaded process ended"
        process_id = int(reply)
        self._started[process_id] = start_of(process_id)
        return process_id

    def close(self) -> None:
        """End the link. Fail if a child that was requested over it has not ended."""
        self._link.close()
        left = {pid: started for pid, started in self._started.items() if still_runs(pid, started)}
        for process_id, started in left.items():
            kill_group(process_id, started)
        until(
            lambda: not any(still_runs(*one) for one in left.items()),
            what="the workers that tests left are gone",
        )
        assert not left, f"tests left these workers behind: {[*left]}"
