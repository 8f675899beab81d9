"""Starts and ends the processes of one machine: store, workers, intake, beat, Flower."""

from __future__ import annotations

import secrets
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from interlock.kernel.machines import MACHINES
from interlock.workers.config import PREFIX, Settings, SetupError, environment_without_settings
from interlock.workers.engine.celery_app import SWEEPS_QUEUE, queue_of
from interlock.workers.gateways.server import EmbeddedServer, free_port
from interlock.workers.processes.bound_process import end_bound, start_bound

READY_S = 40.0
STOP_S = 20.0


class DeploymentError(SetupError, RuntimeError):
    """A process ended, or did not start in time. The message names its log."""


class Deployment:
    """The processes of one deployment. They end with this process, however it ends."""

    def __init__(self, settings: Settings, *, flower: bool, jobs: bool = False) -> None:
        """Start nothing yet. With `jobs`, jobs get a worker process of their own."""
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
        """Return the name of a process that has ended, or None."""
        return next(
            (name for name, process in self._processes.items() if process.poll() is not None), None
        )

    def log(self, name: str) -> Path:
        """Return the log file of a process."""
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
            name: effect
            for machine in MACHINES.values()
            for name, effect in machine.effects.items()
        }
        long = [queue_of(self.settings, name) for name, effect in effects.items() if effect.long]
        threads = ["-P", "threads", "-c", str(self.settings.concurrency)]
        others = ["-X", ",".join([sweeps, *(long if self.jobs else [])])]
        work = [*celery, "interlock.workers.main", "worker"]
        self._run("worker", [*work, "-n", "worker@%h", *threads, *others, *quiet])
        if self.jobs:
            # A job's command may run for hours and occupies a thread all that time.
            only = ["-Q", ",".join(long)]
            self._run("jobs", [*work, "-n", "jobs@%h", *threads, *only, *quiet])
        # Sweeps have a process of their own: they must run when all threads of the worker are busy.
        alone = ["-P", "threads", "-c", "2", "-Q", sweeps]
        self._run(
            "sweeps",
            [*celery, "interlock.workers.main", "worker", "-n", "sweeps@%h", *alone, *quiet],
        )
        intake = ["-n", "intake@%h", "-P", "threads", "-c", "2"]
        self._run("intake", [*celery, "interlock.workers.intake", "worker", *intake, *quiet])
        beat = ["beat", "--pidfile=", "--loglevel=INFO"]
        self._run("beat", [*celery, "interlock.workers.main", *beat])
        if self.flower:
            port = free_port()
            # Without a login Flower's API answers nobody, or any page in this machine's browsers.
            login = f"interlock:{secrets.token_urlsafe(12)}"
            self.flower_url = f"http://{login}@127.0.0.1:{port}"
            address = ["--address=127.0.0.1", f"--port={port}"]
            command = [*celery, "interlock.workers.flower", "flower", *address]
            self._run("flower", command, FLOWER_BASIC_AUTH=login)
        self._wait_until_ready()
        return self

    def _end(self) -> None:
        # Close every pipe, which asks its process to end, before waiting for the first end.
        for process in self._processes.values():
            if process.stdin is not None:
                process.stdin.close()
        for process in self._processes.values():
            end_bound(process, patience_s=STOP_S + 2)

    def _run(self, name: str, command: list[str], **variables: str) -> None:
        # No other settings: a variable that is set for another deployment would mix the two.
        environment = {**environment_without_settings(), **self._environment(), **variables}
        output = self._stack.enter_context(self.log(name).open("wb"))
        self._processes[name] = start_bound(
            command, folder=Path.cwd(), output=output, grace_s=STOP_S, environment=environment
        )

    def _environment(self) -> dict[str, str]:
        return {
            f"{PREFIX}{name.upper()}": as_variable(getattr(self.settings, name))
            for name in self.settings.model_fields_set | {"store_url"}
        }

    def _wait_until_ready(self) -> None:
        """Wait until every worker is ready, which its log says when it starts to consume."""
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


def as_variable(value: object) -> str:
    """Return a setting in the form of its environment variable."""
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in value.items())
    return str(value)
