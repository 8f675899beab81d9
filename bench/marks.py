"""What a measured worker leaves: that it is ready, how many bodies it ran, when the last."""

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
class Seen:
    """All processes together: bodies run, and the time of the last one."""

    bodies: int
    last_s: float


class Marks:
    """The marks of one process. `body` is what both sides' empty tasks do: nothing else."""

    def __init__(self) -> None:
        self.bodies, self.last_s = 0, 0.0

    def body(self) -> None:
        """Count one body."""
        self.bodies += 1
        self.last_s = time.time()

    def listen(self) -> None:
        """Leave marks when Celery says that this process is ready, and when it ends."""
        folder = Path(os.environ[FOLDER])

        @worker_ready.connect(weak=False)
        def ready(**_: object) -> None:
            (folder / f"ready-{os.getpid()}").touch()

        def over(**_: object) -> None:
            seen = {"bodies": self.bodies, "last_s": self.last_s}
            (folder / f"seen-{os.getpid()}.json").write_text(json.dumps(seen))

        worker_process_shutdown.connect(over, weak=False)
        worker_shutdown.connect(over, weak=False)


def seen_in(folder: Path) -> Seen:
    """Sum what every process of a fleet has left."""
    found: Sequence[dict[str, float]] = [
        json.loads(path.read_text()) for path in folder.glob("seen-*.json")
    ]
    return Seen(sum(int(one["bodies"]) for one in found), max(one["last_s"] for one in found))


def ready_in(folder: Path) -> int:
    """Count the workers that are ready."""
    return len(list(folder.glob("ready-*")))
