"""Clients that send a request slowly, or take no answer, are cut off and hinder no others."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, suppress
from typing import cast
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from fastapi import FastAPI
from sse_starlette import ServerSentEvent

from interlock.workers.access.roles import Caller, Role
from interlock.workers.api import app, event_stream, slow_heads
from interlock.workers.api.event_stream import EventStream
from interlock.workers.api.slow_heads import HeadTimeoutProtocol
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.threads.threads import client_of
from tests.waiting import until
from tests.workers.api.serving import served

HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
BODY_BEGUN = (
    b"POST /v1/records HTTP/1.1\r\nHost: 127.0.0.1\r\nIdempotency-Key: one\r\n"
    b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
)
ANSWERS = 200  # of 80 KB each: more than the system keeps of a connection


def connected(address: str) -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname, parts.port), timeout=180)


def rest(connection: socket.socket) -> bytes:
    """Read until the server closes the connection, perhaps before it has read what was sent."""
    parts = list[bytes]()
    with suppress(ConnectionResetError):
        parts += iter(lambda: connection.recv(65_536), b"")
    return b"".join(parts)


def test_who_sends_a_part_of_a_request_is_cut_off_and_others_are_served(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "BODY_S", 0.5)
    bounds: list[float] = []
    wait = HeadTimeoutProtocol._wait_for_head

    def note(self: HeadTimeoutProtocol) -> None:
        bounds.append(slow_heads.HEAD_S)
        wait(self)

    monkeypatch.setattr(HeadTimeoutProtocol, "_wait_for_head", note)
    interlock = client_of(server.url, prefix, auth="none")
    with served(interlock) as address, ExitStack() as opened:
        # A second request on one connection is bound as the first one is.
        later_head = opened.enter_context(connected(address))
        later_head.sendall(HEAD)
        answered = b""
        while not answered.endswith(b"}"):
            answered += later_head.recv(65_536)
        with monkeypatch.context() as patch:
            patch.setattr(slow_heads, "HEAD_S", 0.5)
            silent, half_head = (opened.enter_context(connected(address)) for _ in range(2))
            half_head.sendall(HEAD[:-2])
            later_head.sendall(HEAD[:-2])
            until(lambda: bounds.count(0.5) == 3, what="the server waits for all three")
        # Those that come now have more time, as a slow computer would cut them off as well.
        half_body = opened.enter_context(connected(address))
        half_body.sendall(BODY_BEGUN)

        with urlopen(f"{address}/healthz", timeout=180) as answer:  # noqa: S310 - our own address
            assert answer.status == 200
        assert rest(silent) == rest(half_head) == rest(later_head) == b""
        assert half_body.recv(65_536).startswith(b"HTTP/1.1 408")
    assert interlock.list() == []


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has this bound")
def test_who_takes_no_answer_is_cut_off(
    server: EmbeddedServer,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(slow_heads, "TAKE_S", 0.2)
    lost: list[Exception | None] = []
    forget = HeadTimeoutProtocol.connection_lost

    def note(self: HeadTimeoutProtocol, exc: Exception | None) -> None:
        lost.append(exc)
        forget(self, exc)

    monkeypatch.setattr(HeadTimeoutProtocol, "connection_lost", note)
    with (
        served(client_of(server.url, prefix, auth="none")) as address,
        connected(address) as takes_nothing,
    ):
        takes_nothing.sendall(HEAD.replace(b"/healthz", b"/openapi.json") * ANSWERS)
        until(lambda: lost, what="the connection is cut off")
    assert isinstance(lost[0], TimeoutError)
    assert "is cut off: it took nothing of an answer for 0.2 seconds" in caplog.text


def test_that_a_listener_is_cut_off_is_one_line_of_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(event_stream, "SEND_S", 0.1)
    api = FastAPI()

    async def endless() -> AsyncIterator[ServerSentEvent]:
        while True:
            yield ServerSentEvent("x" * 1_000_000)

    @api.get("/healthz")
    async def follow() -> EventStream:
        return EventStream(endless(), Caller("ann", (Role.VIEWER,)))

    with served(cast("Client", None), lambda _: api) as address:
        # Its server has made its log one that no other sees.
        monkeypatch.setattr(logging.getLogger("uvicorn"), "propagate", True)
        with connected(address) as takes_nothing:
            takes_nothing.sendall(HEAD)
            until(lambda: caplog.records, what="the log says that it is cut off")
            name = ":".join(map(str, takes_nothing.getsockname()))
    (line,) = caplog.messages
    assert (
        line == f"ann at {name} is cut off: it took nothing of its stream of events for 0.1 seconds"
    )
