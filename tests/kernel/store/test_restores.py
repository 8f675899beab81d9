"""A family that a store lost comes back from its logs, whole and once, and over nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.kernel.errors import (
    InvalidIdError,
    KernelError,
    NewerSchemaError,
    UnknownMachineError,
)
from interlock.kernel.event import Event, Note
from interlock.kernel.record import partition_of, root_of
from interlock.kernel.restoration import (
    HOLDER,
    LoggedRecord,
    Restoration,
    RestoreRefusedError,
)
from interlock.kernel.store.commands import Commit
from interlock.kernel.store.repairs import Repairs
from interlock.kernel.store.scripts import read
from interlock.kernel.store.titles import names_of
from tests.kernel.store.contents import contents, stored
from tests.kernel.store.invariants import found_by
from tests.kernel.store.kernel_at_a_fixed_time import World
from tests.kernel.store.machines_runs import (
    CODON,
    DATA,
    EVENTS,
    RUN,
    begun,
    complete,
    move,
    run,
    tell,
)

IDS = (DATA, RUN, CODON)
COST = 450


def restoration(world: World) -> Restoration:
    return Restoration(world.client, world.keys, world.lifecycle.machines, name="run")


def repairs(world: World) -> Repairs:
    return Repairs(world.client, world.keys)


def kept(world: World, of: str) -> LoggedRecord:
    record = world.record(of)
    birth = world.views.creation_digests([of])[of]
    return LoggedRecord(of, record.machine, birth, tuple(world.views.history(of)))


def commits(world: World) -> list[Commit]:
    return [(at, str(of), version) for at, of, version in world.views.family_log(DATA, "0-0", 100)]


def lost(world: World) -> list[LoggedRecord]:
    """Lead a run to its end, and lose all of it; return what somebody kept."""
    begun(world)
    tell(world, "CostsUpdated", cost=COST)
    move(world, "completed")
    complete(world)
    found = [kept(world, of) for of in IDS]
    wipe(world)
    return found


def without(lines: tuple[Event | Note, ...], trigger: str) -> tuple[Event | Note, ...]:
    return tuple(one for one in lines if getattr(one, "trigger", "") != trigger)


def wipe(world: World) -> None:
    for key in world.dump():
        read(world.client, "DEL", key)


def refused(world: World, one: LoggedRecord, why: str) -> None:
    """See that a record does not come back, and that nothing changed."""
    before = contents(world)
    with pytest.raises(KernelError, match=why):
        restoration(world).restore(one)
    assert contents(world) == before


def test_a_family_comes_back_with_its_logs_its_sums_and_its_places(world: World) -> None:
    found = lost(world)

    became = [restoration(world).restore(one) for one in found]
    restoration(world).finish(DATA)

    assert became == [True] * 3
    assert [kept(world, of) for of in IDS] == found
    for record in map(world.record, IDS):
        created = world.keys.creation_index(partition_of(DATA), record.machine)
        assert read(world.client, "ZSCORE", created, record.id) == record.created_ms
        assert found_by(world, record.id) == sorted(names_of(record))
    for of in IDS:
        assert world.counter("tree.cost", of) == COST
    assert world.counter("cost", CODON) == COST
    assert [world.record(of).state for of in IDS] == ["open", "completed", "completed"]
    codon = world.record(CODON)
    assert (codon.entered, codon.version) == (codon.version, len(world.events(CODON)))
    for of in IDS:
        record, machine = world.record(of), world.lifecycle.machine(world.record(of).machine)
        assert of in [*world.views.ids(machine, root=root_of(of), states=[record.state])]
    ended = world.indexes.ended(partition_of(DATA), world.now + 1, 10)
    assert set(ended) == {RUN, CODON}, "they are forgotten in their time, and the root is not"
    assert world.views.holds(DATA) == {}


def test_what_is_open_again_is_looked_after_again(world: World) -> None:
    for one in lost(world):
        restoration(world).restore(one)

    assert world.timer("recheck", DATA) is not None
    world.later(3_600_001)
    assert set(world.poll_timers(DATA)) == {"recheck"}


def test_a_repeat_changes_nothing(world: World) -> None:
    found = lost(world)
    for one in found:
        restoration(world).restore(one)
    before = contents(world)

    assert [restoration(world).restore(one) for one in found] == [False] * 3
    assert contents(world) == before


def test_another_record_of_the_same_id_is_never_replaced(world: World) -> None:
    found = lost(world)
    for one in found:
        restoration(world).restore(one)

    refused(world, replace(found[2], lines=found[2].lines[:1]), "at work")
    refused(world, replace(found[0], creation_digest="0" * 16), "another record has its id")
    refused(world, replace(found[1], creation_digest="0" * 16), "another record has its id")
    read(world.client, "HSET", world.keys.record(RUN), "data", "{}")
    refused(world, found[1], "another record has its id")


def test_a_root_that_took_mail_meanwhile_is_still_the_same(world: World) -> None:
    found = lost(world)
    restoration(world).restore(found[0])
    world.fire(DATA, "event_read", {"upto": "7-0"}, warrant=EVENTS)

    assert not restoration(world).restore(found[0])
    restoration(world).restore(found[1])
    restoration(world).finish(DATA)

    refused(world, found[0], "another record has its id")


def test_nobody_begins_anything_until_all_is_back(world: World) -> None:
    found = lost(world)
    restoration(world).restore(found[0])
    assert world.views.holds(DATA) == {"run": f"{DATA}/{HOLDER}"}
    with pytest.raises(KernelError, match=HOLDER):
        run(world, "data/2")

    restoration(world).finish(DATA)

    run(world, "data/2")


def test_nothing_comes_back_but_under_its_root_and_its_run(world: World) -> None:
    found = lost(world)
    refused(world, found[1], "is not being restored")
    restoration(world).restore(found[0])
    refused(world, found[2], "its parent is not restored yet")
    restoration(world).finish(DATA)
    refused(world, found[1], "is not being restored")


def test_a_family_of_which_somebody_is_at_work_is_let_be(world: World) -> None:
    found = lost(world)
    read(world.client, "HSET", world.keys.holds(DATA), "codon", "data/9/9")
    refused(world, found[0], "at work in this store")


def test_what_was_forgotten_on_purpose_stays_forgotten(world: World) -> None:
    found = lost(world)
    read(world.client, "SET", world.keys.tombstone(DATA), "x")
    refused(world, found[0], "was pruned from this store")


def test_a_log_that_is_left_of_a_record_is_not_written_over(world: World) -> None:
    found = lost(world)
    restoration(world).restore(found[0])
    read(world.client, "XADD", world.keys.log(RUN), "5-0", "a", "b")
    refused(world, found[1], "without its record")


def test_counters_that_are_left_of_a_record_are_not_counted_twice(world: World) -> None:
    found = lost(world)
    restoration(world).restore(found[0])
    read(world.client, "HSET", world.keys.counters(RUN), "tree.cost", 1)
    refused(world, found[1], "without its record")


def test_only_what_follows_from_its_log_comes_back(world: World) -> None:
    found = lost(world)
    root, codon = found[0], found[2]
    restoration(world).restore(root)
    restoration(world).restore(found[1])
    lines = codon.lines
    for bad, why in (
        ((), "does not fold"),
        (lines[1:], "does not begin with its creation"),
        (without(lines, "initialize"), "does not follow"),
        ((*lines, lines[-1]), "comes after"),
        ((*lines, Note(lines[0].record_id, "x", "k", {}, 1)), "no position|cannot be followed"),
        ((replace(lines[0], record_id=world.record(RUN).id), *lines[1:]), f"belongs to {RUN}"),
    ):
        refused(world, replace(codon, lines=bad), why)
    first = next(line for line in lines if line.deltas)
    wrong = tuple(replace(one, deltas={"cost": 1}) if one is first else one for one in lines)
    refused(world, replace(codon, lines=wrong), "does not add up")
    refused(world, replace(codon, creation_digest="?"), "no digest")
    with pytest.raises(NewerSchemaError):
        restoration(world).restore(replace(codon, schema=99))
    with pytest.raises(UnknownMachineError):
        restoration(world).restore(replace(codon, machine="tale"))
    for of in ("data/x", "data", "data/1/1/1"):
        with pytest.raises(InvalidIdError):
            restoration(world).restore(replace(found[1], id=of))


def test_what_is_at_work_does_not_come_back(world: World) -> None:
    begun(world)
    found = [kept(world, of) for of in IDS]
    wipe(world)
    restoration(world).restore(found[0])
    refused(world, found[1], "a record at work cannot be")


def test_what_is_posted_afterwards_comes_after_what_was_read(world: World) -> None:
    begun(world)
    ahead = f"{world.now + 10**9}-0"
    world.fire(DATA, "event_read", {"upto": ahead}, warrant=EVENTS)
    one = kept(world, DATA)
    wipe(world)
    restoration(world).restore(one)
    assert world.lifecycle.inboxes.after(DATA, "0-0", 10) == []

    event = {"type": "RunCompleted", "data": {"run_id": "1"}}
    world.lifecycle.post(DATA, {"sender": "s", "event": event}, "op")

    assert len(world.lifecycle.inboxes.after(DATA, ahead, 10)) == 1


def test_mail_that_is_still_there_stays_when_its_record_comes_back(world: World) -> None:
    begun(world)
    world.fire(DATA, "event_read", {"upto": "1-0"}, warrant=EVENTS)
    event = {"type": "RunCompleted", "data": {"run_id": "1"}}
    world.lifecycle.post(DATA, {"sender": "s", "event": event}, "op")
    one, inbox = kept(world, DATA), world.keys.inbox(DATA).encode()
    for key in set(world.dump()) - {inbox}:
        read(world.client, "DEL", key)

    restoration(world).restore(one)

    assert len(world.lifecycle.inboxes.after(DATA, "0-0", 10)) == 1


def test_the_order_of_commits_comes_back_once(world: World) -> None:
    begun(world)
    move(world, "failed")
    complete(world)
    one = kept(world, DATA)
    # Two of each moment, whatever the clock said.
    came = [(of, version) for _, of, version in commits(world)]
    listed = [(f"{1_000 + n // 2}-{n % 2}", of, version) for n, (of, version) in enumerate(came)]
    wipe(world)
    store = restoration(world)
    with pytest.raises(RestoreRefusedError, match="is not being restored"):
        store.restore_family_log(DATA, listed)
    store.restore(one)

    store.restore_family_log(DATA, listed[:3])
    store.restore_family_log(DATA, listed)
    store.restore_family_log(DATA, listed)

    assert commits(world) == listed
    with pytest.raises(RestoreRefusedError, match="no commit of its family"):
        store.restore_family_log(DATA, [("9-9", "other/1", 1)])


def test_sums_are_set_only_where_nothing_moved(world: World) -> None:
    begun(world)
    before = repairs(world).position(DATA)
    tell(world, "CostsUpdated", cost=COST)
    right = {DATA: {"tree.cost": 3}, RUN: {"tree.cost": 4}}
    dump = contents(world)

    assert repairs(world).recount(DATA, right, position=before, why={}) == "moved"
    assert repairs(world).recount("else", right, position="0-0", why={}) == "missing"
    assert contents(world) == dump

    at = repairs(world).position(DATA)
    assert repairs(world).recount(DATA, right, position=at, why={"who": "me"}) == "recounted"
    assert (world.counter("tree.cost", DATA), world.counter("tree.cost", RUN)) == (3, 4)
    assert world.counter("tree.cost", CODON) == COST
    assert [(note.kind, note.detail) for note in world.notes(DATA)] == [
        ("recounted", {"who": "me"})
    ]


def test_only_what_nobody_holds_any_more_is_freed(world: World) -> None:
    begun(world)
    held = world.views.holds(DATA)
    assert repairs(world).free(DATA, "run", RUN) == "lives"
    assert repairs(world).free(DATA, "run", "data/2") == "moved"
    assert world.views.holds(DATA) == held

    move(world, "completed")
    complete(world)
    for holder in (RUN, "data/2"):
        read(world.client, "HSET", world.keys.holds(DATA), "run", holder)
        assert repairs(world).free(DATA, "run", holder) == "freed", "it has ended, or never was"
    assert world.views.holds(DATA) == {}


def test_a_restored_record_is_written_as_it_was_but_for_what_is_over(world: World) -> None:
    """Its effects and the tokens of their holders are over; its timers begin anew."""
    begun(world)
    world.later(3)
    move(world, "completed")
    complete(world)
    world.later(4)
    before = stored(world)
    found = [replace(kept(world, of), priority=3, schema=2) for of in IDS]
    every = world.lifecycle.machines
    world.lifecycle.machines = {name: replace(one, schema=2) for name, one in every.items()}
    wipe(world)
    for one in found:
        restoration(world).restore(one)
    after = stored(world)

    for of in IDS:
        was = {name: one for name, one in before[f"r:{of}"].items() if name[1] != ":"}
        now = {name: one for name, one in after[f"r:{of}"].items() if name[1] != ":"}
        assert now == was | {"last_token": "0", "priority": "3", "schema": "2"}
    indexes = {name for name in before if name[:3] == "in:"} | {"ended"}
    assert {name: after[name] for name in indexes} == {name: before[name] for name in indexes}
    assert after["timers"] == [[f"{DATA}:recheck", world.now + 3_600_000]]
    assert after[f"r:{DATA}"]["t:recheck"] == f"{world.now + 3_600_000} 1 - 0"
