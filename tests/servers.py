"""Real servers for tests: a cluster of one node, a Sentinel with master and replica, RabbitMQ."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import redis

from interlock.workers.gateways.server import (
    LOOPBACK,
    PORTS,
    EmbeddedServer,
    find_binary,
    free_port,
    is_free,
)
from interlock.workers.processes.bound_process import end_bound, start_bound
from tests.waiting import until

SLOT_LAST = 16_383
RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
# A node takes seconds to start and to stop. To start one that is broken, and to end it, takes less
# than the time of a test, so that the error is that of this module.
RABBITMQ_START_S = 90.0
RABBITMQ_STOP_S = 20.0
AMQP_GREETING = b"AMQP\x00\x00\x09\x01"
ANSWER_S = 10.0  # in which a node that has started answers a greeting
LOG_END = 2_000  # characters of its log that an error shows
# A computer may be so busy that a store takes much longer than usual to start.
STORE_START_S = 120.0
# A store that is killed while its disk is late would lose what it acknowledged: level D2.
EACH_WRITE_ON_DISK = {"appendfsync": "always"}
# Why a server that answers refuses: the command after which it does, and the one that ends it.
REFUSALS = {
    "misses replicas": ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"),
    "is full": ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
    "is a replica": (f"REPLICAOF {LOOPBACK} 1", "REPLICAOF NO ONE"),
    "wants a password": ("CONFIG SET requirepass new", 'CONFIG SET requirepass ""'),
}
# The settings of a server that loads its data so slowly that it is still loading when a test looks.
# It answers between two keys, so a key has more bytes than it reads between two answers.
LOADS_SLOWLY = {
    "appendonly": "no",
    "key-load-delay": "50000",
    "loading-process-events-interval-bytes": "1024",
}
SLOW_KEYS = 2_000


@contextmanager
def cluster_server(folder: Path) -> Iterator[EmbeddedServer]:
    """Run a cluster-enabled server that owns every slot."""
    settings = {
        "cluster-enabled": "yes",
        "cluster-port": str(free_port()),
        "cluster-announce-ip": LOOPBACK,
    }
    with EmbeddedServer(folder, settings=settings, start_s=STORE_START_S) as server:
        with redis.Redis.from_url(server.url, decode_responses=True) as client:
            client.execute_command("CLUSTER ADDSLOTSRANGE", 0, SLOT_LAST)
            until(
                lambda: client.execute_command("CLUSTER INFO")["cluster_state"] == "ok",
                what="the cluster is up",
            )
        yield server


@dataclass(frozen=True)
class Watched:
    """A master, its replica, and a Sentinel that watches them."""

    master: EmbeddedServer
    replica: EmbeddedServer
    port: int

    @property
    def url(self) -> str:
        """Return the address at which the Sentinel names the current master."""
        return f"redis+sentinel://{LOOPBACK}:{self.port}/interlock/0"

    def ask(self, *arguments: str) -> Any:
        """Send the Sentinel a command."""
        with redis.Redis(port=self.port, decode_responses=True) as sentinel:
            execute: Any = sentinel.execute_command
            return execute("SENTINEL", *arguments)

    def kill_master(self) -> None:
        """Kill the master as soon as its replica has all writes up to now."""
        with redis.Redis.from_url(self.master.url) as master:
            assert master.wait(1, 60_000) == 1
        self.master.stop()
        # Before that, a master that only was slow would have been taken for a lost one.
        self.ask("SET", "interlock", "down-after-milliseconds", "1000")

    def is_in_step(self) -> bool:
        """Whether the Sentinel reports that the replica is synchronised with its master."""
        try:
            replicas = self.ask("REPLICAS", "interlock")
        except redis.RedisError:
            return False
        return bool(replicas) and "master-link-status" in str(replicas) and "'ok'" in str(replicas)


@contextmanager
def sentinel(folder: Path, master: EmbeddedServer, replica: EmbeddedServer) -> Iterator[Watched]:
    """Run a Sentinel that watches both, and wait until it reports them synchronised."""
    watched = Watched(master, replica, free_port())
    config = folder / "sentinel.conf"
    config.write_text(
        f"port {watched.port}\nbind {LOOPBACK}\nprotected-mode yes\n"
        f"sentinel monitor interlock {LOOPBACK} {master.port} 1\n"
        "sentinel down-after-milliseconds interlock 600000\n"
        "sentinel failover-timeout interlock 5000\n"
    )
    with ExitStack() as stack:
        bound = start_bound(
            [str(find_binary()), str(config), "--sentinel"],
            folder=folder,
            output=stack.enter_context((folder / "sentinel.log").open("wb")),
            grace_s=5,
        )
        stack.callback(end_bound, bound, patience_s=60)
        until(watched.is_in_step, what="the Sentinel reports the replica synchronised")
        yield watched


@contextmanager
def refusing(client: Any, why: str) -> Iterator[None]:
    """Let a server refuse its clients, for one of the reasons in REFUSALS, until the block ends."""
    begin, end = REFUSALS[why]
    client.execute_command(*shlex.split(begin))
    try:
        yield
    finally:
        client.execute_command(*shlex.split(end))


@contextmanager
def loading(server: EmbeddedServer) -> Iterator[None]:
    """Restart a server that LOADS_SLOWLY; it answers that it is loading until the block ends."""
    with redis.Redis.from_url(server.url) as client:
        client.mset({f"slow:{number}": os.urandom(2_000) for number in range(SLOW_KEYS)})
        client.save()
        server.stop()
        start = threading.Thread(target=server.start)
        start.start()
        try:
            until(partial(_is_loading, client), what="it is loading")
            yield
        finally:
            client.config_set("key-load-delay", 0)
            start.join()


def _is_loading(client: redis.Redis) -> bool:
    try:
        client.ping()
    except redis.BusyLoadingError:
        return True
    except redis.ConnectionError:
        pass
    return False


def redis_binary() -> Path | None:
    """Return the redis-server of the system, or None."""
    found = shutil.which("redis-server")
    return Path(found) if found else None


def redis_version(binary: Path) -> tuple[int, ...]:
    """Return the version that a server binary states, as in `Redis server v=7.0.15 sha=...`."""
    output = subprocess.run(
        [binary, "--version"], capture_output=True, text=True, check=True
    ).stdout
    version = next(part for part in output.split() if part.startswith("v="))
    return tuple(map(int, version.removeprefix("v=").split(".")))


@dataclass(frozen=True)
class Answering:
    """A program that takes connections at a port, and answers if it is sent a greeting."""

    name: str
    port: int
    greeting: bytes
    bound: subprocess.Popen[bytes]
    log: Path

    @property
    def address(self) -> str:
        """Return the address at which it answers, as a client of AMQP takes it."""
        return f"amqp://guest:guest@{LOOPBACK}:{self.port}//"

    def assert_answers(self, *, within_s: float = 0.0) -> None:
        """Wait until it answers. Raises AssertionError, with the end of its log, if it does not.

        A node listens before it answers; what listens may also be another program with its port.
        """
        silence = [""]

        def answers() -> bool:
            silence[0] = self._silence()
            return not silence[0] or self.bound.poll() is not None

        with suppress(AssertionError):
            until(answers, what="it answers or ends", within_s=within_s)
        if self.bound.poll() is not None:
            silence[0] = f"ended with {self.bound.returncode}"
        said = self.log.read_text(errors="replace")[-LOG_END:]
        assert not silence[0], f"the {self.name} of RabbitMQ {silence[0]}\n{said}"

    def _silence(self) -> str:
        """Return why it does not answer, or ''."""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=ANSWER_S) as connection:
                connection.sendall(self.greeting)
                if not self.greeting or connection.recv(1):
                    return ""
                why: object = "it closes the connection"
        except OSError as refusal:
            why = refusal
        return f"does not answer at {LOOPBACK}:{self.port}: {why}"


@contextmanager
def rabbitmq_node(folder: Path) -> Iterator[Answering]:
    """Run a private RabbitMQ node, with a port mapper of its own.

    Raises AssertionError if one of the two does not answer in time.
    """
    ports = {name: _unusual_port() for name in ("node", "distribution", "mapper")}
    plugins = folder / "enabled_plugins"
    plugins.write_text("[].\n")
    environment = {
        **os.environ,
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "ERL_EPMD_PORT": str(ports["mapper"]),
        "ERL_EPMD_ADDRESS": LOOPBACK,
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
        "RABBITMQ_DIST_PORT": str(ports["distribution"]),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        "RABBITMQ_LOG_BASE": str(folder),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_NODENAME": f"interlock-{ports['node']}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": LOOPBACK,
        "RABBITMQ_NODE_PORT": str(ports["node"]),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
    }
    # The default user may log in from this host only; heartbeats would disturb a stopped test.
    (folder / "rabbitmq.conf").write_text("loopback_users.guest = true\nheartbeat = 0\n")
    log = folder / "start.log"
    with ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        # If the node started the mapper, it would be a daemon that outlives the node.
        for name, command, greeting in (
            ("mapper", ["epmd", "-address", LOOPBACK], b""),
            ("node", [str(RABBITMQ)], AMQP_GREETING),
        ):
            bound = start_bound(
                command,
                folder=folder,
                output=output,
                grace_s=RABBITMQ_STOP_S,
                environment=environment,
            )
            stack.callback(end_bound, bound, patience_s=RABBITMQ_STOP_S + 5)
            program = Answering(name, ports[name], greeting, bound, log)
            program.assert_answers(within_s=RABBITMQ_START_S)
        yield program


def _unusual_port() -> int:
    """Return a free port that `free_port` gives nobody in the half minute until a node listens."""
    candidates = (PORTS.start - 1 - secrets.randbelow(10_000) for _ in range(100))
    return next(port for port in candidates if is_free(port))
