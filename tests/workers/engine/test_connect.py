"""Addresses of stores: clear refusals, and records that go on after a failover with Sentinel."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from kombu import Connection

from interlock.kernel.errors import (
    StoreDeniedError,
    StoreDownError,
    StoreError,
    StoreMisconfiguredError,
)
from interlock.kernel.store import connect
from interlock.kernel.store.connect import RETRIES, greet, open_store, refuse_unsafe
from interlock.kernel.store.scripts import Client as StoreClient
from interlock.kernel.store.scripts import call, read, read_all
from interlock.workers.client import Client
from interlock.workers.engine.redis_transport import TRANSPORT
from interlock.workers.gateways.server import EmbeddedServer, free_port
from tests.servers import Watched
from tests.systems.threads.threads import CONSENT, client_of, step, thread_payload
from tests.waiting import until

NewServer = Callable[..., EmbeddedServer]


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("nonsense", "is no address of a store"),
        ("http://127.0.0.1:6379", "is no address of a store"),
        ("redis://[", "cannot be used: Invalid IPv6 URL"),
        ("redis://127.0.0.1:70000/0", "cannot be used: Port out of range"),
        ("redis://127.0.0.1:6379/0?colour=blue", "cannot be used: .*colour"),
        ("redis+sentinel://127.0.0.1:26379", "must end with a service"),
        ("redis+sentinel://127.0.0.1:26379/service/zero", "must end with a service"),
        ("redis+sentinel://127.0.0.1:26379/service?password=x", "password is no option"),
        ("redis+sentinel://127.0.0.1/service", "'127.0.0.1' in .* is no host:port"),
        ("redis+cluster://127.0.0.1:x", "is no host:port"),
    ],
)
def test_a_wrong_address_is_refused_with_the_reason(url: str, problem: str) -> None:
    with pytest.raises(StoreMisconfiguredError, match=problem):
        open_store(url)


@pytest.mark.parametrize("ask", [lambda c: read(c, "GET", "x"), lambda c: call(c, "count", {}, {})])
@pytest.mark.parametrize(("patient", "wanted"), [(True, RETRIES + 1), (False, 1)])
def test_a_store_that_never_answers_is_given_up_after_a_few_timeouts(
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[StoreClient], Any],
    patient: bool,  # noqa: FBT001
    wanted: int,
) -> None:
    """Were each retry to probe its connection first, it would take the square of that."""
    monkeypatch.setattr(connect, "TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
        address = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        client = open_store(address, patient=patient)
        with pytest.raises(StoreDownError, match="does not answer"):
            ask(client)
        silent.settimeout(0)
        tries = 0
        with suppress(BlockingIOError):
            while True:
                silent.accept()[0].close()
                tries += 1
    assert tries == wanted


@pytest.mark.parametrize(
    "ask",
    [
        lambda store, key: read(store, "GET", key),
        lambda store, key: read_all(store, [("GET", key)])[0],
    ],
)
def test_a_connection_that_broke_while_it_was_kept_is_replaced(
    server: EmbeddedServer,
    client: redis.Redis,
    prefix: str,
    ask: Callable[[StoreClient, str], Any],
) -> None:
    client.set(prefix, "kept")
    with open_store(server.url) as store:
        client.client_kill_filter(_id=read(store, "CLIENT", "ID"))

        assert ask(store, prefix) == b"kept"


def test_the_replies_of_a_connection_stay_in_step_after_a_refusal(
    server: EmbeddedServer, client: redis.Redis, prefix: str
) -> None:
    client.set(prefix, "text")
    of_a_list = ("LRANGE", prefix, 0, -1)
    with open_store(server.url) as store:
        number = read(store, "CLIENT", "ID")
        with pytest.raises(StoreError, match="WRONGTYPE"):
            read(store, *of_a_list)
        with pytest.raises(StoreError, match="WRONGTYPE"):
            read_all(store, [of_a_list, ("GET", prefix)])

        assert read(store, "GET", prefix) == b"text"
        assert read(store, "CLIENT", "ID") == number, "the connection is still used"


def test_no_connection_looks_up_the_version_of_its_library(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would read the package's metadata each time, which takes longer than to connect."""

    def looked_up() -> str:
        raise AssertionError

    monkeypatch.setattr("redis.utils.get_lib_version", looked_up)
    with open_store(server.url) as store:
        assert store.ping()
    with Connection(server.url, transport=TRANSPORT) as connection:
        connection.Producer().publish({}, routing_key=prefix)


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hush@127.0.0.1:6379",
        "redis://user:hush@127.0.0.1:70000",
        "redis+sentinel://user:hush@127.0.0.1:26379",
    ],
)
def test_a_refusal_shows_no_password(url: str) -> None:
    with pytest.raises(StoreMisconfiguredError) as refusal:
        open_store(url)

    assert "hush" not in str(refusal.value)
    assert "127.0.0.1" in str(refusal.value)


@pytest.mark.parametrize("url", ["redis://127.0.0.1:9/0", "unix:///nowhere.sock"])
def test_opening_connects_to_nothing(url: str) -> None:
    client = open_store(url)

    with pytest.raises(StoreDownError, match="does not answer"):
        refuse_unsafe(client)


def test_a_cluster_of_which_no_node_answers_is_down() -> None:
    with pytest.raises(StoreDownError, match="no node of"):
        open_store(f"redis+cluster://127.0.0.1:{free_port()}")


def test_a_service_that_no_sentinel_knows_is_down() -> None:
    client = open_store(f"redis+sentinel://127.0.0.1:{free_port()}/service")

    with pytest.raises(StoreDownError):
        refuse_unsafe(client)


def test_a_password_may_contain_escaped_characters(new_server: NewServer) -> None:
    server = new_server()
    with redis.Redis.from_url(server.url) as admin:
        admin.acl_setuser(
            "me", enabled=True, passwords=["+a/b@c"], categories=["+@all"], keys=["*"]
        )

    with open_store(f"redis://me:a%2Fb%40c@127.0.0.1:{server.port}/0") as client:
        refuse_unsafe(client)


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_a_store_that_evicts_is_refused(new_server: NewServer, policy: str) -> None:
    server = new_server(settings={"maxmemory-policy": policy, "maxmemory": "100mb"})

    with (
        open_store(server.url) as client,
        pytest.raises(StoreMisconfiguredError, match=f"maxmemory-policy {policy}"),
    ):
        refuse_unsafe(client)
    with pytest.raises(StoreMisconfiguredError):
        client_of(server.url, "any").submit(thread_payload(), machine="thread")


def test_a_cluster_that_evicts_is_refused_too(cluster: EmbeddedServer) -> None:
    with (
        open_store(f"redis+cluster://127.0.0.1:{cluster.port}") as client,
        redis.Redis.from_url(cluster.url) as admin,
    ):
        refuse_unsafe(client)
        admin.config_set("maxmemory-policy", "allkeys-lru")
        try:
            with pytest.raises(StoreMisconfiguredError, match="allkeys-lru"):
                refuse_unsafe(client)
        finally:
            admin.config_set("maxmemory-policy", "noeviction")


def test_an_old_store_is_refused(server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    client = open_store(server.url)
    monkeypatch.setattr(client, "info", lambda _: {"redis_version": "6.2.14"})

    with pytest.raises(StoreMisconfiguredError, match=r"version 6\.2\.14; .* needs Redis 7\.0"):
        refuse_unsafe(client)


@pytest.mark.slow
def test_a_client_follows_the_master_through_a_failover(
    watched: Watched, server: EmbeddedServer, prefix: str
) -> None:
    here = client_of(watched.url, prefix, broker_url=server.url)
    here.submit(thread_payload(), machine="thread", id="one")
    for trigger, payload in CONSENT[:4]:
        step(here, "one", trigger, payload)
    before = here.show("one")
    watched.kill_master()

    for number, (trigger, payload) in enumerate(CONSENT[4:]):
        fire = partial(fires, here, trigger, payload, f"op{number}")
        until(fire, what=trigger)

    record = here.show("one")
    assert record.state == "awaiting_confirmation"
    assert record.version == before.version + len(CONSENT) - 4
    assert watched.ask("GET-MASTER-ADDR-BY-NAME", "interlock")[1] == str(watched.replica.port)


def fires(client: Client, trigger: str, payload: Any, op_id: str) -> bool:
    """Fire once; a failure is repeated with the same op-id by the caller."""
    try:
        step(client, "one", trigger, payload, op_id=op_id)
    except StoreError:
        return False
    return True


def test_a_sentinel_has_a_password_of_its_own() -> None:
    client: Any = open_store(
        "redis+sentinel://me:mine@127.0.0.1:26379/interlock/2?sentinel_password=theirs"
    )

    pool = client.connection_pool
    assert pool.connection_kwargs["password"] == "mine"
    assert pool.connection_kwargs["db"] == 2
    watcher = pool.sentinel_manager.sentinels[0].connection_pool.connection_kwargs
    assert (watcher["username"], watcher["password"]) == (None, "theirs")


def test_a_store_is_reached_over_its_socket_file(new_server: NewServer, tmp_path: Path) -> None:
    file = tmp_path / "store.sock"
    new_server(settings={"unixsocket": str(file)})

    greet(f"unix://{file}")
    with open_store(f"unix://{file}") as client:
        refuse_unsafe(client)


def test_a_port_that_is_silent_is_given_up_after_one_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "GREETING_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(StoreDownError, match="does not answer"):
            greet(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        silent.settimeout(0.0)
        silent.accept()[0].close()

        with pytest.raises(BlockingIOError):
            silent.accept()


def test_a_program_that_is_no_store_is_named_as_that() -> None:
    with socket.create_server(("127.0.0.1", 0)) as web:

        def serve() -> None:
            connection, _ = web.accept()
            connection.sendall(b"<html>")
            connection.recv(65_536)
            connection.close()

        serving = threading.Thread(target=serve)
        serving.start()
        with pytest.raises(StoreDownError, match="neither Redis nor Valkey"):
            greet(f"redis://127.0.0.1:{web.getsockname()[1]}/0")
        serving.join()


@pytest.mark.parametrize("login", ["", ":wrong@", "nobody:wrong@"])
def test_a_password_that_is_wrong_or_missing_is_named_as_that(
    new_server: NewServer, login: str
) -> None:
    server = new_server()
    with redis.Redis.from_url(server.url) as client:
        client.config_set("requirepass", "right")

    with pytest.raises(StoreDeniedError, match="refuses this password"):
        greet(server.url.replace("//", f"//{login}"))
