"""The invariants of every record, which must hold after every step."""

from __future__ import annotations

from typing import Any

from interlock.kernel.effect import Kind
from interlock.kernel.event import Event
from interlock.kernel.record import Entry, Record, partition_of
from interlock.kernel.store import scripts
from interlock.kernel.store.fold import fold, sums
from interlock.kernel.store.saved_results import SavedResults
from interlock.kernel.store.titles import names_of
from interlock.kernel.table import Active, Terminal
from tests.kernel.store.kernel_at_a_fixed_time import World
from tests.kernel.store.tables import LIFE


def holds(world: World, of: str) -> Record:
    """Assert every promise about one record, and return it."""
    record = world.record(of)
    folds(world, record)
    stands_once(world, record)
    aside = any(entry.state == "quarantined" for entry in record.entries)
    assert aside == any(timer.name == "quarantine" for timer in record.timers)
    person = LIFE.stage(record.state).waits_for_person(record.data)
    assert world.waits(of) == (aside or person), "people are asked where they are needed"
    assert SavedResults(world.client, world.keys).stale(record) == []
    for entry in record.entries:
        indexed(world, record, entry)
    stage = LIFE.stage(record.state)
    if isinstance(stage, Terminal):
        ended(record)
    elif isinstance(stage, Active):
        at_work(world, record)
    elif stage.waits_for_person(record.data):
        assert world.waits(of), f"{of} waits for a person whom nobody asks"
        assert ticks(world, record, "reminder")
    elif record.state == "grouping":
        counts_down(world, record)
    else:
        assert ticks(world, record, "kickoff")
    return record


def folds(world: World, record: Record) -> None:
    lines = world.views.history(record.id)
    folded = fold(LIFE, lines)
    versions = [line.version for line in lines if isinstance(line, Event)]
    assert versions == [*range(1, record.version + 1)], "versions are contiguous"
    assert (folded.state, folded.version, folded.entered, folded.data) == (
        record.state,
        record.version,
        record.entered,
        record.data,
    )
    totals = sums(lines)
    assert {name: record.counters.get(name, 0) for name in totals} == totals


def stands_once(world: World, record: Record) -> None:
    states = [str(stage.state) for stage in LIFE.stages]
    indexes = [world.keys.state_index(record.id, "life", state) for state in states]
    scores = scripts.read_all(world.client, [("ZSCORE", key, record.id) for key in indexes])
    assert [state for state, score in zip(states, scores, strict=True) if score is not None] == [
        record.state
    ]
    partition = partition_of(record.id)
    created = world.keys.creation_index(partition, "life")
    assert scripts.read(world.client, "ZSCORE", created, record.id) == record.created_ms
    assert found_by(world, record.id) == sorted(names_of(record))


def found_by(world: World, of: str) -> list[str]:
    """Return the names under which the search index has a record."""
    key = world.keys.search_index(partition_of(of))
    names = [name.decode() for name in scripts.read(world.client, "ZRANGE", key, 0, -1)]
    return [name for name in names if name.endswith((f" {of}", f"={of}"))]


def indexed(world: World, record: Record, entry: Entry) -> None:
    score = world.score(entry.key(record.id))
    if entry.state == "quarantined":
        assert score is None
        assert world.waits(record.id)
        assert ticks(world, record, "quarantine")
    elif entry.state == "owed" and record.paused:
        assert score is None
    else:
        assert score is not None, f"no sweep will ever poll {entry}"


def ended(record: Record) -> None:
    assert not record.paused
    assert {timer.name for timer in record.timers} <= {"quarantine"}
    left = [entry for entry in record.entries if entry.kind is Kind.STATE]
    assert [entry for entry in left if entry.state != "draining"] == []


def at_work(world: World, record: Record) -> None:
    live = [
        entry for entry in record.entries if entry.kind is Kind.STATE and entry.state != "draining"
    ]
    assert len(live) == 1, f"{record.id} is at work on {live}"
    assert ticks(world, record, "stall")


def counts_down(world: World, record: Record) -> None:
    counted = world.counted(record.id, record.entered)
    advances = [entry for entry in record.entries if entry.kind is Kind.ADVANCE]
    assert counted or advances, f"{record.id} waits for nobody"
    assert not (counted and advances), "an advance is owed although somebody is counted"
    assert len(advances) < 2
    spawning = any(entry.kind is Kind.SPAWN for entry in record.entries)
    assert ("*" in counted) == spawning, "the placeholder is the spawning's"
    assert ticks(world, record, "recheck")


def ticks(world: World, record: Record, name: str) -> bool:
    """Whether a timer exists, and is in the index unless its record is paused."""
    timer = next((timer for timer in record.timers if timer.name == name), None)
    if timer is None:
        return False
    key = world.keys.timers(partition_of(record.id))
    score: Any = scripts.read(world.client, "ZSCORE", key, f"{record.id}:{name}")
    return (score is None) == record.paused == (timer.left_ms is not None)
