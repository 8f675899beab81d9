"""A process that has imported what a worker needs, and forks workers and fork servers on request.

Each line on stdin is a request: {"argv", "environment", "log"}. Each line on stdout is a process
id. Its children are real `celery` commands, and end when it ends. A worker requests its fork server
over a socket that it inherits; this one serves as the one of a deployed worker does. It saves each
test seconds of imports.
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
from collections.abc import Mapping
from typing import Any

from interlock.workers.supervision import fork_server
from interlock.workers.supervision.launch import COMMAND_LINE_ROOM, ForkServer
from interlock.workers.systems import handlers, openers, sweeps

MODULES = (
    "billiard.pool",
    "celery.__main__",
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
    "openai",
    "openai.resources.chat",
    "pydantic_ai.models.openai",
    "interlock.workers.client",
    "interlock.workers.engine.beat",
    "interlock.workers.engine.consumer",
    "interlock.workers.engine.liveness",
    "interlock.workers.engine.redis_transport",
    "interlock.workers.engine.resources",
    "interlock.workers.engine.runner",
    "interlock.workers.loops.supervisor",
    "interlock.workers.runs.supervisor",
    "interlock.workers.tasks.supervisor",
    "interlock.workers.threads.inference.embedded",
    "tests.end_to_end.threads.capabilities",
    *fork_server.PRELOADED,
)
# The command line has room for that of a supervisor, which replaces it.
COMMAND = (sys.executable, "-m", "tests.end_to_end.engine.preloaded", " " * COMMAND_LINE_ROOM)
# A deployment with this variable starts fork servers as a deployed worker does. Only those have its
# variables in /proc, by which some tests find processes.
OWN_FORK_SERVER = "DEPLOYMENT_OWN_FORK_SERVER"
# The descriptor over which a worker requests its fork server.
FORK_SERVERS = "DEPLOYMENT_FORK_SERVERS"
REQUEST_BYTES_MAX = 262_144
PR_SET_PDEATHSIG = 1


def main() -> None:
    """Fork until stdin ends."""
    for module in MODULES:
        importlib.import_module(module)
    for load in (handlers, openers, sweeps):
        load()
    # Celery prints it when a worker starts. Python runs a program to find it, and keeps it.
    platform.platform()
    # A worker collects garbage once it is ready: without this it would copy the shared memory.
    gc.freeze()
    # No process waits for the children, so the kernel reaps them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    workers_end, requests = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    answer("ready")
    while True:
        ready, _, _ = select.select([sys.stdin, requests], [], [])
        if requests in ready:
            fork_fork_server(requests)
        elif line := sys.stdin.readline():
            process_id = os.fork()
            if process_id == 0:
                run_command(json.loads(line), workers_end.fileno())
            answer(str(process_id))
        else:
            return


def answer(line: str) -> None:
    """Write a line to stdout."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def run_command(request: dict[str, Any], fork_servers: int) -> None:
    """Run the requested command in this child."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    begin(request["environment"], output=log, errors=log)
    if OWN_FORK_SERVER not in os.environ:
        os.environ[FORK_SERVERS] = str(fork_servers)
    sys.argv = ["celery", *request["argv"]]
    code: Any = 1
    try:
        importlib.import_module("celery.__main__").main()
    except SystemExit as end:
        code = end.code
        if isinstance(code, str):
            sys.stderr.write(code + "\n")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(bool(code)))


def fork_fork_server(requests: socket.socket) -> None:
    """Fork the fork server that a worker requests. It ends when the worker closes its link."""
    environment, descriptors, _, _ = socket.recv_fds(requests, REQUEST_BYTES_MAX, 2)
    if os.fork() == 0:
        link, log = descriptors
        begin(json.loads(environment), output=os.open(os.devnull, os.O_WRONLY), errors=log)
        sys.argv = ["fork_server", str(link)]
        fork_server.main()
        # Its exit handlers run, as those of a fork server that a worker starts do.
        sys.exit()
    for descriptor in descriptors:
        os.close(descriptor)


def begin(environment: Mapping[str, str], *, output: int, errors: int) -> None:
    """Make this child the first process of a session, with an environment and outputs."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for descriptor, number in ((os.open(os.devnull, os.O_RDONLY), 0), (output, 1), (errors, 2)):
        os.dup2(descriptor, number)
    os.environ.clear()
    os.environ.update(environment)


def request_fork_server(worker: ForkServer) -> socket.socket:
    """Request a fork server in a worker; return the link to it, as `ForkServer._start` does."""
    worker._link, theirs = socket.socketpair()
    environment = json.dumps(dict(os.environ)).encode()
    with theirs, socket.socket(fileno=os.dup(int(os.environ[FORK_SERVERS]))) as requests:
        socket.send_fds(requests, [environment], (theirs.fileno(), 2))
    return worker._link


if __name__ == "__main__":
    main()
