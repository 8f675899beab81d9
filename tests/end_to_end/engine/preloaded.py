"""A process that has imported what a worker needs, and forks workers and fork servers on request.

Its last arguments are the id of its parent and the descriptor of a socket, at which it accepts
links. Each message over a link is a request, as a `ModuleServer` gets it; each answer is a process
id. Its children run modules as those of a `ModuleServer` do, and end when it ends. It ends when its
parent does. A worker requests its fork server over a socket that it inherits; this one serves as
the one of a deployed worker does. It saves each test seconds of imports.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import platform
import select
import signal
import socket
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from celery.utils.imports import load_extension_class_names

from interlock.kernel.machines import MACHINES
from interlock.kernel.payload import Shape
from interlock.kernel.record import PRIORITY_DEFAULT
from interlock.kernel.store.scripts import sha_of
from interlock.systems import NAMES
from interlock.systems.jobs import command_run
from interlock.workers.config import read_settings
from interlock.workers.engine import heartbeat, own_systems
from interlock.workers.engine.celery_app import effect_queues, make_app, queue_of
from interlock.workers.engine.messages import MessageTemplates
from interlock.workers.engine.own_systems import add_systems
from interlock.workers.processes.module_server import begin_fork, run
from interlock.workers.supervision import fork_server
from interlock.workers.supervision.launch import ForkServerLink
from interlock.workers.systems import handlers, openers, sweeps
from tests.raised_limits import EVERYWHERE

MODULES = (
    "billiard.pool",
    "celery.app.amqp",
    "celery.app.control",
    "celery.app.events",
    "celery.app.log",
    "celery.app.routes",
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.bin.celery",
    "celery.concurrency.thread",
    "celery.worker.autoscale",
    "celery.worker.components",
    "celery.worker.consumer.delayed_delivery",
    "celery.worker.strategy",
    "genai_prices.data",
    "openai",
    "openai.resources.chat.chat",
    "pydantic_ai.models.openai",
    "pydantic_ai.providers.openai",
    "pydantic_ai.providers.openai_compatible",
    "interlock.workers.client",
    "interlock.workers.engine.announcement",
    "interlock.workers.engine.beat",
    "interlock.workers.engine.consumer",
    "interlock.workers.engine.entry",
    "interlock.workers.engine.liveness",
    "interlock.workers.engine.redis_transport",
    "interlock.workers.engine.resources",
    "interlock.workers.engine.runner",
    "interlock.systems.loops.supervisor",
    "interlock.workers.ops.process_metrics",
    "interlock.systems.runs.supervisor",
    "interlock.workers.supervision.publishing",
    "interlock.systems.tasks.supervisor",
    "interlock.systems.threads.inference.embedded",
    "interlock.systems.threads.inference.provider",
    "tests.end_to_end.threads.capabilities",
    *fork_server.PRELOADED,
)
# A deployment with this variable starts fork servers as a deployed worker does. Some tests find
# processes by its variables in /proc, which only these have. Only these keep the limits that
# raised_limits.py raises.
OWN_FORK_SERVER = "DEPLOYMENT_OWN_FORK_SERVER"
# The descriptor over which a worker requests its fork server.
FORK_SERVERS = "DEPLOYMENT_FORK_SERVERS"
REQUEST_BYTES_MAX = 262_144
# Tests wait for orders, which a holder reads when it renews its lease.
RENEWAL_S_MAX = 0.7
# A job's command that has to stop may reply until then.
JOB_GRACE_S = 60.0
PR_SET_PDEATHSIG = 1


def main(listener: socket.socket, parent: int) -> None:
    """Fork until the process with the id `parent`, which started this one, ends."""
    end_with(parent)
    heartbeat.PERIOD_S_MAX = RENEWAL_S_MAX
    command_run.COMMAND_END_S = JOB_GRACE_S
    for limited, name, limit in EVERYWHERE:
        setattr(limited, name, limit)
    for module in MODULES:
        importlib.import_module(module)
    add_systems(NAMES, Path())
    for load in (handlers, openers, sweeps):
        load()
    read_and_build()
    # Celery prints it when a worker starts. Python runs a program to find it, and keeps it.
    platform.platform()
    # Each worker and beat would look for these in the metadata of all packages, and keep them.
    load_extension_class_names("celery.result_backends")
    load_extension_class_names("celery.beat_schedulers")
    render_templates()
    # Each child adds the systems that its own settings name.
    own_systems._ADDED.clear()
    MACHINES.entries.clear()
    # A worker collects garbage once it is ready: without this it would copy the shared memory.
    gc.freeze()
    # No process waits for the children, so the kernel reaps them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    workers_end, requests = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    links: list[socket.socket] = []
    while True:
        ready, _, _ = select.select([listener, requests, *links], [], [])
        if requests in ready:
            fork_fork_server(requests)
        if listener in ready:
            links.append(listener.accept()[0])
        for link in [one for one in links if one in ready]:
            request = link.recv(REQUEST_BYTES_MAX)
            if request:
                link.send(str(fork_worker(request, workers_end)).encode())
            else:
                links.remove(link)
                link.close()


def fork_worker(request: bytes, fork_servers: socket.socket) -> int:
    """Fork a child that runs the requested module; return its process id."""
    server, process_id = os.getpid(), os.fork()
    if process_id == 0:
        begin_fork(server)
        wanted = json.loads(request)
        if OWN_FORK_SERVER not in wanted["environment"]:
            wanted["environment"][FORK_SERVERS] = str(fork_servers.fileno())
        run(**wanted)
        sys.exit()
    return process_id


def fork_fork_server(requests: socket.socket) -> None:
    """Fork the fork server that a worker requests. It ends when the worker closes its link."""
    environment, descriptors, _, _ = socket.recv_fds(requests, REQUEST_BYTES_MAX, 2)
    server = os.getpid()
    if os.fork() == 0:
        begin_fork(server)
        link, log = descriptors
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(log, 2)
        os.environ.clear()
        os.environ.update(json.loads(environment))
        sys.argv = ["fork_server", str(link)]
        fork_server.main()
        # Its exit handlers run, as those of a fork server that a worker starts do.
        sys.exit()
    for descriptor in descriptors:
        os.close(descriptor)


def read_and_build() -> None:
    """Read the scripts and build the models of payloads, which each fork would do otherwise."""
    for script in (files("interlock.kernel.store") / "lua").iterdir():
        if script.name.endswith(".lua"):
            sha_of(script.name.removesuffix(".lua"))
    for shape in shapes(Shape):
        shape.model_rebuild()


def render_templates() -> None:
    """Render the template of each effect's message, which each fork would do otherwise."""
    settings = read_settings({"INTERLOCK_STORE_URL": "redis://localhost"})
    with make_app(settings, effect_queues(MACHINES.values())) as app:
        templates = MessageTemplates(app)
        for machine in MACHINES.values():
            for name in machine.effects:
                queue = queue_of(settings, name)
                templates.render(f"{machine.name}.{name}", queue, PRIORITY_DEFAULT, "key", "shown")


def shapes(above: type[Shape]) -> Iterator[type[Shape]]:
    """Yield every kind of payload."""
    for shape in above.__subclasses__():
        yield shape
        yield from shapes(shape)


def end_with(parent: int) -> None:
    """Let the system kill this process when its parent ends. Exit if it has ended already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit()


def request_fork_server(worker: ForkServerLink) -> socket.socket:
    """Request a fork server in a worker; return the link to it, as `ForkServerLink._start` does."""
    worker._link, theirs = socket.socketpair()
    environment = json.dumps(dict(os.environ)).encode()
    with theirs, socket.socket(fileno=os.dup(int(os.environ[FORK_SERVERS]))) as requests:
        socket.send_fds(requests, [environment], (theirs.fileno(), 2))
    return worker._link


if __name__ == "__main__":
    started_by, descriptor = map(int, sys.argv[-2:])
    with socket.socket(fileno=descriptor) as links_begin_here:
        main(links_begin_here, started_by)
