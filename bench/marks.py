"""Files that a measured worker writes: one when it is ready, one at its end with its counts."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from celery.signals import worker_process_shutdown, worker_ready, worker_shutdown

FOLDER = "BENCH_MARKS"


@dataclass(frozen=True, slots=True)
class BodyTotals:
    """The bodies that all processes ran, and the time of the last one."""

    bodies: int
    last_s: float


class Marks:
    """The counts of one process. The empty tasks of both sides call `body` and do nothing else."""

    def __init__(self) -> None:
        self.bodies, self.last_s = 0, 0.0

    def body(self) -> None:
        """Count one body."""
        self.bodies += 1
        self.last_s = time.time()

    def listen(self) -> None:
        """Write a file when Celery reports that this process is ready, and one when it ends."""
        folder = Path(os.environ[FOLDER])

        @worker_ready.connect(weak=False)
        def ready(**_: object) -> None:
            (folder / f"ready-{os.getpid()}").touch()

        def ended(**_: object) -> None:
            counts = {"bodies": self.bodies, "last_s": self.last_s}
            (folder / f"seen-{os.getpid()}.json").write_text(json.dumps(counts))

        worker_process_shutdown.connect(ended, weak=False)
        worker_shutdown.connect(ended, weak=False)


MARKS = Marks()  # of this process


def totals_in(folder: Path) -> BodyTotals:
    """Return the sum of the counts of all processes."""
    found: Sequence[dict[str, float]] = [
        json.loads(path.read_text()) for path in folder.glob("seen-*.json")
    ]
    return BodyTotals(
        sum(int(counts["bodies"]) for counts in found), max(counts["last_s"] for counts in found)
    )


def ready_in(folder: Path) -> int:
    """Return how many workers are ready."""
    return len(list(folder.glob("ready-*")))
