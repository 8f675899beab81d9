"""A store that another version of Interlock has written is refused before anything is written."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.errors import StoreFormatError
from interlock.kernel.record import PARTITIONS
from interlock.kernel.store import scripts
from interlock.kernel.store.format import FORMAT, OF_FORMAT, refuse_another_format, release
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, read_all
from interlock.workers.gateways.server import EmbeddedServer
from tests.kernel.store.contents import contents
from tests.kernel.store.kernel_at_a_fixed_time import World
from tests.systems.threads.threads import client_of, guarded_client_of, thread_payload


def formats(world: World) -> list[list[bytes | str | None]]:
    metas = [world.keys.meta(partition) for partition in range(PARTITIONS)]
    return [world.client.hmget(meta, *OF_FORMAT) for meta in metas]


def test_who_opens_a_new_store_notes_the_format_in_every_partition(world: World) -> None:
    refuse_another_format(world.client, world.keys)

    ours = [str(FORMAT).encode(), str(PARTITIONS).encode(), release().encode()]
    assert formats(world) == [ours] * PARTITIONS


def test_a_sweep_that_finds_no_format_notes_its_own(world: World) -> None:
    world.indexes.note_pass(period_ms=1_000, lease_ms=1_000)

    ours = [str(FORMAT).encode(), str(PARTITIONS).encode(), release().encode()]
    assert formats(world) == [ours] * PARTITIONS


def test_a_store_without_the_version_of_its_format_notes_that_of_who_opens_it(world: World) -> None:
    refuse_another_format(world.client, world.keys)
    world.client.hdel(world.keys.meta(3), "version")
    world.client.hset(world.keys.meta(4), "version", "0.0.9")

    refuse_another_format(world.client, world.keys)

    assert [row[2] for row in formats(world)[3:5]] == [release().encode(), b"0.0.9"]


@pytest.mark.parametrize(
    ("format_", "said"),
    [
        (FORMAT + 1, "Interlock 9.8.7 has written it: install interlock>=9.8.7"),
        (-FORMAT, "Let `interlock apply` end, .*: it is of Interlock 9.8.7"),
    ],
)
def test_who_meets_a_newer_format_is_told_which_version_to_install(
    world: World, format_: int, said: str
) -> None:
    refuse_another_format(world.client, world.keys)
    world.client.hset(world.keys.meta(9), mapping={"format": format_, "version": "9.8.7"})

    with pytest.raises(StoreFormatError, match=said):
        refuse_another_format(world.client, world.keys)
    with pytest.raises(StoreFormatError, match=said):
        world.indexes.note_pass(period_ms=1_000, lease_ms=1_000)


@pytest.mark.parametrize("field", ["format", "partitions"])
def test_one_partition_of_another_format_is_enough(world: World, field: str) -> None:
    refuse_another_format(world.client, world.keys)
    world.client.hset(world.keys.meta(63), field, "2")

    with pytest.raises(StoreFormatError, match=f"prefix '{world.keys.prefix}' has format"):
        refuse_another_format(world.client, world.keys)


def test_a_store_of_another_format_is_not_changed(world: World) -> None:
    world.client.hset(world.keys.meta(0), mapping={"format": "2", "partitions": "64"})
    before = contents(world)

    with pytest.raises(StoreFormatError):
        refuse_another_format(world.client, world.keys)

    assert contents(world) == before


def test_a_format_that_another_process_notes_meanwhile_is_compared(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_before_another_notes_its_own(client: Client, commands: Any) -> list[Any]:
        replies = read_all(client, commands)
        client.hset(world.keys.meta(5), mapping={"format": FORMAT + 1, "partitions": 64})
        return replies

    monkeypatch.setattr("interlock.kernel.store.format.read_all", read_before_another_notes_its_own)

    with pytest.raises(StoreFormatError, match=f"has format {FORMAT + 1}"):
        refuse_another_format(world.client, world.keys)
    assert world.client.hget(world.keys.meta(5), "version") is None


def test_the_call_of_a_client_is_refused_and_writes_nothing(
    server: EmbeddedServer, prefix: str
) -> None:
    first = client_of(server.url, prefix)
    first.submit(thread_payload(), machine="thread", id="before")
    first.dispatch.client.hset(Keys(prefix).meta(7), "format", "2")

    for opened in (client_of(server.url, prefix), client_of(server.url, prefix)):
        with pytest.raises(StoreFormatError, match="INTERLOCK_PREFIX=new"):
            opened.submit(thread_payload(), machine="thread", id="one")

    assert [record.id for record in first.list(machine="thread")] == ["before"]


def test_a_client_that_is_open_writes_nothing_once_the_format_has_changed(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripts, "GUARD_S", 0)
    opened = guarded_client_of(server.url, prefix)
    opened.submit(thread_payload(), machine="thread", id="before")
    client, keys = opened.dispatch.client, Keys(prefix)
    version = client.hget(keys.record("before"), "version")
    client.hset(keys.meta(0), mapping={"format": FORMAT + 1, "version": "9.8.7"})

    for attempt in (
        lambda: opened.pause("before"),
        lambda: opened.list(machine="thread"),
        lambda: opened.submit(thread_payload(), machine="thread", id="one"),
    ):
        with pytest.raises(StoreFormatError, match=r"install interlock>=9\.8\.7"):
            attempt()

    (refused,) = opened.submit_many([thread_payload()], machine="thread")
    assert isinstance(refused.error, StoreFormatError)
    assert client.keys(f"{prefix}:*:r:*") == [keys.record("before").encode()]
    assert client.hget(keys.record("before"), "version") == version
