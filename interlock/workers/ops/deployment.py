"""Starts and ends the processes of one computer: store, workers, intake, beat, API, Flower.

All but the store are forks of one process, which imports once what they share.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Self

from interlock.kernel.errors import StoreError
from interlock.kernel.machines import MACHINES
from interlock.workers.config import (
    API_PORT,
    PREFIX,
    Settings,
    SetupError,
    environment_without_settings,
)
from interlock.workers.engine.celery_app import SWEEPS_QUEUE, pools_of, queue_of
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.own_systems import add_systems_of
from interlock.workers.engine.table_check import check_tables
from interlock.workers.files.private import NotPrivateError, PrivateFile
from interlock.workers.gateways.server import EmbeddedServer, private_socket
from interlock.workers.ops.home import HomeWatch, kept_secret, lock_home, note_folders, own_folder
from interlock.workers.ops.part import Part, last_line
from interlock.workers.ops.ports import Ports, read_ports, write_ports
from interlock.workers.processes.module_server import ModuleServer
from interlock.workers.setting_values import as_variable
from interlock.workers.systems import folders, modules_of_ours
from interlock.workers.up_file import new_token

READY_S = 120.0
STOP_S = 20.0
WORK = ("-A", "interlock.workers.main", "worker")
QUIET = ("--without-mingle", "--without-gossip", "--loglevel=INFO")
FLOWER_FILE = "flower.url"  # Flower's address, with the login that it asks for
NO_CONSOLE = "there is no console and no HTTP API: they need pip install 'interlock[web]'"
# How the log of a process says that it is ready, where it is no worker.
READY_WORDS = {"beat": b"Sending due task sweep.", "api": b"Application startup complete."}


# What most of the processes import. Flower and the API import the rest by themselves.
IMPORTS = (
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.bin.celery",
    "celery.concurrency.thread",
    "celery.worker.components",
    "celery.worker.consumer.delayed_delivery",
    "celery.worker.strategy",
    "interlock.workers.client",
    "interlock.workers.engine.announcement",
    "interlock.workers.engine.beat",
    "interlock.workers.engine.consumer",
    "interlock.workers.engine.entry",
    "interlock.workers.engine.liveness",
    "interlock.workers.engine.log_lines",
    "interlock.workers.engine.redis_transport",
    "interlock.workers.engine.runner",
    "interlock.workers.engine.thread_pool",
    "interlock.workers.ops.process_metrics",
    "interlock.workers.supervision.publishing",
    "interlock.workers.systems",
    # Celery prints it when a worker starts. Python runs a program to find it, and keeps it.
    "platform:platform",
)


class DeploymentError(SetupError, RuntimeError):
    """A process ended, or did not start in time. The message names its log."""


class Deployment:
    """The processes of one deployment. They end with this process, however it ends."""

    def __init__(
        self,
        settings: Settings,
        *,
        pages: bool,
        pools: bool = False,
        port: int | None = None,
        flower_port: int | None = None,
        api_port: int | None = None,
    ) -> None:
        """Start nothing yet. With `pages`, it serves the HTTP API and Flower.

        With `pools`, the effects of each pool get a worker process of their own. The store is on a
        socket that only this user reaches; with a `port` it is there, and asks for a password.
        Without a port, Flower and the API have those of the last start in this home.
        """
        self.settings, self.pages, self.pools = settings, pages, pools
        self.home = settings.home.absolute()
        self.flower_url = self.api_url = ""
        self.token = ""  # that of the API for the user of this process, if it asks for one
        self.notices: list[str] = []  # what a person should know, until `revive` yields it
        self._store_port = port
        self._ports = Ports({"flower": flower_port, "api": api_port}, self.notices)
        self._home_watch: HomeWatch | None = None
        self._stack = ExitStack()
        self._parts: dict[str, Part] = {}
        self._workers: dict[str, list[str]] = {}  # the commands of those that run effects
        self._processes: dict[str, int] = {}
        self._modules = ModuleServer((*IMPORTS, *modules_of_ours()), grace_s=STOP_S)

    def __enter__(self) -> Self:
        try:
            return self._start()
        except ChildProcessError as refusal:
            self._stack.close()
            raise DeploymentError(refusal.strerror) from refusal
        except NotPrivateError as refusal:
            self._stack.close()
            raise DeploymentError(str(refusal)) from refusal
        except OSError as refusal:
            self._stack.close()
            raise DeploymentError(
                f"{refusal.strerror}: {refusal.filename or self.home} cannot be written"
            ) from refusal
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

    def serve(self) -> str:
        """Start the console. Return its address, '' where what it needs is not installed."""
        self._serve_api(self._open_api())
        self._wait_until_ready()
        return self.api_url

    def dead(self) -> str | None:
        """Return the name of a process that has ended, or None."""
        ended = (name for name, part in self._parts.items() if part.exit_code() is not None)
        return next(ended, None)

    def revive(self) -> Iterator[str]:
        """Start processes again that have ended. Yield a sentence about each end and change."""
        if self._home_watch and (notice := self._home_watch.look()):
            yield notice
        for part in self._parts.values():
            if notice := part.revive(time.monotonic()):
                yield notice
        while self.notices:
            yield self.notices.pop(0)

    def restart(self, pools: Mapping[str, list[str]]) -> None:
        """End the processes that run code of systems, and start them again, with these pools."""
        names = [name for name in self._processes if name != "flower"]
        self._signal(names, signal.SIGTERM)
        until = time.monotonic() + STOP_S
        while time.monotonic() < until and any(self._exit_code(name) is None for name in names):
            time.sleep(0.05)
        self._signal(names, signal.SIGKILL)
        commands = self._worker_commands(pools) if self.pools else self._workers
        for name in self._workers.keys() - commands:
            del self._parts[name], self._processes[name]
        self._workers = commands
        for name, command in commands.items():
            if name in self._parts:  # what it serves may differ now
                self._parts[name].start = partial(self._launch, name, "celery", command, {})
            else:
                self._run(name, "celery", command)
        now_s = time.monotonic()
        again = [self._parts[name].restart(now_s) for name in names if name in self._parts]
        self.notices += filter(None, again)

    def log(self, name: str) -> Path:
        """Return the log file of a process."""
        return self.home / "log" / f"{name}.log"

    def _start(self) -> Self:
        add_systems_of(self.settings)
        own_folder(self.home)
        lock = lock_home(self.home)
        self._stack.callback(os.close, lock)
        self._home_watch = HomeWatch(self.home, lock)
        note_folders(self.home, folders())
        self.log("any").parent.mkdir(exist_ok=True)
        self._ports.chosen = read_ports(self.home)
        if self.settings.store_url is None:
            self._start_store()
        elif self._store_port:
            raise DeploymentError(
                "--port is for the store that `interlock up` starts, but INTERLOCK_STORE_URL is set"
            )
        with suppress(StoreError):  # its processes say what is wrong with it
            check_tables(Dispatch(self.settings, MACHINES, patient=False))
        listener = self._open_api() if self.pages else None
        # Registered after the store's end, so it comes before: workers give back what they hold.
        self._stack.callback(self._modules.end)
        self._modules.begin()
        pools = pools_of(self.settings, MACHINES.values()) if self.pools else {}
        self._workers = self._worker_commands(pools)
        for name, command in self._workers.items():
            self._run(name, "celery", command)
        # Sweeps have a process of their own: they must run when all threads of the worker are busy.
        alone = ["-P", "threads", "-c", "2", "-Q", queue_of(self.settings, SWEEPS_QUEUE)]
        self._run("sweeps", "celery", [*WORK, "-n", "sweeps@%h", *alone, *QUIET])
        intake = ["-A", "interlock.workers.intake", "worker", "-n", "intake@%h"]
        self._run("intake", "celery", [*intake, "-P", "threads", "-c", "2", *QUIET])
        beat = ["-A", "interlock.workers.main", "beat", "--pidfile=", "--loglevel=INFO"]
        self._run("beat", "celery", beat)
        if self.pages:
            self._serve_api(listener)
            self._run_flower()
        self._wait_until_ready()
        write_ports(self.home, self._ports.chosen)
        return self

    def _worker_commands(self, pools: Mapping[str, list[str]]) -> dict[str, list[str]]:
        """Return the worker, and one for each pool, whose queues the first leaves to it."""
        threads = ["-P", "threads", "-c", str(self.settings.concurrency)]
        sweeps = queue_of(self.settings, SWEEPS_QUEUE)
        others = ["-X", ",".join([sweeps, *chain.from_iterable(pools.values())])]
        # A hanging model, command or address occupies a thread, and then no thread of others.
        only = {pool: ["-Q", ",".join(queues)] for pool, queues in pools.items()}
        return {
            name: [*WORK, "-n", f"{name}@%h", *threads, *queues, *QUIET]
            for name, queues in {"worker": others, **only}.items()
        }

    def _start_store(self) -> None:
        folder, port = self.home / "store", self._store_port
        if port:
            password = kept_secret(folder / "password")
            server = EmbeddedServer(folder, port=port, password=password)
        else:
            server = EmbeddedServer(folder, socket=private_socket(folder))
        server.start()
        self._stack.callback(server.stop)
        self._parts["store"] = Part(
            "store", server.log, server.start, lambda: server.exit_code, time.monotonic()
        )
        self.settings = self.settings.model_copy(update={"store_url": server.url})

    def _open_api(self) -> socket.socket | None:
        """Listen for the API, which begins later, and let all processes know its address."""
        if find_spec("fastapi") is None:
            self.notices.append(NO_CONSOLE)
            return None
        listener = self._stack.enter_context(self._ports.listen("api", API_PORT))
        self.api_url = "http://{}:{}".format(*listener.getsockname())
        if self.settings.public_url is None:
            self.settings = self.settings.model_copy(update={"public_url": self.api_url})
        return listener

    def _serve_api(self, listener: socket.socket | None) -> None:
        if listener is None:
            return
        is_set = "auth" in self.settings.model_fields_set
        auth = self.settings.auth if is_set else "owner"
        if auth == "owner":
            self.token = new_token(self.home)
        elif auth == "none":
            self.notices.append(
                "INTERLOCK_AUTH=none: every user of this computer can read and act through the API;"
                " unset it to let only yourself in"
            )
        self._run("api", "interlock", ["serve"], ("--socket", listener), INTERLOCK_AUTH=auth)

    def _run_flower(self) -> None:
        # Each start looks for a port, as another program may have taken the one before.
        self._add("flower", self._begin_flower)

    def _begin_flower(self) -> None:
        port = self._ports.choose("flower")
        # Without a login Flower's API answers nobody, or any page in this computer's browsers.
        login = f"interlock:{secrets.token_urlsafe(24)}"
        self.flower_url = f"http://127.0.0.1:{port}"
        PrivateFile(self.home / FLOWER_FILE).write(f"http://{login}@127.0.0.1:{port}\n")
        arguments = ["-A", "interlock.workers.flower", "flower", "--address=127.0.0.1"]
        variables = {"FLOWER_BASIC_AUTH": login}
        self._launch("flower", "celery", [*arguments, f"--port={port}"], variables)

    def _run(
        self,
        name: str,
        module: str,
        arguments: list[str],
        listener: tuple[str, socket.socket] | None = None,
        **variables: str,
    ) -> None:
        self._add(name, partial(self._launch, name, module, arguments, variables, listener))

    def _add(self, name: str, start: Callable[[], None]) -> None:
        """Start a process for the first time, and remember how it is started again."""
        log = self.log(name)
        log.write_bytes(b"")
        start()
        code = partial(self._exit_code, name)
        self._parts[name] = Part(name, log, start, code, time.monotonic())

    def _launch(
        self,
        name: str,
        module: str,
        arguments: list[str],
        variables: Mapping[str, str],
        listener: tuple[str, socket.socket] | None = None,
    ) -> None:
        # No other settings: a variable that is set for another deployment would mix the two.
        environment = {**environment_without_settings(), **self.environment(), **variables}
        log = self.log(name)
        self._processes[name] = self._modules.start(module, arguments, environment, log, listener)

    def _signal(self, names: list[str], number: int) -> None:
        for name in names:
            if self._exit_code(name) is None:
                with suppress(ProcessLookupError):
                    os.kill(self._processes[name], number)

    def _exit_code(self, name: str) -> int | None:
        return self._modules.exit_code(self._processes[name])

    def environment(self) -> dict[str, str]:
        """Return the settings of the deployment's processes, as their variables."""
        named = self.settings.model_fields_set | {"store_url"}
        values = {name: as_variable(getattr(self.settings, name)) for name in named}
        values |= self.settings.others
        return {f"{PREFIX}{name.upper()}": value for name, value in values.items()}

    def _wait_until_ready(self) -> None:
        """Wait until every process but Flower works, as its log says."""
        until = time.monotonic() + READY_S
        waiting = [name for name in self._processes if name != "flower"]
        while waiting:
            if name := self.dead():
                raise DeploymentError(f"{name} ended at its start: {self._last_words(name)}")
            if time.monotonic() > until:
                name = waiting[0]
                raise DeploymentError(
                    f"{name} is not ready after {READY_S:g} s: {self._last_words(name)}"
                )
            waiting = [name for name in waiting if not self._has_begun(name)]
            time.sleep(0.05)

    def _has_begun(self, name: str) -> bool:
        return READY_WORDS.get(name, b" ready.") in self.log(name).read_bytes()

    def _last_words(self, name: str) -> str:
        log = self._parts[name].log
        return f"{last_line(log)} (the end of {log})"
