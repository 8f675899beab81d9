"""A process that has imported what a worker needs, and forks workers on request.

Each line on stdin is a request: {"argv", "environment", "log"}. Each line on stdout is a process
id. Its children are real `celery` commands, and end when it ends. It saves each test seconds of
imports.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import signal
import sys
from typing import Any

from interlock.workers.systems import handlers, openers, sweeps

MODULES = (
    "celery.__main__",
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.bin.celery",
    "celery.concurrency.thread",
    "openai",
    "pydantic_ai.models.openai",
    "interlock.workers.engine.redis_transport",
    "interlock.workers.client",
    "interlock.workers.engine.consumer",
    "interlock.workers.engine.runner",
    "interlock.workers.engine.resources",
)
PR_SET_PDEATHSIG = 1


def main() -> None:
    """Fork until stdin ends."""
    for module in MODULES:
        importlib.import_module(module)
    for load in (handlers, openers, sweeps):
        load()
    # A worker collects garbage once it is ready: without this it would copy the shared memory.
    gc.freeze()
    # No process waits for the children, so the kernel reaps them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    answer("ready")
    for line in sys.stdin:
        process_id = os.fork()
        if process_id == 0:
            run_command(json.loads(line))
        answer(str(process_id))


def answer(line: str) -> None:
    """Write a line to stdout."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def run_command(request: dict[str, Any]) -> None:
    """Run the requested command in this child."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor, number in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
        os.dup2(descriptor, number)
    os.environ.clear()
    os.environ.update(request["environment"])
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


if __name__ == "__main__":
    main()
