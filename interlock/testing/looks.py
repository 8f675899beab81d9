"""What is wrong with records where a walk comes to rest, and with calls that are made on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.kernel.event import Event
from interlock.kernel.record import Record
from interlock.testing.acts import Acts, calls_in, choices_of, has_ended, offered_on
from interlock.testing.findings import FindingKind, WalkFindings
from interlock.testing.walk_kit import WalkAttempt
from interlock.workers.engine.card import RETRY_CHOICE, faults_of
from interlock.workflow.names import GIVE_UP, LOST, OVER
from interlock.workflow.parts import StepPart
from interlock.workflow.workflow import Workflow

FAMILY = "one"  # the id of the record that walks, with which those of its children begin
RECORDS_MAX = 1_000
FAILURES = (GIVE_UP, LOST, OVER)  # the triggers by which a step leads on that has reached no end
ADVICE = "lead to a question there, or let the step that failed be tried again"


@dataclass(frozen=True, slots=True)
class Called:
    """A call of a function: in which stay in a state, and how much had come from outside."""

    stay: str
    entered: int
    outside: int


class WalkLooks:
    """Looks at the records of a walk, and notes what is wrong."""

    def __init__(
        self,
        acts: Acts,
        flows: Mapping[str, Workflow[Any]],
        once: frozenset[str],
        found: WalkFindings,
    ) -> None:
        self._acts, self._flows, self._once, self._problems = acts, flows, once, found
        self._calls: dict[tuple[str, str], list[Called]] = defaultdict(list)

    # --- at rest -------------------------------------------------------------------------------

    def at_rest(self, records: Sequence[Record]) -> None:
        """Note which records nothing will move, and which nobody sees."""
        left = [one for one in records if not has_ended(self._acts.stage(one))]
        for record in left:
            self._unseen(record)
        if left and not any(map(self._moves, left)):
            record = left[-1]
            why = "nothing is due, nobody is asked, and no call is awaited"
            if choices_of(self._acts.stage(record)):
                why = "its card offers no choice, and no time ends it"
            self._problems.note(
                FindingKind.STRANDED,
                record.state,
                f"a record stays in {record.state} for ever: {why}",
            )

    def _moves(self, record: Record) -> bool:
        """Whether something will move a record on: a person, a call, a time, an effect."""
        acts, flow = self._acts, self._flows[record.machine]
        calls = calls_in(flow, record.state, moving=True)
        if calls or any(offered_on(card) for card in acts.cards(record)):
            return True
        if acts.kit.is_idle:
            return False
        at_work = any(entry.state != "quarantined" for entry in record.entries)
        return bool(at_work or acts.times(record) or acts.awaited(record))

    def _unseen(self, record: Record) -> None:
        """Note that a record waits for a person who is not shown all of its card."""
        machine, state = self._flows[record.machine].machine, record.state
        cards = self._acts.cards(record)
        is_asked = machine.stage(state).waits_for_person(record.data)
        if is_asked and not any(RETRY_CHOICE not in offered_on(card) for card in cards):
            said = f"a record in {state} waits for a person, and shows no card"
            self._problems.note(FindingKind.UNSEEN, state, said)
        for fault in faults_of(machine, record):
            said = f"a record in {state} waits for a person, who cannot read its card: {fault}"
            self._problems.note(FindingKind.UNSEEN, state, said)
        if record.quarantined and not any(RETRY_CHOICE in offered_on(card) for card in cards):
            names = ", ".join(entry.name for entry in record.quarantined)
            said = f"{names} of a record in {state} was given up, and no card says so"
            self._problems.note(FindingKind.UNSEEN, state, said)
        if cards and record.id not in {
            card.record_id for card in self._acts.kit.client.cards(tree=FAMILY)
        }:
            said = f"the card of a record in {state} is in no list"
            self._problems.note(FindingKind.UNSEEN, state, said)

    def at_end(self, records: Sequence[Record]) -> None:
        """Note which records differ from their logs, or are in no list."""
        kit = self._acts.kit
        for fault in kit.faults_in([record.id for record in records]):
            said = f"a record is not what its log says: {fault}"
            self._problems.note(FindingKind.BROKEN, "the store", said)
        listed = {row.id for row in kit.client.list(id_prefix=FAMILY, limit=RECORDS_MAX)}
        for record in records:
            if record.id not in listed:
                said = f"a record in {record.state} is in no list"
                self._problems.note(FindingKind.UNSEEN, record.state, said)

    # --- calls ---------------------------------------------------------------------------------

    def called(self, attempt: WalkAttempt, part: StepPart, name: str, stay: str) -> None:
        """Note that a function was called, and whether that was once too often.

        Nobody from outside has asked for the second call, and it was in the same stay in a state,
        or after a failure that led back. A loop of outcomes is what the workflow says; of a step
        that the test names, a call in a loop is the second one too.
        """
        what = f"{part.name}, {name}" if name else part.name
        is_once = bool(name) or part.once
        if not is_once and attempt.step not in self._once:
            return
        outside = self._acts.outside[attempt.record_id]
        now = Called(stay, attempt.entered, outside)
        earlier = self._calls[attempt.record_id, what]
        earlier.append(now)
        for before in earlier[:-1]:
            if before.outside != outside:
                continue
            if before.stay == stay:
                why = "its attempt had no end that was kept, and it was tried again"
                if not is_once:
                    why += "; write once=True, or give work.key to the other side"
                self._twice(part, what, why)
            elif failure := self._failure_between(attempt.record_id, before, now):
                why = f"{failure.source} failed, which led back to it, and nobody was asked"
                self._twice(part, what, f"{why}: {ADVICE}")
            elif attempt.step in self._once:
                self._twice(part, what, "the workflow led back to it, and nobody was asked")

    def _twice(self, part: StepPart, what: str, why: str) -> None:
        self._problems.note(FindingKind.CALLED_TWICE, part.name, f"{what} was called twice: {why}")

    def _failure_between(self, record_id: str, one: Called, other: Called) -> Event | None:
        """Return the event by which a failure led a record on between two calls."""
        lines = self._acts.kit.client.history(record_id)
        return next(
            (
                line
                for line in lines
                if isinstance(line, Event)
                and one.entered < line.version <= other.entered
                and (line.trigger in FAILURES or line.trigger.endswith("_one_lost"))
            ),
            None,
        )
