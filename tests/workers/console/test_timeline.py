"""The log of a record for people: its kinds, what is folded, and the way that the record took."""

from __future__ import annotations

from typing import Any

from interlock.kernel.event import EFFECT_FAILED, Cause, Event, Note
from interlock.kernel.record import RecordId, Version
from interlock.workers.console.timeline import log_steps, timeline, way_of

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


def test_each_step_has_its_notes_and_how_long_it_took_the_oldest_first() -> None:
    steps = log_steps(timeline(NEWEST_FIRST))

    assert [step.took_ms for step in steps] == [1_000, 4_000, 1_000, None]
    assert [[one.lines[0]["kind"] for one in step.notes] for step in steps] == [
        [EFFECT_FAILED, "usage"],
        [],
        [],
        [],
    ]
    assert [line["kind"] for row in steps[0].routine for line in row.lines] == ["adopt", "claim"]
    assert [step.day for step in steps] == ["1970-01-01", "", "", ""]


def test_one_kind_of_lines_can_be_chosen_also_where_no_line_is_of_it() -> None:
    def chosen(kind: str, lines: list[Event | Note] = NEWEST_FIRST) -> list[Any]:
        return [
            line.get("kind") or line["version"]
            for step in log_steps(timeline(lines), kind=kind)
            for row in (step.event, *step.notes, *step.routine)
            if row
            for line in row.lines
        ]

    assert chosen("moves") == [1, 2, 3, 4]
    assert chosen("failures") == [EFFECT_FAILED]
    assert chosen("costs") == ["usage"]
    assert chosen("notes") == ["usage"]
    assert chosen("leases") == ["adopt", "claim"]
    assert chosen("costs", NEWEST_FIRST[:3]) == []


def test_the_way_has_each_step_and_how_long_the_record_was_in_each_state() -> None:
    way = way_of(NEWEST_FIRST, 10_000)

    assert way.steps == {("open", "done"): 1, ("done", "open"): 1}
    assert way.visits == {"open": 2, "done": 1}
    assert way.stayed_ms == {"open": 8_000, "done": 1_000}
