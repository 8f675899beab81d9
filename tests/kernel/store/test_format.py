"""A store that another version of Interlock has written is refused before anything is written."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.errors import StoreFormatError
from interlock.kernel.record import PARTITIONS
from interlock.kernel.store.format import FORMAT, refuse_another_format
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, read_all
from interlock.workers.gateways.server import EmbeddedServer
from tests.kernel.store.contents import contents
from tests.kernel.store.kernel_at_a_fixed_time import World
from tests.workers.threads.threads import client_of, thread_payload


def formats(world: World) -> list[list[bytes | str | None]]:
    metas = [world.keys.meta(partition) for partition in range(PARTITIONS)]
    return [world.client.hmget(meta, "format", "partitions") for meta in metas]


def test_who_opens_a_new_store_notes_the_format_in_every_partition(world: World) -> None:
    refuse_another_format(world.client, world.keys)

    ours = [str(FORMAT).encode(), str(PARTITIONS).encode()]
    assert formats(world) == [ours] * PARTITIONS


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
