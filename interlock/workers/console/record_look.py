"""Reads what the page of a record shows: all of it is the same for viewers with the same rights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.kernel.decision import Explanation
from interlock.kernel.errors import InvalidPayloadError
from interlock.kernel.event import Event, Note
from interlock.kernel.machine import Machine
from interlock.kernel.record import Record, ancestors
from interlock.kernel.shown_stage import shown_legal, shown_stage
from interlock.kernel.store.listings import ListedRecord
from interlock.kernel.table import ORPHANS, PERSON, PRODUCER, STALLS, Terminal, Transition
from interlock.workers.access.roles import Act
from interlock.workers.client import Client
from interlock.workers.engine.card import may_cancel
from interlock.workers.ops.description import summarize
from interlock.workers.ops.page import counters_shown

FAMILY_MAX = 100
CAP = "cap."  # begins the name of a counter that says how much may be used
ACTORS = {
    PERSON: "a person",
    PRODUCER: "a producer",
    ORPHANS: "the sweep for lost work",
    STALLS: "a timer",
}


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """What a record and all below it have used and may use, by the name of what is counted."""

    record_id: str
    used: Mapping[str, int]
    limits: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NextStep:
    """A trigger that may move a record on: where it leads, and who fires it.

    `needs` is what a person has to say with it; `refusal` is why it moves nothing now.
    """

    trigger: str
    targets: tuple[str, ...]
    by: tuple[str, ...]
    needs: tuple[str, ...] = ()
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class RecordLook:
    """A record as it was seen, with the end of its log (the newest line first) and its family.

    `described` is what `summarize` returns of the record.
    """

    record: Record
    described: dict[str, Any]
    now_ms: int
    lines: Sequence[Event | Note]
    above: tuple[Record, ...]
    below: tuple[ListedRecord, ...]
    is_cut: bool
    budgets: tuple[BudgetUse, ...]

    @property
    def used(self) -> dict[str, tuple[str, int]]:
        """What the record has used, as `used_of` returns it."""
        return used_of(self.record.counters)


def look_at(client: Client, record_id: str, lines: int) -> RecordLook:
    """Read a record with up to so many lines of its log. Raises UnknownRecordError."""
    views, record = client.dispatch.views, client.show(record_id)
    above = tuple(views.records(ancestors(record_id), readable_by=client.machines).values())
    below = client.page(id_prefix=f"{record_id}/", limit=FAMILY_MAX, newest=False)
    counters = {one.id: one.counters for one in above} | {record_id: record.counters}
    return RecordLook(
        record=record,
        described=summarize(client, record),
        now_ms=views.now_ms(),
        lines=views.latest([record_id], lines)[record_id],
        above=above,
        # By name a child can come before its cousin's parent: `a/b-1` is before `a/b/c`.
        below=tuple(sorted(below.rows, key=lambda row: row.id.split("/"))),
        is_cut=bool(below.cursor),
        budgets=tuple(budgets_of(counters)),
    )


def used_of(counters: Mapping[str, int]) -> dict[str, tuple[str, int]]:
    """Return what was used, with the name of its counter, by what it is called."""
    shown = counters_shown(counters).items()
    return {label: (name, n) for label, (name, n) in shown if n and not name.startswith(CAP)}


def budgets_of(counters: Mapping[str, Mapping[str, int]]) -> Iterator[BudgetUse]:
    """Yield the use of each budget, given the counters of records by their ids."""
    for record_id, found in counters.items():
        caps = {name.removeprefix(CAP): n for name, n in found.items() if name.startswith(CAP)}
        if caps:
            used = {name: found.get(f"tree.{name}", 0) for name in caps}
            yield BudgetUse(record_id, used, caps)


def steps_of(machine: Machine, state: str, explained: Sequence[Explanation]) -> list[NextStep]:
    """Return what may happen next in a state: first what leads to another one."""
    legal = shown_legal(machine, state)
    steps = [_step(machine, state, one) for one in explained if one.trigger in legal]
    return sorted(steps, key=lambda step: step.targets == (state,))


def _step(machine: Machine, state: str, one: Explanation) -> NextStep:
    rows = machine.rows(state, one.trigger)
    by = _actors(machine, rows)
    if one.target:
        return NextStep(one.trigger, (one.target,), by)
    targets = tuple(dict.fromkeys(str(row.target) for row in rows))
    try:
        machine.admit(one.trigger, machine.taken_by(one.trigger, {"by": PERSON}))
    except InvalidPayloadError as lacks:
        is_for_people = any(name in (PERSON, PRODUCER) for row in rows for name in row.by)
        return NextStep(one.trigger, targets, by, needs=lacks.problems if is_for_people else ())
    return NextStep(one.trigger, targets, by, refusal=one.sentence)


def not_here(machine: Machine, state: str) -> dict[str, list[str]]:
    """Return the triggers that are not taken in a state, each with the states that take it."""
    others: dict[str, list[str]] = {}
    for row in machine.transitions:
        others.setdefault(str(row.trigger), []).append(str(row.source))
    legal = shown_legal(machine, state)
    return {
        trigger: list(dict.fromkeys(states))
        for trigger, states in others.items()
        if trigger not in legal
    }


def _actors(machine: Machine, rows: Sequence[Transition]) -> tuple[str, ...]:
    names = dict.fromkeys(name for row in rows for name in row.by)
    # An effect is fired by the worker that holds it.
    return tuple(
        ACTORS.get(name, f"the worker of {name}" if name in machine.effects else name)
        for name in names
    )


def signs(machine: Machine) -> bool:
    """Whether a trigger of a machine takes the name of who fires it, so that guards may ask it."""
    return any(machine.taken_by(trigger, {"by": ""}) for trigger in machine.triggers)


def verbs_of(found: Mapping[str, Any], machine: Machine, acts: frozenset[Act]) -> Iterator[str]:
    """Yield what a viewer may do to a record now, apart from answering its cards."""
    ended = isinstance(shown_stage(machine, found["state"]), Terminal)
    if Act.OPERATE in acts and not ended:
        yield "resume" if found["paused"] else "pause"
    if Act.OPERATE in acts and found["failures"]:
        yield "retry"
    if Act.SUBMIT in acts and may_cancel(machine, found["state"]):
        yield "cancel"
