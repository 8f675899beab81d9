"""A table that could lose its children, or never learn of their end, is refused at import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from interlock.kernel.errors import MachineDefectError
from interlock.kernel.payload import RecordEnd, Shape
from interlock.kernel.table import AwaitedEnd, Mode, Stage, Transition, Waiting
from tests.kernel.store.machines_families import ORDER, PART, Q, S, T

PARTS, CHECKS = ORDER.children


class Closed(Shape):
    reason: str
    account: str


class Ended(Shape):
    tally: dict[str, int]
    account: str


def without(*cells: tuple[str, str], **fields: Any) -> Sequence[Transition]:
    """Return the rows without those of these cells, or with these fields instead."""
    rows = [(row, (str(row.source), str(row.trigger)) in cells) for row in ORDER.transitions]
    kept = [replace(row, **fields) if named else row for row, named in rows]
    return tuple(row for row, (_, named) in zip(kept, rows, strict=True) if fields or not named)


def awaiting(trigger: T) -> Sequence[Stage]:
    """Return the stages of which one waits for the end of another record as well."""
    awaited = AwaitedEnd(str, trigger)
    return tuple(
        replace(stage, awaited=awaited) if isinstance(stage, Waiting) else stage
        for stage in ORDER.stages
    )


CANCEL, END, LOST = (S.PARTING, T.CANCEL), (S.PARTING, T.ALL_IN), (S.PARTING, T.LOST)
DEFECTS: dict[str, tuple[dict[str, Any], str]] = {
    "no model for the tally": (
        {"payloads": {T.LOST: ORDER.payloads[T.LOST], T.CHECKED: ORDER.payloads[T.CHECKED]}},
        "the end of parts fires all_in with tally, which its payload does not take",
    ),
    "no model for the loss": (
        {"payloads": {**ORDER.payloads, T.LOST: ORDER.payloads[T.ALL_IN]}},
        "the loss of one of parts fires lost with child, state, which its payload does not take",
    ),
    "more than the tally": (
        {"payloads": {**ORDER.payloads, T.ALL_IN: Ended}},
        "the end of parts fires all_in without account, which its payload needs",
    ),
    "an end without cascade": (
        {"transitions": without(CANCEL, effect=None)},
        "parting/cancel ends the record while its parts are at work, and owes no cascade",
    ),
    "an early end without cascade": (
        {"transitions": without(LOST, effect=None)},
        "parting/lost ends the record while its parts are at work, and owes no cascade",
    ),
    "no row for the end": (
        {"transitions": without(END)},
        "parting has no unguarded last row for all_in that cascade may fire",
    ),
    "a guarded row for the end": (
        {"transitions": without(END, guard=bool, refusal="no")},
        "parting has no unguarded last row for all_in that cascade may fire",
    ),
    "an end that only a person fires": (
        {"transitions": without(END, by=("person",))},
        "parting has no unguarded last row for all_in that cascade may fire",
    ),
    "no row for a loss": (
        {"transitions": without(LOST, by=("person",))},
        "parting has no row for lost that cascade may fire",
    ),
    "a kind that nothing spawns": (
        {"children": (PARTS, CHECKS, replace(PARTS, countdown="bolts"))},
        "no row spawns bolts",
    ),
    "a row that spawns no kind": (
        {"children": (CHECKS,)},
        "a row spawns parts, and the machine names no children of that countdown",
    ),
    "a kind that is named twice": (
        {"children": (PARTS, CHECKS, PARTS)},
        "parts is counted twice",
    ),
    "an end of another record that its row does not take": (
        {"stages": awaiting(T.LOST)},
        "the end that parting waits for fires lost with record, is_success, which its payload does",
    ),
    "an end of another record that no effect may fire": (
        {"stages": awaiting(T.CANCEL), "payloads": {**ORDER.payloads, T.CANCEL: RecordEnd}},
        "parting has no row for cancel that awaiting may fire (the end that parting waits for)",
    ),
    "a close that needs more than a reason": (
        {"payloads": {**ORDER.payloads, T.CANCEL: Closed}},
        "the end of a parent fires cancel without account, which its payload needs",
    ),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_table_that_could_fail_its_family_is_refused(name: str) -> None:
    fields, problem = DEFECTS[name]
    with pytest.raises(MachineDefectError) as refusal:
        replace(ORDER, **fields)
    assert problem in str(refusal.value)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"by": ("make",)}, "making/close closes a child, and cascade may not fire it"),
        (
            {"target": Q.MAKING, "mode": Mode.INTERNAL},
            "making/close closes a child, and stays in its state",
        ),
    ],
)
def test_a_row_that_closes_a_child_does_so(fields: dict[str, Any], problem: str) -> None:
    rows = [
        replace(row, **fields) if (row.source, row.trigger) == (Q.MAKING, T.CLOSE) else row
        for row in PART.transitions
    ]
    with pytest.raises(MachineDefectError) as refusal:
        replace(PART, transitions=tuple(rows))
    assert problem in str(refusal.value)
