"""Counts the empty steps that a measured process runs, and writes the counts into files.

Workers of other products count with it too, in an environment of their own: it imports nothing
but the standard library.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = "BENCH_MARKS"


@dataclass(frozen=True, slots=True)
class BodyTotals:
    """The bodies that all processes ran, the time of the last one, and processor time at work."""

    bodies: int
    last_s: float
    cpu_s: float


class Bodies:
    """The counts of one process. The empty steps of all sides call `body` and do nothing else."""

    def __init__(self) -> None:
        self.bodies, self.last_s, self.started_s = 0, 0.0, 0.0

    def body(self) -> None:
        """Count one body."""
        self.bodies += 1
        self.last_s = time.time()

    def ready(self) -> None:
        """Write the file that says that this process is ready for work."""
        self.started_s = time.process_time()
        (Path(os.environ[FOLDER]) / f"ready-{os.getpid()}").touch()

    def ended(self) -> None:
        """Write the counts, at the end of this process."""
        cpu_s = time.process_time() - self.started_s
        counts = {"bodies": self.bodies, "last_s": self.last_s, "cpu_s": cpu_s}
        (Path(os.environ[FOLDER]) / f"seen-{os.getpid()}.json").write_text(json.dumps(counts))


def totals_in(folder: Path) -> BodyTotals:
    """Return the sum of the counts of all processes."""
    found: Sequence[dict[str, float]] = [
        json.loads(path.read_text()) for path in folder.glob("seen-*.json")
    ]
    return BodyTotals(
        sum(int(counts["bodies"]) for counts in found),
        max(counts["last_s"] for counts in found),
        sum(counts["cpu_s"] for counts in found),
    )


def ready_in(folder: Path) -> int:
    """Return how many workers are ready."""
    return len(list(folder.glob("ready-*")))
