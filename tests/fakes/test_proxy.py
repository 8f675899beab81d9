"""The proxy causes the faults that its methods name, between a real client and a real server."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from interlock.workers.gateways.server import EmbeddedServer, free_port
from tests.conftest import NewProxy
from tests.fakes.proxy import FaultProxy
from tests.waiting import until

ONCE = Retry(NoBackoff(), 0)


@pytest.fixture
def proxy(server: EmbeddedServer, new_proxy: NewProxy) -> FaultProxy:
    return new_proxy(server.port)


@pytest.fixture
def through(proxy: FaultProxy) -> Iterator[redis.Redis]:
    """Return a client that tries once."""
    with redis.Redis.from_url(proxy.url, socket_timeout=60, retry=ONCE) as client:
        yield client


def test_it_passes_large_values_unchanged(through: redis.Redis, prefix: str) -> None:
    value = bytes(range(256)) * 4_000
    through.set(f"{prefix}:large", value)

    assert through.get(f"{prefix}:large") == value


def test_a_dropped_connection_is_reset_and_the_next_is_passed(proxy: FaultProxy) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=180) as first:
        first.sendall(b"PING\r\n")
        assert first.recv(100) == b"+PONG\r\n"
        proxy.drop()
        with suppress(ConnectionResetError):
            assert first.recv(100) == b""
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=180) as second:
        second.sendall(b"PING\r\n")
        assert second.recv(100) == b"+PONG\r\n"


def test_refused_connections_fail_until_it_heals(proxy: FaultProxy, through: redis.Redis) -> None:
    proxy.refuse()
    for _ in range(3):
        with pytest.raises(redis.ConnectionError):
            through.ping()

    proxy.heal()
    assert through.ping()


def test_a_black_hole_answers_nothing_and_refuses_nothing(
    proxy: FaultProxy, client: redis.Redis, prefix: str
) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=180) as through:
        through.sendall(b"PING\r\n")
        assert through.recv(100) == b"+PONG\r\n"
        proxy.black_hole()
        through.sendall(f"SET {prefix}:key value\r\n".encode())
        through.settimeout(0.2)
        with pytest.raises(TimeoutError):
            through.recv(100)

        assert client.get(f"{prefix}:key") is None
        proxy.heal()
        through.settimeout(60)
        assert through.recv(100) == b"+OK\r\n"


def test_a_lost_reply_comes_after_the_server_has_done_the_work(
    proxy: FaultProxy, through: redis.Redis, client: redis.Redis, prefix: str
) -> None:
    proxy.lose_reply(to=b"INCR")
    with pytest.raises(redis.ConnectionError):
        through.incr(f"{prefix}:count")

    assert client.get(f"{prefix}:count") == b"1"
    assert proxy.replies_lost == 1
    assert through.incr(f"{prefix}:count") == 2


def test_a_delay_holds_both_directions_back(proxy: FaultProxy, through: redis.Redis) -> None:
    assert through.ping()
    proxy.delay(0.1)
    started = time.monotonic()

    assert through.ping()
    assert time.monotonic() - started >= 0.2


def is_ended(client: socket.socket) -> bool:
    """Whether the other side has closed a connection; waits a minute for that."""
    client.settimeout(60)
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_its_end_closes_a_connection_that_is_just_being_accepted(server: EmbeddedServer) -> None:
    ended: Future[None] = Future()

    def connect_and_close() -> None:
        # The loop accepts in its next step, and in the same step it begins to close.
        client.connect(("127.0.0.1", proxy.port))
        closing = asyncio.run_coroutine_threadsafe(proxy._close(), proxy._loop)
        closing.add_done_callback(lambda _: ended.set_result(None))

    with socket.socket() as client:
        with FaultProxy(server.port) as proxy:
            proxy._loop.call_soon_threadsafe(connect_and_close)
            ended.result(60)
        assert is_ended(client)


def test_its_end_closes_a_connection_for_which_it_connects_to_the_server(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def connect_never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "open_connection", connect_never)
    with FaultProxy(server.port) as proxy:
        client = socket.create_connection(("127.0.0.1", proxy.port))
        until(lambda: proxy.connections, what="it has accepted")

    with client:
        assert is_ended(client)


def test_a_server_that_is_down_looks_down(new_proxy: NewProxy) -> None:
    proxy = new_proxy(free_port())
    with (
        redis.Redis.from_url(proxy.url, socket_timeout=60, retry=ONCE) as client,
        pytest.raises(redis.ConnectionError),
    ):
        client.ping()
