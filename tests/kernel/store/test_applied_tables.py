"""The store keeps by which tables its workers work, their outlines and the processes at work."""

from __future__ import annotations

from interlock.kernel.outline import FORM
from interlock.kernel.store import scripts
from interlock.kernel.store.hosts import SILENCE_MS
from interlock.kernel.store.tables import Applied, Process
from tests.kernel.store.kernel_at_a_fixed_time import World

WORKER = Process("worker@north:7", "worker", "1.0", {"refund": "aaa"})


def outline(*states: str) -> dict[str, object]:
    return {"form": FORM, "states": [{"name": state} for state in states]}


def test_only_a_table_that_was_compared_with_the_applied_one_takes_its_place(world: World) -> None:
    first = world.tables.apply("refund", "aaa", expected="", by="worker@north:7 of ann")
    world.later(5)
    late = world.tables.apply("refund", "bbb", expected="", by="worker@south:8")
    other = world.tables.apply("refund", "bbb", expected="aa", by="worker@south:8")
    before = world.tables.applied()
    second = world.tables.apply("refund", "bbb", expected="aaa", by="worker@south:8")

    assert (first, late, other, second) == (True, False, False, True)
    assert before == {"refund": Applied("aaa", "worker@north:7 of ann", world.now - 5)}
    assert world.tables.applied() == {"refund": Applied("bbb", "worker@south:8", world.now)}


def test_an_outline_stays_under_its_digest_and_the_store_knows_the_states_of_all(
    world: World,
) -> None:
    world.tables.keep("refund", "aaa", outline("asking", "done"))
    world.tables.keep("refund", "aaa", outline("else"))
    world.tables.keep("refund", "bbb", outline("approval", "done"))
    world.tables.keep("order", "aaa", outline("open"))

    assert world.tables.outline("refund", "aaa") == outline("asking", "done")
    assert world.tables.outline("refund", "ccc") is None
    world.tables.keep("refund", "ddd", outline("done") | {"form": FORM + 1})
    assert world.tables.outline("refund", "ddd") is None
    assert world.tables.states() == {"refund": {"asking", "approval", "done"}, "order": {"open"}}


def test_a_process_is_known_until_it_ends_or_has_been_silent_for_too_long(world: World) -> None:
    other = Process("api@south:8", "api", "1.0", {})
    world.tables.announce(WORKER)
    world.later(SILENCE_MS - 1)
    world.tables.announce(other)
    both = world.tables.processes()
    world.later(1)
    late = world.tables.processes()
    world.tables.withdraw(other.name)

    assert both == [other, WORKER]
    assert late == [other]
    assert world.tables.processes() == []
    assert world.client.zscore(world.keys.processes_announced(), other.name) is None
    assert world.client.hkeys(world.keys.processes()) == [WORKER.name.encode()]


def test_what_is_damaged_of_a_process_is_left_out(world: World) -> None:
    world.tables.announce(WORKER)
    world.tables.announce(Process("api@south:8", "api", "1.0", {}))
    world.client.hset(world.keys.processes(), "api@south:8", "[1")

    assert world.tables.processes() == [WORKER]


def test_the_table_that_was_replaced_last_is_kept(world: World) -> None:
    replaced = []
    for digest, expected in (("aaa", ""), ("aaa", "aaa"), ("bbb", "aaa"), ("bbb", "bbb")):
        assert world.tables.apply("refund", digest, expected=expected, by="worker@north:7")
        replaced.append(world.tables.replaced())

    assert replaced == [{}, {}, {"refund": "aaa"}, {"refund": "aaa"}]


def test_one_process_at_a_time_moves_records(world: World) -> None:
    def left_ms() -> int:
        return int(scripts.read(world.client, "PTTL", world.keys.moves_lock()))

    lock = world.tables.lock_moves
    assert (lock("one", 50_000), lock("two", 9_000)) == ("one", "one")
    assert 9_000 < left_ms() <= 50_000
    assert (lock("one", 90_000), lock("two", 0)) == ("one", "one")
    assert 50_000 < left_ms() <= 90_000
    assert (lock("one", 0), left_ms()) == ("one", -2)
    assert (lock("two", 9_000), lock("one", 9_000)) == ("two", "two")
