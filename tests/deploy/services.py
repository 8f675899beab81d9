"""Runs the services of docker-compose.yml as local processes, with other paths and addresses."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml

from interlock.workers.client import Client
from interlock.workers.config import read_settings
from interlock.workers.gateways.server import free_port
from interlock.workers.ops.deployment import IMPORTS
from interlock.workers.processes.module_server import ModuleServer
from tests.waiting import until

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE: Mapping[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: Mapping[str, Any] = COMPOSE["services"]
ROLES = ("worker", "producer", "operator", "sender", "flower")
PASSWORDS = {f"{role.upper()}_PASSWORD": f"secret{role}" for role in ROLES}
VARIABLES = {
    **PASSWORDS,
    "FLOWER_BASIC_AUTH": "me:mine",
    "INTERLOCK_CAPABILITIES": "tests.end_to_end.threads.capabilities",
    "WORKER_THREADS": "4",
    "MODELS_THREADS": "4",
}
READY_S = 90.0
STOP_S = 60.0


def expand(text: str, variables: Mapping[str, str] = VARIABLES) -> str:
    """Expand ${NAME}, ${NAME:-default} and ${NAME:?message}, as compose does."""

    def value(found: re.Match[str]) -> str:
        name, operator, rest = found["name"], found["operator"], found["rest"]
        if operator == ":?":
            assert variables.get(name), f"{name}: {rest}"
        return variables.get(name) or (rest if operator == ":-" else "")

    pattern = r"(?<!\$)\$\{(?P<name>\w+)(?P<operator>:[-?])?(?P<rest>[^}]*)\}"
    return re.sub(pattern, value, text).replace("$$", "$")


@dataclass(frozen=True)
class Fork:
    """A process of a module server, with what the test uses of `subprocess.Popen`."""

    server: ModuleServer
    pid: int

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        return self.server.exit_code(self.pid)

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def wait(self, within_s: float) -> int:
        """Wait for its end, and return its exit code."""
        until(lambda: self.poll() is not None, what=f"{self.pid} has ended", within_s=within_s)
        return self.poll() or 0


@dataclass
class ComposeServices:
    """The services as processes of this computer.

    Those of Celery and Interlock are forks of one process: each would import for seconds.
    """

    folder: Path
    binary: Path
    port: int = 0
    flower_port: int = 0
    api_port: int = 0
    processes: dict[str, subprocess.Popen[bytes] | Fork] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)
    _modules: ModuleServer = field(default_factory=partial(ModuleServer, IMPORTS, grace_s=STOP_S))

    def __post_init__(self) -> None:
        self.port, self.flower_port, self.api_port = free_port(), free_port(), free_port()
        tools = self.folder / "bin"
        tools.mkdir(parents=True)
        tools.joinpath("valkey-server").symlink_to(self.binary)
        if client := shutil.which("valkey-cli") or shutil.which("redis-cli"):
            # The script adds the port of this test's store.
            script = f'#!/bin/sh\nexec {client} -p {self.port} "$@"\n'
            tools.joinpath("valkey-cli").write_text(script)
            tools.joinpath("valkey-cli").chmod(0o755)
        tools.joinpath("python").symlink_to(sys.executable)

    def localized(self, text: str, name: str = "") -> str:
        """Return a text of the compose file with the paths and addresses of this computer."""
        folder = self.folder / (name or "any")
        folder.mkdir(exist_ok=True)
        replacements = {
            "store:6379": f"127.0.0.1:{self.port}",
            "/etc/interlock": str(DEPLOY),
            "127.0.0.1:5555": f"127.0.0.1:{self.flower_port}",
            "--address=0.0.0.0": "--address=127.0.0.1",
            "0.0.0.0": "127.0.0.1",  # noqa: S104 - no process of the test listens there
            "8470": str(self.api_port),
            "--port=5555": f"--port={self.flower_port}",
            "/tmp/": f"{folder}/",  # noqa: S108 - each container has its own
        }
        # In one pass, because the checkout itself may be below /tmp.
        pattern = re.compile("|".join(map(re.escape, replacements)))
        return pattern.sub(lambda found: replacements[found.group()], expand(text))

    def environment(self, service: str, name: str) -> dict[str, str]:
        """Return the environment of a service, without other variables of Interlock."""
        inherited = {
            k: v for k, v in os.environ.items() if not k.startswith(("INTERLOCK", "FLOWER"))
        }
        variables = SERVICES[service].get("environment", {})
        settings = {key: self.localized(str(value), name) for key, value in variables.items()}
        paths = {
            "DEPLOYMENT_FOLDER": str(self.folder),
            "STORE_USERS": str(self.folder / "users.acl"),
            "STORE_DATA": str(self.folder),
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{inherited['PATH']}",
            "PYTHONPATH": str(ROOT),  # the image has it, for /app
        }
        return {**inherited, **paths, **settings}

    def start(
        self, service: str, name: str = "", **variables: str
    ) -> subprocess.Popen[bytes] | Fork:
        """Run the command of a service."""
        name = name or service
        definition = SERVICES[service]
        program, *arguments = (
            self.localized(word, name)
            for word in definition.get("entrypoint", definition.get("command"))
        )
        environment = {**self.environment(service, name), **variables}
        if service != "store":
            return self._fork(name, program, arguments, environment)
        output = self._stack.enter_context(self.log(name).open("wb"))
        process = subprocess.Popen(
            [program, *arguments, "--port", str(self.port), "--bind", "127.0.0.1"],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        self.processes[name] = process
        self._stack.callback(self._end_store, process)
        self._stack.callback(self._modules.end)
        return process

    def _fork(
        self, name: str, program: str, arguments: list[str], environment: dict[str, str]
    ) -> Fork:
        assert program in ("celery", "interlock"), f"{name} runs {program}, which is no module"
        self.log(name).touch()
        process_id = self._modules.start(program, arguments, environment, self.log(name))
        fork = Fork(self._modules, process_id)
        self.processes[name] = fork
        return fork

    def start_unit(self, name: str, **variables: str) -> None:
        """Run the command of a systemd unit, with the variables that it sets and these."""
        lines = (DEPLOY / f"{name}.service").read_text().splitlines()
        settings = [line.partition("=") for line in lines if not line.startswith("#")]
        environment = dict(
            value.split("=", 1) for key, _, value in settings if key == "Environment"
        )
        (start,) = (value for key, _, value in settings if key == "ExecStart")
        program, *arguments = shlex.split(start.replace("%%", "%"))
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("INTERLOCK")}
        paths = {
            "INTERLOCK_STORE_URL": self.url("worker"),
            "INTERLOCK_HOME": str(self.folder / name),
            "INTERLOCK_WORKTREES": str(self.folder / "worktrees"),
            "PYTHONPATH": str(ROOT),
        }
        environment = {**inherited, **environment, **paths, **variables}
        self._fork(name, Path(program).name, arguments, environment)

    def log(self, name: str) -> Path:
        """Return the log file of a service."""
        return self.folder / f"{name}.log"

    def output(self, name: str) -> str:
        """Return the log of a service."""
        return self.log(name).read_text(errors="replace")

    def is_healthy(self, service: str, name: str = "") -> bool:
        """Run the healthcheck of a service."""
        name = name or service
        assert self.processes[name].poll() is None, f"{name} ended:\n{self.output(name)[-3000:]}"
        kind, *command = SERVICES[service]["healthcheck"]["test"]
        assert kind == "CMD", "healthchecks are in exec form"
        found = subprocess.run(
            [self.localized(word, name) for word in command],
            env=self.environment(service, name),
            cwd=ROOT,
            capture_output=True,
            timeout=180,
            check=False,
        )
        return found.returncode == 0

    def wait_until_healthy(self, service: str, name: str = "") -> None:
        """Wait until the healthcheck succeeds."""
        until(
            lambda: self.is_healthy(service, name), what=f"{service} is healthy", within_s=READY_S
        )

    def has_logged(self, name: str, text: str) -> bool:
        """Return whether a service's log has this text."""
        return text in self.output(name)

    def url(self, role: str) -> str:
        """Return the address of the store for one of its users."""
        return f"redis://{role}:secret{role}@127.0.0.1:{self.port}/0"

    def execute(self, role: str, command: str) -> Any:
        """Send a command to the store as one of its users."""
        with redis.Redis.from_url(self.url(role)) as client:
            execute: Any = client.execute_command  # redis-py leaves it untyped
            return execute(*shlex.split(command))

    def client(self, role: str) -> Client:
        """Return an Interlock client that acts as one of the store's users."""
        settings = {"INTERLOCK_STORE_URL": self.url(role), "INTERLOCK_HOME": str(self.folder)}
        return Client(read_settings(settings), actor="person")

    def close(self) -> None:
        """Stop everything, as a deployment does: the store last."""
        self._stack.close()

    def _end_store(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def needs_cli() -> None:
    """Skip where the command line of Redis is not installed; CI has it."""
    if not (shutil.which("valkey-cli") or shutil.which("redis-cli")):
        if os.environ.get("CI") == "true":
            pytest.fail("redis-cli is not installed: apt-get install redis-tools")
        pytest.skip("redis-cli is not installed: apt-get install redis-tools")
