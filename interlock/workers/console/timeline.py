"""Orders the log of a record for people: kinds to choose from, times in states, folded leases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any

from interlock.kernel.event import EFFECT_FAILED, LAPSE, Event, Note
from interlock.kernel.store.people import ROLE
from interlock.kernel.trigger import CREATED
from interlock.workers.engine.tracing import CODE
from interlock.workers.ops.description import line_shown
from interlock.workers.ops.history_page import CARD_NOTES, DAY_LENGTH, ROUTINE_NOTES
from interlock.workers.text import moment

MOVES, COSTS, FAILURES, LEASES, NOTES = "moves", "costs", "failures", "leases", "notes"
KINDS = (MOVES, COSTS, FAILURES, NOTES, LEASES)
LEASE_NOTES = ("claim", "adopt")
FAILURE_NOTES = (EFFECT_FAILED, LAPSE, "quarantine")
FAILURE_ENDS = ("refused", "failed", "lost")


@dataclass(frozen=True, slots=True)
class LogRow:
    """One line of the log, or several changes of leases that follow each other.

    `after_ms` is how long the record had been in the state that an event left. Lines and rows are
    the newest first.
    """

    kinds: frozenset[str]
    lines: tuple[dict[str, Any], ...]
    after_ms: int | None = None

    @property
    def at_ms(self) -> int:
        """When the newest of its lines was written."""
        at_ms: int = self.lines[0]["at_ms"]
        return at_ms


@dataclass(frozen=True, slots=True)
class LogStep:
    """One step of a record: an event, and the lines of the log until the next one, oldest first.

    `event` is None of lines before the first event, and where it is not of the chosen kind.
    `routine` only says how the work was carried out. `took_ms` is how long it was until the next
    step, None of the last one. `day` is the date of its beginning where that of the step before it
    is another one.
    """

    event: LogRow | None
    notes: list[LogRow]
    routine: list[LogRow]
    took_ms: int | None = None
    day: str = ""

    @property
    def at_ms(self) -> int:
        """When it began."""
        first = next(each for each in (self.event, *self.notes, *self.routine) if each)
        return first.at_ms


@dataclass(frozen=True, slots=True)
class Way:
    """The way that a record took: how often each step, how often each state, and how long there."""

    steps: Counter[tuple[str, str]]
    visits: Counter[str]
    stayed_ms: Counter[str]


def timeline(lines: Sequence[Event | Note]) -> list[LogRow]:
    """Return the rows of a log, which is the newest first."""
    moves = [line for line in lines if isinstance(line, Event) and line.source != line.target]
    left_after = {later.version: later.at_ms - earlier.at_ms for later, earlier in pairwise(moves)}
    rows: list[LogRow] = []
    for kinds, found in groupby(lines, kinds_of):
        group = list(found)
        if LEASES in kinds:
            rows.append(LogRow(kinds, tuple(line_shown(line) for line in group)))
            continue
        for line in group:
            after_ms = left_after.get(line.version) if isinstance(line, Event) else None
            rows.append(LogRow(kinds, (line_shown(line),), after_ms))
    return rows


def log_steps(rows: Sequence[LogRow], folded: Container[str] = (), kind: str = "") -> list[LogStep]:
    """Return the steps of a record, the oldest first, from the rows of its log.

    Lines at the positions that are `folded` are routine. With a kind, only rows of it are left.
    """
    found: list[LogStep] = []
    for row in reversed(rows):
        line = row.lines[0]
        is_folded = position_of(line) in folded
        if line["line"] == "event" and not (is_folded and found):
            found.append(LogStep(row, [], []))
            continue
        if not found:
            found.append(LogStep(None, [], []))
        if is_folded or LEASES in row.kinds or line.get("kind") in (*ROUTINE_NOTES, *CARD_NOTES):
            found[-1].routine.append(row)
        else:
            found[-1].notes.append(row)
    ends = [*(step.at_ms for step in found), None][1:]
    timed = [
        replace(step, took_ms=None if end is None else end - step.at_ms)
        for step, end in zip(found, ends, strict=True)
    ]
    return _with_days([chosen for step in timed if (chosen := _of_kind(step, kind))])


def position_of(line: Mapping[str, Any]) -> str:
    """Return the position of a line as others see it."""
    return f"{line['version']}-0" if line["line"] == "event" else str(line["position"])


def _of_kind(step: LogStep, kind: str) -> LogStep | None:
    """Return what a step has of a kind, or None if it has nothing."""
    if not kind:
        return step
    event = step.event if step.event and kind in step.event.kinds else None
    notes, routine = (
        [row for row in rows if kind in row.kinds] for rows in (step.notes, step.routine)
    )
    if not (event or notes or routine):
        return None
    return LogStep(event, notes, routine, step.took_ms if event else None)


def _with_days(steps: Sequence[LogStep]) -> list[LogStep]:
    days = ["", *(moment(step.at_ms)[:DAY_LENGTH] for step in steps)]
    return [
        replace(step, day=day if day != before else "")
        for step, (before, day) in zip(steps, pairwise(days), strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Codes:
    """The codes of a line by what they are: roles of who acted, ids of traces, and the others."""

    roles: tuple[str, ...]
    traces: tuple[str, ...]
    others: tuple[str, ...]


def codes_of(codes: Any) -> Codes:
    """Return the codes of a line, sorted into those of each kind.

    A note that a handler has written may have any value in the place of the list of codes.
    """
    found = [str(each) for each in (codes if isinstance(codes, (list, tuple)) else [codes])]
    return Codes(
        roles=tuple(each.removeprefix(ROLE) for each in found if each.startswith(ROLE)),
        # The context of a trace is a version, the id of the trace, and more, with dashes between.
        traces=tuple(f"{each}--".split("-")[1] for each in found if each.startswith(CODE)),
        others=tuple(each for each in found if not each.startswith((ROLE, CODE))),
    )


def trace_of(lines: Sequence[Event | Note]) -> str:
    """Return the id of the trace in which a record was created; '' if these lines lack it."""
    created = (line for line in lines if isinstance(line, Event) and line.trigger == CREATED)
    return next((each for line in created for each in codes_of(line.cause.codes).traces), "")


def kinds_of(line: Event | Note) -> frozenset[str]:
    """Return the kinds of a line: what it is, and whether it says what was spent."""
    costs = {COSTS} if any(line.deltas.values()) else set[str]()
    fails = {FAILURES} if isinstance(line, Event) and line.trigger.endswith(FAILURE_ENDS) else set()
    return frozenset({_kind_of(line), *costs, *fails})


def _kind_of(line: Event | Note) -> str:
    if isinstance(line, Event):
        return MOVES
    if line.kind in LEASE_NOTES:
        return LEASES
    failed = line.kind in FAILURE_NOTES or line.kind.endswith(FAILURE_ENDS)
    return FAILURES if failed else NOTES


def way_of(lines: Sequence[Event | Note], now_ms: int) -> Way:
    """Return the way that a record took, as far as these lines of its log have it."""
    steps, visits, stayed = Counter[tuple[str, str]](), Counter[str](), Counter[str]()
    left_ms = now_ms
    for event in _moves(lines):
        visits[event.target] += 1
        stayed[event.target] += max(left_ms - event.at_ms, 0)
        left_ms = event.at_ms
        if event.source and event.trigger != CREATED:
            steps[event.source, event.target] += 1
    return Way(steps, visits, stayed)


def _moves(lines: Sequence[Event | Note]) -> Iterator[Event]:
    for line in lines:
        if isinstance(line, Event) and line.source != line.target:
            yield line
