"""Starts and ends the processes of one machine: store, workers, intake, beat, Flower."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from interlock.kernel.machines import MACHINES
from interlock.workers.config import PREFIX, Settings, SetupError, environment_without_settings
from interlock.workers.engine.app import SWEEPS_QUEUE, queue_of
from interlock.workers.gateways.server import EmbeddedServer, free_port
from interlock.workers.processes.bound import end_bound, start_bound

READY_S = 40.0
STOP_S = 20.0


class DeploymentError(SetupError, RuntimeError):
    """A process did not come up. The message names its log."""


class Deployment:
    """The processes below one folder. They end with this process, however it ends."""

    def __init__(self, settings: Settings, *, flower: bool, jobs: bool = False) -> None:
        """Start nothing yet. With `jobs`, workers and reviewers of jobs have a process to them."""
        self.settings, self.flower, self.jobs = settings, flower, jobs
        self.home = settings.home.absolute()
        self.flower_url = ""
        self._stack = ExitStack()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            return self._start()
        except BaseException:
            self._stack.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def dead(self) -> str | None:
        """Return the name of a process that should be there and is not."""
        return next((name for name, one in self._processes.items() if one.poll() is not None), None)

    def log(self, name: str) -> Path:
        """Return where a process writes what it has to say."""
        return self.home / "log" / f"{name}.log"

    def _start(self) -> Self:
        self.log("any").parent.mkdir(parents=True, exist_ok=True)
        if "store_url" not in self.settings.model_fields_set:
            server = self._stack.enter_context(EmbeddedServer(self.home / "store"))
            self.settings = self.settings.model_copy(update={"store_url": server.url})
        self._stack.callback(self._end)
        celery = [sys.executable, "-m", "celery", "-A"]
        quiet = ["--without-mingle", "--without-gossip", "--loglevel=INFO"]
        sweeps = queue_of(self.settings, SWEEPS_QUEUE)
        effects = {
            name: one for machine in MACHINES.values() for name, one in machine.effects.items()
        }
        long = [queue_of(self.settings, name) for name, one in effects.items() if one.long]
        threads = ["-P", "threads", "-c", str(self.settings.concurrency)]
        others = ["-X", ",".join([sweeps, *(long if self.jobs else [])])]
        work = [*celery, "interlock.workers.main", "worker"]
        self._run("worker", [*work, "-n", "worker@%h", *threads, *others, *quiet])
        if self.jobs:
            # A job's command may run for hours, and holds a thread as long.
            only = ["-Q", ",".join(long)]
            self._run("jobs", [*work, "-n", "jobs@%h", *threads, *only, *quiet])
        # Whatever holds every thread of the worker, somebody looks after what is stuck.
        alone = ["-P", "threads", "-c", "2", "-Q", sweeps]
        self._run(
            "sweeps",
            [*celery, "interlock.workers.main", "worker", "-n", "sweeps@%h", *alone, *quiet],
        )
        intake = ["-n", "intake@%h", "-P", "threads", "-c", "2"]
        self._run("intake", [*celery, "interlock.workers.intake", "worker", *intake, *quiet])
        schedule = str(self.home / "beat.db")
        self._run(
            "beat",
            [
                *celery,
                "interlock.workers.main",
                "beat",
                "-s",
                schedule,
                "--pidfile=",
                "--loglevel=INFO",
            ],
        )
        if self.flower:
            port = free_port()
            self.flower_url = f"http://127.0.0.1:{port}"
            place = ["--address=127.0.0.1", f"--port={port}", "--read_only=true"]
            self._run("flower", [*celery, "interlock.workers.main", "flower", *place])
        self._wait_until_ready()
        return self

    def _end(self) -> None:
        # All are told before the first is waited for.
        for process in self._processes.values():
            if process.stdin is not None:
                process.stdin.close()
        for process in self._processes.values():
            end_bound(process, patience_s=STOP_S + 2)

    def _run(self, name: str, command: list[str]) -> None:
        # Only what these settings say: a variable meant for another deployment would mix the two.
        environment = {**environment_without_settings(), **self._environment()}
        output = self._stack.enter_context(self.log(name).open("wb"))
        self._processes[name] = start_bound(
            command, folder=Path.cwd(), output=output, grace_s=STOP_S, environment=environment
        )

    def _environment(self) -> dict[str, str]:
        return {
            f"{PREFIX}{name.upper()}": written(getattr(self.settings, name))
            for name in self.settings.model_fields_set | {"store_url"}
        }

    def _wait_until_ready(self) -> None:
        """Wait until every worker answers; a worker says so in its log when it consumes."""
        until = time.monotonic() + READY_S
        waiting = [name for name in self._processes if name not in ("beat", "flower")]
        while waiting:
            if name := self.dead():
                raise DeploymentError(f"{name} ended at its start; read {self.log(name)}")
            if time.monotonic() > until:
                raise DeploymentError(
                    f"{waiting[0]} is not ready after {READY_S:g} s; read {self.log(waiting[0])}"
                )
            waiting = [name for name in waiting if b" ready." not in self.log(name).read_bytes()]
            time.sleep(0.05)


def written(value: object) -> str:
    """Return a setting as its variable is written."""
    if isinstance(value, dict):
        return ",".join(f"{name}={one}" for name, one in value.items())
    return str(value)
