"""What a script writes, key by key: each field, each place in an index, each line of a log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from interlock.kernel.store.commands import InitialLease
from tests.kernel.store.contents import stored
from tests.kernel.store.kernel_at_a_fixed_time import START_US, World, token
from tests.kernel.store.tables import EXPIRY_MS, GRACE_MS, LEASE_MS, LIFE, REMIND_MS, STAGES

NOW = START_US // 1_000
LEASED = InitialLease("mine", "here", LEASE_MS)


def fields(world: World, of: str = "r") -> dict[str, str]:
    """Return the fields of a record, without those of its effects and timers."""
    found: dict[str, str] = stored(world)[f"r:{of}"]
    return {name: value for name, value in found.items() if name[1] != ":"}


def lines(world: World, of: str = "r") -> list[tuple[str, str, int]]:
    """Return where each line of a log is, the kind of a note or 'event', and its time."""
    log: list[Any] = stored(world)[f"log:{of}"]
    return [(position, line.get("note", "event"), int(line["at"])) for position, line in log]


def test_a_new_record_is_written_whole(world: World) -> None:
    world.lifecycle.machines = {"life": replace(LIFE, schema=2)}
    world.create("r", {"value": 1}, priority=3)
    digest = world.views.creation_digests(["r"])["r"]

    assert fields(world) == {
        "machine": "life",
        "state": "idle",
        "version": "1",
        "entered": "1",
        "schema": "2",
        "since": str(NOW),
        "created": str(NOW),
        "priority": "3",
        "digest": digest,
        "last_token": "0",
        "countdown": "",
        "waits": "",
        "title": "Life: 1",
        "data": '{"value":1}',
    }
    assert lines(world) == [("1-0", "event", NOW)]
    found = stored(world)
    ((_, committed),) = found.pop("feed")
    assert committed == {"record": "r", "machine": "life", "version": "1"}
    assert {key: value for key, value in found.items() if key[-2:] != ":r"} == {
        "in:life:idle": [["r", NOW]],
        "created:life": [["r", NOW]],
        "search": [["1 r", 0], ["=r", 0], ["life r", 0]],
        "timers": [["r:kickoff", NOW + 5_000]],
    }
    assert stored(world)["r:r"]["t:kickoff"] == f"{NOW + 5_000} 1 - 0"


def test_a_record_may_wait_for_a_person_from_its_creation_on(world: World) -> None:
    asking = replace(STAGES[0], affordances=(("begin", "begin"),))
    machine = replace(LIFE, stages=(asking, *STAGES[1:]))
    world.lifecycle.machines = {"life": machine}
    world.create("r")

    assert fields(world)["waits"] == "1"
    assert stored(world)["waits"] == [["r", NOW]]


def test_a_new_child_is_a_member_and_a_child_of_its_parent(world: World) -> None:
    world.split()
    world.create_child("r", "a")

    assert sorted(stored(world)["count:r:children:2"]) == ["*", "r/a"]
    assert stored(world)["children:r"] == ["r/a"]
    assert fields(world, "r/a")["countdown"] == "children:2"


def test_a_transition_is_written_whole(world: World) -> None:
    world.create("r", {"value": 1}, priority=3)
    world.fire("r", "begin", op="one")
    lease = world.claim()
    before = fields(world)
    world.later(7)
    world.fire("r", "done", {"value": 7}, op="two", warrant=token(lease), deltas={"spent": 3})
    now = NOW + 7

    assert fields(world) == before | {
        "state": "asking",
        "version": "3",
        "entered": "3",
        "since": str(now),
        "waits": "1",
        "title": "Life: 7",
        "data": '{"value":7}',
    }
    assert lines(world)[-2:] == [("2-1", "claim", NOW), ("3-0", "event", now)]
    key = world.key("notify")
    found = stored(world)
    assert {name: found[name] for name in ("in:life:asking", "waits", "effects", "timers")} == {
        "in:life:asking": [["r", now]],
        "waits": [["r", now]],
        "effects": [[key, now + 1_000]],
        "timers": [["r:reminder", now + REMIND_MS], ["r:expiry", now + EXPIRY_MS]],
    }
    assert "in:life:working" not in found
    assert found["r:r"]["t:expiry"] == f"{now + EXPIRY_MS} 3 - 0"
    assert found["n:r"] == {"spent": "3", "tree.spent": "3"}
    assert found["op-times:r"] == [["one", NOW], ["two", now]]
    assert found["ops:r"]["two"].split()[1:] == ["3", str(now)]


def test_an_end_is_written_whole(world: World) -> None:
    world.at("working")
    before = fields(world)
    world.later(7)
    world.fire("r", "cancel")
    now = NOW + 7

    assert fields(world) == before | {
        "state": "failed",
        "version": "3",
        "entered": "3",
        "since": str(now),
        "ended": "1",
        "paused": "",
    }
    found = stored(world)
    assert (found["ended"], found["in:life:failed"]) == ([["r", now]], [["r", now]])
    assert not {"timers", "waits", "effects", "in:life:working"} & set(found)


def test_an_internal_row_changes_the_data_and_the_version_and_no_place(world: World) -> None:
    world.at("working")
    before = stored(world)
    world.later(7)
    world.fire("r", "poke", {"value": 7}, op="one")
    found = stored(world)

    assert found["r:r"] == before["r:r"] | {
        "version": "3",
        "title": "Life: 7",
        "data": '{"value":7}',
        f"e:{world.entry().suffix}": found["r:r"][f"e:{world.entry().suffix}"],
    }
    assert world.entry().posted == 1
    same = {"in:life:working", "timers", "effects"}
    assert {name: found[name] for name in same} == {name: before[name] for name in same}
    assert set(found) == set(before)


def test_an_effect_that_is_leased_at_its_creation_is_written_as_a_claimed_one(
    world: World,
) -> None:
    world.create("b/s", machine="session", initial_lease=LEASED)
    entry = world.entry("handle", "b/s")

    assert (entry.state, entry.token) == ("leased", f"{START_US}-mine")
    assert (entry.holder, entry.attempts) == ("here", 1)
    assert (entry.lease_until, entry.kill_by) == (NOW + LEASE_MS, NOW + LEASE_MS + GRACE_MS)
    assert stored(world)["effects"] == [[entry.key("b/s"), NOW + LEASE_MS]]
    assert lines(world, "b/s") == [("1-0", "event", NOW), ("1-1", "claim", NOW)]
