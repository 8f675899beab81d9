"""Serves an API on a free port, in a thread of the test."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from sse_starlette.sse import AppStatus

from interlock.workers.api import followers, slow_heads
from interlock.workers.api.app import create_app
from interlock.workers.api.followers import Followers, Listener
from interlock.workers.client import Client
from interlock.workers.remote import client as remote
from tests.waiting import until

PATIENCE_S = 600  # with the clients of the test, however slow this computer is


@contextmanager
def served(interlock: Client, create: Callable[[Client], FastAPI] = create_app) -> Iterator[str]:
    """Serve the API over a client until the block ends; give its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        create(interlock),
        log_level="warning",
        http=slow_heads.HeadTimeoutProtocol,
        timeout_keep_alive=PATIENCE_S,
    )
    serving = uvicorn.Server(config)
    thread = threading.Thread(target=serving.run, kwargs={"sockets": [listener]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slow_heads, "HEAD_S", PATIENCE_S)
        thread.start()
        try:
            until(lambda: serving.started, what="the API listens")
            yield "http://{}:{}".format(*listener.getsockname())
        finally:
            # The server waits until each stream has ended that a failed test has left open. Streams
            # end by themselves only with a server in the main thread, whose handler of signals they
            # watch.
            AppStatus.should_exit = serving.should_exit = True
            thread.join()
            AppStatus.should_exit = False


def end_streams_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let streams of events end soon: a test client gets the answer of one when it has ended.

    Each stream lasts longer than the one before: on a slow computer the first may end before
    anything is in them.
    """
    messages = Followers.messages

    def longer(self: Followers, listener: Listener) -> AsyncIterator[Any]:
        monkeypatch.setattr(followers, "LISTEN_S", 1.2 * followers.LISTEN_S)
        return messages(self, listener)

    monkeypatch.setattr(Followers, "messages", longer)
    monkeypatch.setattr(followers, "LISTEN_S", 0.2)
    monkeypatch.setattr(followers, "POLL_S", 0.01)
    monkeypatch.setattr(remote, "AGAIN_S", 0)
