"""Runs the worker processes of one side for the duration of a block."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.bodies import FOLDER, BodyTotals, ready_in, totals_in
from interlock.workers.processes.bound_process import end_bound, start_bound

READY_S = 60.0
STOP_S = 20.0
PROFILE = "BENCH_PROFILE"


class Processes:
    """Worker processes, one of each command. They end with the block, or with this process."""

    def __init__(
        self, commands: Sequence[Sequence[str]], folder: Path, environment: Mapping[str, str]
    ) -> None:
        self.commands, self.folder = commands, folder
        self.environment = {**os.environ, **environment, FOLDER: str(folder)}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        for number, command in enumerate(self.commands):
            log = self._stack.enter_context((self.folder / f"worker-{number}.log").open("wb"))
            process = start_bound(
                command,
                folder=Path.cwd(),
                output=log,
                grace_s=STOP_S,
                environment=self.environment,
            )
            self._processes.append(process)
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
        for process in self._processes:
            if process.stdin is not None:
                process.stdin.close()
        for process in self._processes:
            end_bound(process, patience_s=STOP_S + 2)
        self._processes.clear()
        self._stack.close()

    def totals(self) -> BodyTotals:
        """Return the counts of the workers, which they write when they end."""
        return totals_in(self.folder)

    def _wait(self) -> None:
        until = time.monotonic() + READY_S
        while ready_in(self.folder) < len(self.commands):
            ended = any(process.poll() is not None for process in self._processes)
            if ended or time.monotonic() > until:
                self.stop()
                raise RuntimeError(f"the workers did not come up; read {self.folder}")
            time.sleep(0.05)


class WorkerProcesses(Processes):
    """Several Celery workers of one app."""

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
        command = [
            *(sys.executable, "-m", "celery", "-A", app, "worker", "-P", pool),
            *("-c", str(concurrency), "--loglevel=WARNING", "--without-mingle", "--without-gossip"),
        ]
        named = [[*command, "-n", f"{app}{number}@%h"] for number in range(processes)]
        super().__init__(named, folder, environment)
