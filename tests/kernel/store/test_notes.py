"""Lines that change no state, the end of a log, and the fold that proves it."""

from __future__ import annotations

import pytest

from interlock.kernel.errors import (
    FencedError,
    IdTakenError,
    InvalidPayloadError,
    OpIdReusedError,
    StoreError,
    UnknownRecordError,
)
from interlock.kernel.store.commands import NoteDraft
from interlock.kernel.store.fold import fold, sums
from interlock.kernel.store.leases import Lease
from tests.kernel.store.contents import stored
from tests.kernel.store.kernel_at_a_fixed_time import LIMITS, World, token
from tests.kernel.store.tables import LIFE


def test_a_note_moves_no_version_and_makes_no_decision_stale(world: World) -> None:
    record = world.at("asking")
    world.note(kind="progress")

    assert world.record().version == record.version
    assert world.notes()[-1].at_ms == world.now
    assert world.fire(record, "approve").version == record.version + 1


def test_a_notes_deltas_count_once_per_op_id(world: World) -> None:
    world.at("working")
    words = [world.note(deltas={"spent": 5}, op="bill").status for _ in range(3)]

    assert words == ["noted", "replayed", "replayed"]
    assert world.counter("spent") == 5
    assert [note.kind for note in world.notes()].count("cost") == 1
    with pytest.raises(OpIdReusedError):
        world.note(deltas={"spent": 6}, op="bill")


def test_deltas_without_an_op_id_are_refused(world: World) -> None:
    world.at("working")

    with pytest.raises(InvalidPayloadError):
        world.note(deltas={"spent": 5})


def test_a_note_under_a_warrant_that_is_void_is_fenced(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.note(warrant=token(lease))
    world.fire("r", "cancel")
    before = world.dump()

    with pytest.raises(FencedError):
        world.note(warrant=token(lease))
    assert world.dump() == before


def test_notes_are_allowed_after_the_end(world: World) -> None:
    world.at("failed")
    world.note(kind="late", deltas={"spent": 9}, op="late")

    assert world.counter("spent") == 9
    assert world.record().state == "failed"
    assert world.notes()[-1].position.startswith("3-")


def test_an_effect_owed_by_a_note_is_owed_once(world: World) -> None:
    world.at("asking")
    world.settle(world.claim("notify"))
    world.later(20_000)
    polled = world.poll_timers()["reminder"]
    for _ in range(2):
        op = f"due:{polled.due_at}"
        world.lifecycle.remind(world.record(), "reminder", world.due(polled), polled.fired, op)

    assert world.state_of("notify") == "owed"
    timer = world.timer("reminder")
    assert timer is not None
    assert (timer.due_at, timer.fired) == (world.now + 40_000, 1)
    with pytest.raises(InvalidPayloadError):
        world.lifecycle.note(world.record(), NoteDraft("x", {}, owes=(LIFE.effects["notify"],)))


def test_a_note_about_nobody_is_refused(world: World) -> None:
    record = world.at("working")
    world.client.delete(world.keys.record("r"))

    with pytest.raises(UnknownRecordError):
        world.lifecycle.note(record, NoteDraft("x", {}))


def test_the_log_folds_to_the_record(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.fire("r", "poke", {"value": [1, {"ü": "\u2028"}]}, deltas={"spent": 3})
    world.fire("r", "go_on", warrant=token(lease))
    world.fire("r", "done", {"value": 2}, warrant=token(lease), deltas={"spent": 4})
    world.note(deltas={"spent": 5, "tokens": 1}, op="n")
    lines = world.views.history("r")
    folded, record = fold(LIFE, lines), world.record()

    assert (folded.state, folded.version, folded.data) == (
        record.state,
        record.version,
        record.data,
    )
    assert folded.entered == record.entered
    assert [event.version for event in world.events()] == [1, 2, 3, 4, 5]
    assert sums(lines) == {"spent": 12, "tokens": 1}
    assert world.counter("spent") == 12


def test_a_log_that_was_tampered_with_does_not_fold(world: World) -> None:
    world.at("working")
    world.fire("r", "poke", {"value": 1})
    events = world.events()

    for broken in (events[1:], events[:1] + events[2:], []):
        with pytest.raises(StoreError):
            fold(LIFE, broken)


def pruned(world: World, of: str = "r", age_ms: int = 0) -> str:
    return world.indexes.prune(world.record(of), ["children:2"], age_ms=age_ms)


def test_a_pruned_record_leaves_only_its_tombstone_and_the_partitions_own(world: World) -> None:
    world.create("r", {"value": 1})
    world.fire("r", "cancel")
    assert pruned(world) == "pruned"
    left = [key.decode().rpartition("}:")[2] for key in world.dump()]

    assert sorted(left) == ["feed", "x:r"]
    with pytest.raises(UnknownRecordError):
        world.fire("r", "begin")


def test_the_id_of_a_pruned_record_stays_taken(world: World) -> None:
    world.create("r", {"value": 1})
    world.fire("r", "cancel")
    pruned(world)

    assert world.create("r", {"value": 1}).replayed
    with pytest.raises(IdTakenError, match="id_taken"):
        world.create("r", {"value": 2})


def test_what_lives_is_owed_or_ended_just_now_is_not_pruned(world: World) -> None:
    world.at("asking")
    assert pruned(world) == "early"
    world.fire("r", "approve")
    assert pruned(world, age_ms=1_000) == "early"
    world.later(1_000)
    assert pruned(world, age_ms=1_000) == "busy"
    for entry in world.record().entries:
        lease = world.ask(entry.key("r"))
        assert isinstance(lease, Lease)
        world.settle(lease)
    ended = world.indexes.ended(world.partition(), world.now, 10)
    assert ended == ["r"]

    assert pruned(world, age_ms=1_000) == "pruned"
    assert world.indexes.ended(world.partition(), world.now, 10) == []


def test_a_tombstone_stays_for_its_time_and_not_for_ever(world: World) -> None:
    world.create("r")
    world.fire("r", "cancel")
    began = world.views.now_ms()
    pruned(world)
    left: object = world.client.pttl(world.keys.tombstone("r"))

    assert isinstance(left, int)
    assert left <= LIMITS.tombstone_ms
    assert world.views.now_ms() + left >= began + LIMITS.tombstone_ms


def test_a_pruned_record_leaves_no_list_of_its_children(world: World) -> None:
    parent = world.split("p")
    world.create_child("p", "a")
    world.settle(parent)
    for of in ("p/a", "p"):
        world.fire(of, "cancel")
        for entry in world.record(of).entries:
            world.settle(world.claim_key(entry.key(of)))
        assert pruned(world, of) == "pruned"

    assert not [key for key in stored(world) if key.startswith(("children:p", "count:p"))]
