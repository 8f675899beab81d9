"""The commands that one test starts as a person does, and all processes that come from them."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Self
from uuid import uuid4

from tests.processes import marked

ROOT = Path(__file__).parent.parent
MARK = "STARTED_BY_THIS_TEST"
# More than the demonstration waits for: 120 s for its processes, and 120 s for its cards.
LIMIT_S = 280.0
STOP_S = 60.0


class Started:
    """A person who has set nothing but a home, and what was started there.

    On leaving, the processes that a failed test left are killed.
    """

    def __init__(self, home: Path) -> None:
        self.owner = uuid4().hex
        inherited = {name: value for name, value in os.environ.items() if "INTERLOCK" not in name}
        more = {MARK: self.owner, "INTERLOCK_HOME": str(home), "COLUMNS": "150"}
        self.environment = {**inherited, **more}
        self.log = home / "output.txt"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for process_id in self.processes():
            os.kill(process_id, signal.SIGKILL)

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a command as a shell does: in a group of its own, which gets Ctrl-C."""
        with self.log.open("wb") as output:
            return subprocess.Popen(
                command,
                cwd=ROOT,
                env=self.environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def processes(self) -> list[int]:
        """Return the processes that go on."""
        return list(marked(MARK, self.owner))

    def all_gone(self) -> bool:
        """Return whether none goes on."""
        return not self.processes()

    @property
    def output(self) -> str:
        """What the command has printed."""
        return self.log.read_text()

    def tracebacks(self) -> int:
        """Return how many errors were printed.

        The interpreter prints an interrupt inside a destructor, which is harmless and not counted.
        """
        return self.output.count("Traceback") - self.output.count("Exception ignored in")


def press_ctrl_c(process: subprocess.Popen[bytes]) -> int:
    """Press Ctrl-C, and return the exit code."""
    os.killpg(process.pid, signal.SIGINT)
    return process.wait(STOP_S)
