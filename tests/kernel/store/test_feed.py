"""The feeds of all partitions have each commit once, for who goes on from any position."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings

from interlock.kernel.errors import CallError, InvalidPayloadError, MissedError
from interlock.kernel.store import commands as plan
from interlock.kernel.store import feed as feeds
from interlock.kernel.store.feed import Committed, Feed, Place, Position, position_of, text_of
from interlock.kernel.store.scripts import read
from tests.damage import chances, torn
from tests.kernel.store.kernel_at_a_fixed_time import World

NAMES = ("a", "b", "c", "d")  # each in a partition of its own
WRITERS, EACH = 4, 12


def feed_of(world: World) -> Feed:
    return Feed(world.client, world.keys)


def page(world: World, position: Position) -> list[Committed]:
    found = feed_of(world).after([position])[position]
    assert not isinstance(found, MissedError), found
    return found


def every(world: World, position: Position) -> Iterator[Committed]:
    """Yield what follows a position, page by page, until nothing does."""
    while found := page(world, position):
        yield from found
        position = found[-1].position


def short(found: Iterator[Committed] | list[Committed]) -> list[tuple[str, int]]:
    return [(one.record_id, one.version) for one in found]


def test_who_goes_on_from_any_position_gets_exactly_the_rest(world: World) -> None:
    begin = feed_of(world).newest()
    for name in NAMES:
        world.at("working", name)
    world.fire("a", "poke", {"value": 1})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feeds, "PAGE", 2)
        found = list(every(world, begin))

    for name in NAMES:
        versions = [version for one, version in short(found) if one == name]
        assert versions == list(range(1, world.record(name).version + 1)), "in order, each once"
    assert {one.machine for one in found} == {world.record("a").machine}
    for number, one in enumerate(found):
        assert position_of(text_of(one.position)) == one.position
        assert short(every(world, one.position)) == short(found[number + 1 :])
    assert page(world, feed_of(world).newest()) == []


def test_a_repeat_a_refusal_and_a_note_are_no_commits(world: World) -> None:
    record = world.at("working")
    world.fire("r", "poke", {"value": 1}, op="same")
    begin = feed_of(world).newest()

    assert world.create("r").replayed
    # With the record in hand, the script that commits is asked.
    assert world.fire(record, "poke", {"value": 1}, op="same").replayed
    with pytest.raises(CallError):
        world.fire("r", "no such trigger")
    world.note("r", "seen")
    world.flag("pause")
    world.flag("resume")

    assert page(world, begin) == []


def test_who_reads_while_others_write_misses_nothing_and_gets_nothing_twice(world: World) -> None:
    world.text.now_us = None
    begin = feed_of(world).newest()

    def write(name: str) -> None:
        world.at("working", name)
        for number in range(EACH):
            world.fire(name, "poke", {"value": number})

    found: list[Committed] = []
    with ThreadPoolExecutor(WRITERS) as pool:
        writing = [pool.submit(write, name) for name in NAMES]
        while not all(one.done() for one in writing):
            # Each look begins anew from the text of a position, as a listener that comes again.
            at = found[-1].position if found else begin
            found += page(world, position_of(text_of(at)))
        for one in writing:
            one.result()
    found += every(world, found[-1].position if found else begin)

    for name in NAMES:
        versions = [version for one, version in short(found) if one == name]
        assert versions == list(range(1, world.record(name).version + 1))


def test_a_position_that_is_no_longer_kept_is_refused(world: World) -> None:
    empty = feed_of(world).newest()
    world.at("working")
    early = feed_of(world).newest()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "FEED_MIN", 150)
        for number in range(300):
            world.fire("r", "poke", {"value": number})
        found = feed_of(world).after([empty, early])

    # The store trims whole blocks of a hundred.
    assert 150 <= read(world.client, "XLEN", world.keys.feed(world.partition())) <= 250
    assert all(isinstance(one, MissedError) for one in found.values())
    world.client.unlink(world.keys.feed(world.partition()))
    assert isinstance(feed_of(world).after([early])[early], MissedError)


def test_commits_while_the_clock_of_the_store_is_behind_have_positions(world: World) -> None:
    world.at("working")
    # The store gives the next number within the ms of the newest commit, as long as that is later.
    newest = (2**64 - 1, 2**64 - 3)
    listed: Any = {"record": "r", "machine": "life", "version": 2}
    feed = world.keys.feed(world.partition())
    world.client.xadd(feed, listed, id="{}-{}".format(*newest))
    begin = position_of(text_of(feed_of(world).newest()))
    world.fire("r", "poke", {"value": 1})
    (found,) = page(world, begin)

    assert begin[world.partition()] == newest
    assert (found.version, found.position[world.partition()]) == (3, (newest[0], newest[1] + 1))
    assert position_of(text_of(found.position)) == found.position
    assert page(world, found.position) == []


@pytest.mark.parametrize("text", ["soon", "A" * 1_365, "A" * 1_365 + "B", "é", "A" * 9_000])
def test_what_is_no_position_is_refused(text: str) -> None:
    assert position_of("A" * 1_366) == ((0, 0),) * 64
    with pytest.raises(InvalidPayloadError, match="is no position in the feed of events"):
        position_of(text)


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chance=chances)
@example(chance=None)
def test_a_position_that_others_make_up_is_read_from_or_refused(
    world: World, chance: Random | None
) -> None:
    whole = text_of((Place(2**64 - 1, 2**64 - 1),) * 64)
    text = whole if chance is None else torn(whole.encode(), chance).decode("latin-1")
    try:
        position = position_of(text)
    except InvalidPayloadError:
        return
    assert isinstance(feed_of(world).after([position])[position], MissedError)
