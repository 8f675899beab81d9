"""The scripted server leaves no connection open."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from tests.fakes.openai_server import OpenAIServer
from tests.fakes.test_proxy import is_ended


def test_its_end_closes_a_connection_that_is_just_being_accepted() -> None:
    server = OpenAIServer().__enter__()

    def connect_and_close() -> None:
        # The loop accepts in its next step, and in the same step it begins to close.
        client.connect(("127.0.0.1", urlsplit(server.url).port))
        assert server._closing is not None
        server._loop.call_soon(server._closing.set)

    with socket.socket() as client:
        server._loop.call_soon_threadsafe(connect_and_close)
        server._thread.join(180)

        assert is_ended(client)
