"""Real servers for tests: the embedded store, a cluster of one, Debian's Redis, a RabbitMQ node."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import redis

from tests.waiting import until
from workers.gateways.server import LOOPBACK, EmbeddedServer, free_port
from workers.tether import end_tethered, start_tethered

SLOT_LAST = 16_383
RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
RABBITMQ_START_S = 90.0
RABBITMQ_STOP_S = 20.0


@contextmanager
def cluster_server(folder: Path) -> Iterator[EmbeddedServer]:
    """Run a cluster-enabled server that owns every slot."""
    settings = {
        "cluster-enabled": "yes",
        "cluster-port": str(free_port()),
        "cluster-announce-ip": LOOPBACK,
    }
    with EmbeddedServer(folder, settings=settings) as server:
        with redis.Redis.from_url(server.url, decode_responses=True) as client:
            client.execute_command("CLUSTER ADDSLOTSRANGE", 0, SLOT_LAST)
            until(
                lambda: client.execute_command("CLUSTER INFO")["cluster_state"] == "ok",
                what="the cluster is up",
            )
        yield server


def redis_binary() -> Path | None:
    """Return the redis-server of the system, if it has one."""
    found = shutil.which("redis-server")
    return Path(found) if found else None


def redis_version(binary: Path) -> tuple[int, ...]:
    """Return the version that a server binary states, as in `Redis server v=7.0.15 sha=...`."""
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    version = next(word for word in said.split() if word.startswith("v="))
    return tuple(map(int, version.removeprefix("v=").split(".")))


@contextmanager
def rabbitmq_node(folder: Path) -> Iterator[str]:
    """Run a private RabbitMQ node, with a port mapper of its own, and yield its AMQP address."""
    ports = {"node": free_port(), "distribution": free_port(), "mapper": free_port()}
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
    # The default user may log in from here alone; heartbeats would only blur a stopped test.
    (folder / "rabbitmq.conf").write_text("loopback_users.guest = true\nheartbeat = 0\n")
    log = folder / "start.log"
    with ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        # Started by the node itself, the mapper would be a daemon that outlives it.
        for name, command in (
            ("mapper", ["epmd", "-address", LOOPBACK]),
            ("node", [str(RABBITMQ)]),
        ):
            keeper = start_tethered(
                command,
                folder=folder,
                output=output,
                grace_s=RABBITMQ_STOP_S,
                environment=environment,
            )
            stack.callback(end_tethered, keeper, patience_s=RABBITMQ_STOP_S + 5)
            until(
                partial(_listens, ports[name], keeper, log),
                what=f"the {name} of RabbitMQ listens",
                within_s=RABBITMQ_START_S,
            )
        yield f"amqp://guest:guest@{LOOPBACK}:{ports['node']}//"


def _listens(port: int, keeper: subprocess.Popen[bytes], log: Path) -> bool:
    assert keeper.poll() is None, f"it ended with {keeper.returncode}:\n{log.read_text()[-2000:]}"
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True
