"""The rows of a workflow that walks should follow, and what is never reached of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from interlock.kernel.table import Active, Transition, Waiting
from interlock.testing.acts import TIME
from interlock.testing.findings import FindingKind, WalkFinding, replay_of
from interlock.testing.walk import Row
from interlock.testing.walk_kit import FAIL, RUN
from interlock.workflow.names import (
    BEGIN,
    CANCEL,
    CANCELLED,
    EXPIRE,
    LOST,
    OVER,
    RECORD_ENDED,
    ends_of,
    retired_states,
)
from interlock.workflow.workflow import Workflow

# People cancel wherever they may; the others are there for faults, whatever the workflow is.
PASSED_OVER = (CANCEL, BEGIN, LOST, OVER)
TO = "to_"  # before the state that a step leads to, in the name of its trigger


def rows_of(flow: Workflow[Any]) -> list[Row]:
    """Return the rows of a workflow that a walk can follow.

    Of the rows for one trigger in one state that is the last one, and each that was written by
    hand: the others are for calls that come while a step is at work.
    """
    retired = {*retired_states(flow.declared)}
    by_hand = {row for hand in flow.declared.by_hand for row in hand.transitions}
    found: list[Row] = []
    cells = groupby(flow.machine.transitions, key=lambda row: (row.source, row.trigger))
    for (source, trigger), cell in cells:
        rows = [*cell]
        closed = next((n for n, row in enumerate(rows, 1) if row.guard is None), len(rows))
        for number, row in enumerate(rows[:closed], 1):
            is_meant = number == closed or row in by_hand or trigger == RECORD_ENDED
            if is_meant and not _is_passed_over(flow, row) and not {source, row.target} & retired:
                found.append((flow.name, str(source), str(trigger), str(row.target)))
    return found


def _is_passed_over(flow: Workflow[Any], row: Transition) -> bool:
    stage = flow.machine.stage(str(row.source))
    sooner = [timer for timer in stage.timers if timer.trigger not in (None, EXPIRE)]
    return row.trigger in PASSED_OVER or (row.trigger == EXPIRE and bool(sooner))


class Unreached:
    """What walks have not reached of the rows that they should follow."""

    def __init__(
        self,
        flows: Sequence[Workflow[Any]],
        followed: set[Row],
        refusals: Mapping[tuple[str, str, str], str],
        ways: Mapping[tuple[str, str], tuple[int, list[str]]],
        *,
        is_real: Callable[[str], bool],
    ) -> None:
        self._flows, self._followed, self._is_real = flows, followed, is_real
        self._refusals, self._ways = refusals, ways
        self._entered = {(flow, target) for flow, _, _, target in followed}
        self._entered |= {(flow, source) for flow, source, _, _ in followed}
        self.rows = [row for flow in flows for row in rows_of(flow)]
        left = [row for row in self.rows if row not in followed]
        self._left = [row for row in left if not self._is_refused(row)]

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows were followed, of how many."""
        return len(self.rows) - len(self._left), len(self.rows)

    def findings(self) -> Iterable[WalkFinding]:
        """Yield what was never reached: ends, states, and rows between those that were."""
        for flow in self._flows:
            retired = {*retired_states(flow.declared)}
            places = [*flow.declared.states, *ends_of(flow.declared)]
            for place in places:
                if (flow.name, place) in self._entered or place in (CANCELLED, *retired):
                    continue
                if any(row[0] == flow.name and row[3] == place for row in self._left):
                    yield self._place(flow, place)
            for row in self._left:
                if row[0] == flow.name and self._is_between(row):
                    said = f"{row[1]} never led to {row[3]} by {row[2]}{self._why(flow, row)}"
                    yield WalkFinding(FindingKind.UNREACHED, row[1], said, self._replay(flow, row))

    def _is_between(self, row: Row) -> bool:
        flow, source, _, target = row
        return (flow, source) in self._entered and (flow, target) in self._entered

    def _is_refused(self, row: Row) -> bool:
        """Whether it is a call that the workflow's own function refuses."""
        calls = {(flow.name, call) for flow in self._flows for call in flow.declared.calls}
        return (row[0], row[2]) in calls and row[:3] in self._refusals

    def _place(self, flow: Workflow[Any], place: str) -> WalkFinding:
        kind = "the end" if place in ends_of(flow.declared) else "the state"
        rows = [row for row in self._left if row[0] == flow.name and row[3] == place]
        row = next((row for row in rows if (row[0], row[1]) in self._entered), rows[0])
        ways = ", ".join(dict.fromkeys(f"{row[1]} by {row[2]}" for row in rows))
        said = f"{kind} {place} was never reached; to it leads {ways}{self._why(flow, row)}"
        return WalkFinding(FindingKind.UNREACHED, place, said, self._replay(flow, row))

    def _why(self, flow: Workflow[Any], row: Row) -> str:
        refusal = self._refusals.get((row[0], row[1], option_to(flow, row, is_real=False)), "")
        return f": {refusal}" if refusal else ""

    def _replay(self, flow: Workflow[Any], row: Row) -> str:
        """Return the walk to where the row begins, and what should follow it there."""
        data, way = self._ways.get((row[0], row[1]), (0, []))
        option = option_to(flow, row, is_real=self._is_real(f"{flow.name}.{row[1]}"))
        last = [f"{row[1]}:{option}"] if option and (row[0], row[1]) in self._ways else []
        return replay_of(data, [*way, *last], "/".join(row))


def option_to(flow: Workflow[Any], row: Row, *, is_real: bool) -> str:
    """Return what a walk chooses so that a row is followed; '' if nothing chooses it."""
    _, source, trigger, target = row
    stage = flow.machine.stage(source)
    if isinstance(stage, Waiting):
        choices = {str(trigger): choice for choice, trigger in stage.affordances}
        timers = [str(timer.trigger) for timer in stage.timers]
        return TIME if trigger in timers else choices.get(trigger, trigger)
    if isinstance(stage, Active) and trigger == f"{TO}{target}":
        return RUN if is_real else target
    return FAIL
