"""A store that cannot serve: one typed error, and either everything is written or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import redis

from interlock.kernel.errors import (
    ClosedParentError,
    FencedError,
    StoreDownError,
    StoreError,
    StoreFullError,
    StoreMisconfiguredError,
    StoreReadOnlyError,
    UnknownRecordError,
)
from interlock.kernel.record import RecordId
from interlock.kernel.store import scripts
from interlock.kernel.store.commands import NoteDraft
from interlock.kernel.store.connect import open_store, refuse_unsafe
from interlock.kernel.store.fold import fold
from interlock.kernel.store.leases import Lease, Order, Refused
from interlock.kernel.store.scripts import store_error
from interlock.workers.gateways.server import EmbeddedServer
from tests.conftest import NewProxy, NewServer
from tests.kernel.store.kernel_at_a_fixed_time import Text, World, token
from tests.kernel.store.tables import LIFE
from tests.servers import refusing


@pytest.fixture
def private(new_server: NewServer, text: Text) -> Iterator[World]:
    """Return a world on a server of its own, whose settings a test may change."""
    server = new_server()
    with redis.Redis.from_url(server.url) as client:
        yield World(client, "alone", text)


WRITES: dict[str, Callable[[World, Lease], object]] = {
    "create": lambda world, _: world.create("new", {"value": 1}),
    "commit": lambda world, _: world.fire("r", "again"),
    "note": lambda world, _: world.note(deltas={"spent": 1}, op="x"),
    "claim": lambda world, lease: world.ask(lease.key, "a"),
    "renew": lambda world, lease: world.renew(lease),
    "release": lambda world, lease: world.leases.release(lease, counted=True),
    "reserve": lambda world, lease: world.reserve(lease, 5),
    "take": lambda world, lease: world.indexes.poll_effects(
        world.partition(), [lease.key], gate_open=True
    ),
    "pause": lambda world, _: world.flag("pause"),
    "meet": lambda world, _: world.indexes.identify_server(
        3, run_id="x", passing=True, period_ms=1, lease_ms=1
    ),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_full_store_refuses_whole_scripts(private: World, write: str) -> None:
    private.at("working")
    lease = private.claim()
    private.make_due(lease.key)
    before = private.dump()
    with refusing(private.client, "is full"):
        with pytest.raises(StoreFullError):
            WRITES[write](private, lease)
        refused = private.dump()
    assert refused == before
    WRITES[write](private, lease)


def test_an_outcome_is_written_whole_by_a_full_store_because_it_frees_first(
    private: World,
) -> None:
    private.at("working")
    lease = private.claim()
    with refusing(private.client, "is full"):
        fired = private.fire("r", "done", {"value": 1}, warrant=token(lease))
    folded = fold(LIFE, private.views.history("r"))

    assert (folded.version, folded.data) == (fired.version, private.record().data)
    assert private.state_of("notify") == "owed"


@pytest.mark.parametrize("write", WRITES)
def test_a_read_only_store_refuses_whole_scripts(private: World, write: str) -> None:
    private.at("working")
    lease = private.claim()
    private.make_due(lease.key)
    before = private.dump()
    with refusing(private.client, "is a replica"):
        with pytest.raises(StoreReadOnlyError):
            WRITES[write](private, lease)
        refused = private.dump()
    assert refused == before


def test_a_store_that_does_not_answer_is_down(server: EmbeddedServer, new_proxy: NewProxy) -> None:
    proxy = new_proxy(server.port)
    client = open_store(proxy.url)
    refuse_unsafe(client)
    proxy.refuse()

    with pytest.raises(StoreDownError):
        scripts.read(client, "GET", "x")
    with pytest.raises(StoreDownError):
        refuse_unsafe(client)
    proxy.heal()
    refuse_unsafe(client)
    client.close()


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (redis.exceptions.BusyLoadingError("Redis is loading the dataset"), StoreReadOnlyError),
        (redis.exceptions.ResponseError("MISCONF Errors writing to the AOF"), StoreReadOnlyError),
        (redis.exceptions.ResponseError("NOREPLICAS Not enough good"), StoreReadOnlyError),
        (redis.exceptions.ReadOnlyError("You can't write"), StoreReadOnlyError),
        (redis.exceptions.OutOfMemoryError("command not allowed"), StoreFullError),
        (redis.exceptions.TimeoutError("Timeout reading"), StoreDownError),
        (redis.exceptions.ClusterDownError("CLUSTERDOWN"), StoreDownError),
        (redis.exceptions.ResponseError("ERR unknown"), StoreError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_the_client_reports_becomes_what_to_do(
    refusal: redis.exceptions.RedisError, kind: type[StoreError]
) -> None:
    assert type(store_error(refusal)) is kind


def test_an_evicting_store_is_refused(new_server: NewServer) -> None:
    server = new_server(settings={"maxmemory-policy": "allkeys-lru"})
    with (
        redis.Redis.from_url(server.url) as client,
        pytest.raises(StoreMisconfiguredError, match="noeviction"),
    ):
        refuse_unsafe(client)


def test_an_address_that_is_none_is_refused() -> None:
    for url in ("http://x", "redis+cluster://nohost", "redis+sentinel://h:1"):
        with pytest.raises(StoreMisconfiguredError):
            open_store(url)


def test_scripts_that_the_server_forgot_are_sent_again(private: World) -> None:
    private.at("working")
    private.client.script_flush()
    lease = private.claim()
    private.client.script_flush()

    assert private.fire("r", "done", warrant=token(lease)).version == 3


def test_every_answer_that_is_no_changes_nothing(world: World) -> None:
    world.at("failed", "ended")
    world.at("working")
    old = world.claim(nonce="a")
    world.fire("r", "again")
    owed = next(entry.key("r") for entry in world.record().entries if entry.state == "owed")
    forged = replace(old, token="1-x")
    nobody = replace(world.record(), id=RecordId("nobody"))
    before = world.dump()

    assert isinstance(world.ask(old.key, "b"), Refused)
    assert isinstance(world.ask(owed, "b", schema=0), Refused)
    assert world.leases.release(forged, counted=True) == "lost"
    assert world.settle(forged).status == "lost"
    assert world.renew(forged) is Order.LOST
    assert world.flag("pause", "ended").status == "ended"
    assert world.flag("resume").status == "already"
    assert world.flag("retry").status == "nothing"
    assert world.indexes.prune(world.record(), [], age_ms=0) == "early"
    assert world.indexes.prune(nobody, [], age_ms=0) == "missing"
    with pytest.raises(FencedError):
        world.reserve(forged, 1)
    with pytest.raises(ClosedParentError):
        world.create("r/a", countdown="children:2")
    with pytest.raises(UnknownRecordError):
        world.flag("pause", "nobody")
    with pytest.raises(UnknownRecordError):
        world.lifecycle.note(nobody, NoteDraft("x", {}))
    assert world.dump() == before
