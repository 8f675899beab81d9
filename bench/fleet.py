"""Worker processes of one side, up and ready for as long as a block; they never outlive us."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.marks import FOLDER, Seen, ready_in, seen_in
from interlock.workers.processes.bound import end_bound, start_bound

READY_S = 60.0
STOP_S = 20.0
PROFILE = "BENCH_PROFILE"


class Fleet:
    """Some workers of one app."""

    def __init__(
        self,
        app: str,
        folder: Path,
        environment: Mapping[str, str],
        *,
        processes: int,
        pool: str,
        concurrency: int = 1,
    ) -> None:
        self.app, self.folder, self.processes = app, folder, processes
        self.command = [
            *(sys.executable, "-m", "celery", "-A", app, "worker", "-P", pool),
            *("-c", str(concurrency), "--loglevel=WARNING", "--without-mingle", "--without-gossip"),
        ]
        self.environment = {**os.environ, **environment, FOLDER: str(folder)}
        self._keepers: list[subprocess.Popen[bytes]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        for number in range(self.processes):
            log = self._stack.enter_context((self.folder / f"worker-{number}.log").open("wb"))
            command = [*self.command, "-n", f"{self.app}{number}@%h"]
            keeper = start_bound(
                command,
                folder=Path.cwd(),
                output=log,
                grace_s=STOP_S,
                environment=self.environment,
            )
            self._keepers.append(keeper)
        self._wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End every worker."""
        for keeper in self._keepers:
            if keeper.stdin is not None:
                keeper.stdin.close()
        for keeper in self._keepers:
            end_bound(keeper, patience_s=STOP_S + 2)
        self._keepers.clear()
        self._stack.close()

    def seen(self) -> Seen:
        """Return what the ended workers have left."""
        return seen_in(self.folder)

    def _wait(self) -> None:
        until = time.monotonic() + READY_S
        while ready_in(self.folder) < self.processes:
            gone = any(keeper.poll() is not None for keeper in self._keepers)
            if gone or time.monotonic() > until:
                self.stop()
                raise RuntimeError(f"the workers did not come up; read {self.folder}")
            time.sleep(0.05)
