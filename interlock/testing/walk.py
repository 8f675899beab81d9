"""One walk of a record through its workflow: each way is chosen, and what is wrong is noted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from interlock.kernel.event import Event
from interlock.kernel.record import Record
from interlock.testing.acts import LATE, STOP, Acts, calls_in, has_ended
from interlock.testing.findings import WalkFindings
from interlock.testing.looks import FAMILY, RECORDS_MAX, WalkLooks
from interlock.testing.walk_kit import (
    CRASH_IN_ONCE,
    FAIL,
    MEANWHILE,
    MOMENTS,
    OVER,
    RAISE,
    RAISE_IN_ONCE,
    RUN,
    TOO_SLOW,
    Course,
    Scene,
    WalkAttempt,
    WalkKit,
)
from interlock.workers.engine.card import RETRY_CHOICE
from interlock.workers.engine.work import EffectWork
from interlock.workflow.data import Data
from interlock.workflow.names import CANCEL
from interlock.workflow.names import OVER as OVER_BUDGET
from interlock.workflow.parts import StepPart
from interlock.workflow.workflow import Workflow

MOVES_MAX = 60  # after so many decisions steps fail, so that a walk comes to its end
Row = tuple[str, str, str, str]  # a machine, a source, a trigger, a target


class Point(NamedTuple):
    """Where a walk decides: a state, or a message or an effect; `member` is '' of the root."""

    flow: str
    state: str
    member: str


class Offer(NamedTuple):
    """One way to go on from a point. `option` is what happens, and after a `!` the fault."""

    point: Point
    option: str

    def __str__(self) -> str:
        place = f"{self.point.member}/" if self.point.member else ""
        return f"{place}{self.point.state}:{self.option}"


class Chooser(ABC):
    """Chooses the ways of a walk."""

    @property
    def is_over(self) -> bool:
        """Whether the walk is to end where it comes to rest."""
        return False

    def begin(self, trace: Sequence[str]) -> None:  # noqa: B027 - most need nothing of it
        """Begin a walk with a trace, in which its choices will be."""

    def end(self) -> None:  # noqa: B027 - as above
        """End the walk."""

    @abstractmethod
    def choose(self, offers: Sequence[Offer]) -> Offer:
        """Return one of the offers."""

    @abstractmethod
    def aside(self, offers: Sequence[Offer]) -> Offer | None:
        """Return the fault that a message or an effect meets, None for none."""


class Walk(Course):
    """A walk. `trace` has what was chosen, and `problems` what is wrong."""

    def __init__(self, scene: Scene, chooser: Chooser, data: int = 0) -> None:
        self.scene, self.chooser = scene, chooser
        self.trace: list[str] = []
        self.problems = WalkFindings(data, self.trace)
        self._failing: set[tuple[str, int]] = set()  # stays in which each attempt fails
        self._has_children = len(scene.walked) > 1
        flows = {flow.name: flow for flow in scene.flows}
        self.kit = WalkKit(scene, self)
        self.acts = Acts(self.kit, flows, self.problems)
        self._looks = WalkLooks(self.acts, flows, scene.once, self.problems)

    def close(self) -> None:
        """Delete the records of the walk."""
        self.kit.close()

    def begin(self, data: Data) -> None:
        """Create the record, and let happen what is due."""
        self.kit.submit(data, id=FAMILY)
        self._settle()

    def go_on(self, pick: Callable[[Sequence[Offer]], Offer] | None = None) -> bool:
        """Do one thing from outside, or let time pass, and what follows. Return whether it did.

        `pick` chooses it, by default the chooser does.
        """
        offers = self.offers()
        chosen = (pick or self.chooser.choose)(offers)
        self.trace.append(str(chosen))
        point = chosen.point
        record = self.kit.client.show(f"{FAMILY}/{point.member}" if point.member else FAMILY)
        option, _, fault = chosen.option.partition("!")
        if option == RETRY_CHOICE:
            self._failing.discard(_stay(record))
        self.acts.do(record, option, fault)
        self._settle()
        return option not in (STOP, LATE) and len(self.trace) <= MOVES_MAX

    def followed(self) -> set[Row]:
        """Look at what the walk has left, and return the rows that it has followed."""
        records = self.records()
        self._looks.at_end(records)
        return {
            (record.machine, line.source, line.trigger, line.target)
            for record in records
            for line in self.kit.client.history(record.id)
            if isinstance(line, Event)
        }

    def records(self) -> list[Record]:
        """Return the record and its children as they are now."""
        client = self.kit.client
        root = client.show(FAMILY)
        if not self._has_children:
            return [root]
        rows = client.list(id_prefix=f"{FAMILY}/", limit=RECORDS_MAX)
        return [root, *(client.show(row.id) for row in rows)]

    def offers(self) -> list[Offer]:
        """Return what may come from outside, or with time, as the records stand."""
        records = self.records()
        left = [record for record in records if not has_ended(self.acts.stage(record))]
        if not left:
            return [Offer(_point(records[0]), option) for option in (STOP, LATE)]
        return [Offer(_point(one), option) for one in left for option in self.acts.options(one)]

    def attempt(self, part: StepPart, flow: Workflow[Any], work: EffectWork) -> WalkAttempt:
        """Return what comes of an attempt at a step that begins."""
        record, step = work.record, f"{flow.name}.{part.name}"
        stay = _stay(record)
        if stay in self._failing or len(self.trace) > MOVES_MAX:
            return WalkAttempt(step, *stay, FAIL, "")
        point = _point(record)
        chosen = self.chooser.choose([Offer(point, one) for one in self._options(part, flow, work)])
        self.trace.append(str(chosen))
        outcome, _, fault = chosen.option.partition("!")
        if outcome == FAIL:
            self._failing.add(stay)
        return WalkAttempt(step, *stay, outcome, fault)

    def _options(self, part: StepPart, flow: Workflow[Any], work: EffectWork) -> Iterator[str]:
        standing = self.scene.standing(part, flow)
        outcomes = [RUN] if self.scene.is_real(f"{flow.name}.{part.name}") else [*standing]
        yield from (*outcomes, RAISE, FAIL)
        if part.marks_once:
            yield RAISE_IN_ONCE
        if flow.declared.limited and work.machine.rows(work.record.state, OVER_BUDGET):
            yield OVER
        once = [CRASH_IN_ONCE] if part.marks_once else []
        calls = (*calls_in(flow, work.record.state), CANCEL)
        meanwhile = [f"{call}{MEANWHILE}" for call in calls]
        for outcome in outcomes:
            faults = (*MOMENTS, TOO_SLOW, *once, *meanwhile)
            yield from (f"{outcome}!{fault}" for fault in faults)

    def aside(self, machine: str, record_id: str, place: str, faults: tuple[str, ...]) -> str:
        """Return which of the faults a message or an effect of Interlock's own meets, or ''."""
        if record_id.partition("/")[0] != FAMILY:
            return ""
        point = Point(machine, place, record_id.partition("/")[2])
        chosen = self.chooser.aside([Offer(point, fault) for fault in faults])
        if chosen is None:
            return ""
        self.trace.append(str(chosen))
        return chosen.option

    def note_call(self, attempt: WalkAttempt, part: StepPart, name: str, stay: str) -> None:
        """Note that a function was called: of a step, or the one that `work.once` names."""
        self._looks.called(attempt, part, name, stay)

    def meanwhile(self, record_id: str, call: str) -> None:
        """Call a record whose step is at work."""
        self.acts.call_meanwhile(record_id, call)

    def take(self, time: timedelta) -> None:
        """Let time pass while a step is at work."""
        self.kit.advance(seconds=time.total_seconds())

    def _settle(self) -> None:
        self.kit.run()
        self._looks.at_rest(self.records())


def _point(record: Record) -> Point:
    return Point(record.machine, record.state, record.id.partition("/")[2])


def _stay(record: Record) -> tuple[str, int]:
    return str(record.id), int(record.entered)
