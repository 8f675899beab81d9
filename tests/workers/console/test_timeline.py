"""The log of a record for people: its kinds, what is folded, and the way that the record took."""

from __future__ import annotations

from typing import Any

from interlock.kernel.event import EFFECT_FAILED, Cause, Event, Note
from interlock.kernel.record import RecordId, Version
from interlock.workers.console.timeline import timeline, way_of

PAPER = RecordId("paper")


def event(version: int, source: str, target: str, at_ms: int, **fields: Any) -> Event:
    cause = Cause("ann", "because")
    trigger = "created" if not source else "moved"
    return Event(PAPER, Version(version), trigger, source, target, {}, cause, at_ms=at_ms, **fields)


def note(position: str, kind: str, at_ms: int = 0, **fields: Any) -> Note:
    return Note(PAPER, position, kind, {"token": "secret", "holder": "w1"}, at_ms, **fields)


LOG: list[Event | Note] = [
    event(1, "", "open", 1_000),
    note("1-1", "claim"),
    note("1-2", "adopt"),
    note("1-3", EFFECT_FAILED),
    note("1-4", "usage", deltas={"spent": 5}),
    event(2, "open", "open", 2_000),
    event(3, "open", "done", 6_000, deltas={"spent": 0}),
    event(4, "done", "open", 7_000),
]
NEWEST_FIRST = LOG[::-1]


def test_changes_of_leases_are_folded_and_an_event_says_how_long_its_state_was() -> None:
    rows = timeline(NEWEST_FIRST)

    assert [len(row.lines) for row in rows] == [1, 1, 1, 1, 1, 2, 1]
    assert [row.after_ms for row in rows] == [1_000, 5_000, None, None, None, None, None]
    assert "secret" not in str(rows)


def test_one_kind_of_lines_can_be_chosen() -> None:
    def chosen(kind: str) -> list[Any]:
        rows = timeline(NEWEST_FIRST, kind)
        return [line.get("kind") or line["version"] for row in rows for line in row.lines]

    assert chosen("moves") == [4, 3, 2, 1]
    assert chosen("failures") == [EFFECT_FAILED]
    assert chosen("costs") == ["usage"]
    assert chosen("notes") == ["usage"]
    assert chosen("leases") == ["adopt", "claim"]


def test_the_way_has_each_step_and_how_long_the_record_was_in_each_state() -> None:
    way = way_of(NEWEST_FIRST, 10_000)

    assert way.steps == {("open", "done"): 1, ("done", "open"): 1}
    assert way.visits == {"open": 2, "done": 1}
    assert way.stayed_ms == {"open": 8_000, "done": 1_000}
