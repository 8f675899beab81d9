"""Serves an API on a free port, in a thread of the test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI
from sse_starlette.sse import AppStatus

from interlock.workers.api.app import create_app
from interlock.workers.api.slow_heads import HeadTimeoutProtocol
from interlock.workers.client import Client
from interlock.workers.gateways.server import free_port
from tests.waiting import until


@contextmanager
def served(interlock: Client, create: Callable[[Client], FastAPI] = create_app) -> Iterator[str]:
    """Serve the API over a client until the block ends; give its address."""
    port = free_port()
    config = uvicorn.Config(
        create(interlock), port=port, log_level="warning", http=HeadTimeoutProtocol
    )
    serving = uvicorn.Server(config)
    thread = threading.Thread(target=serving.run)
    thread.start()
    try:
        until(lambda: serving.started, what="the API listens")
        yield f"http://127.0.0.1:{port}"
    finally:
        # The server waits until each stream has ended that a failed test has left open. Streams end
        # by themselves only with a server in the main thread, whose handler of signals they watch.
        AppStatus.should_exit = serving.should_exit = True
        thread.join()
        AppStatus.should_exit = False
