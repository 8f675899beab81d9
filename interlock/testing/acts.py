"""What comes from outside on a walk: answers, calls, time, each also too late or twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from interlock.kernel.errors import KernelError
from interlock.kernel.record import Record
from interlock.kernel.table import PERSON, PRODUCER, Stage, Terminal, Waiting
from interlock.testing.findings import FindingKind, WalkFindings
from interlock.testing.outside import end_outside
from interlock.testing.stand_ins import payload_of
from interlock.testing.walk_kit import WalkKit
from interlock.workers.engine.awaited import awaited_by
from interlock.workers.engine.card import RETRY_CHOICE, Card
from interlock.workflow.names import CANCEL
from interlock.workflow.workflow import Workflow

STOP, LATE, TIME = "stop", "late", "time"  # at an end, and wherever a timer is set
ENDS_WELL, ENDS_BADLY = "it-ends-well", "it-ends-badly"  # of the record that is awaited
TWICE, REPEATED = "twice", "repeated"  # an answer by two people; a call whose reply was lost
Act = Callable[[str, str], object]  # given the name of a choice or call, and an op-id


class Acts:
    """Acts on the records of a walk. `outside` counts what people and programs did, by record.

    `refusals` has why something was refused, by machine, state and what was tried.
    """

    def __init__(
        self, kit: WalkKit, flows: Mapping[str, Workflow[Any]], problems: WalkFindings
    ) -> None:
        self.kit, self._flows, self._problems = kit, flows, problems
        self.outside: Counter[str] = Counter()
        self.refusals: dict[tuple[str, str, str], str] = {}
        self._seen: dict[str, Card] = {}  # cards of any time
        self._acts = 0

    def stage(self, record: Record) -> Stage:
        """Return the stage of a record."""
        return self._flows[record.machine].machine.stage(record.state)

    def cards(self, record: Record) -> list[Card]:
        """Return the open cards of a record."""
        found = self.kit.client.cards_of(record.id)
        self._seen |= {card.proposal: card for card in found}
        return found

    def options(self, record: Record) -> list[str]:
        """Return what may be done about a record that has not ended, each also with its faults."""
        stage, cards = self.stage(record), self.cards(record)
        found = [
            choice + fault
            for choice in choices_of(stage)
            for fault in ("", f"!{TWICE}", f"!{REPEATED}")
        ]
        if any(RETRY_CHOICE in offered_on(card) for card in cards):
            found.append(RETRY_CHOICE)
        for call in calls_in(self._flows[record.machine], record.state):
            found += [call, f"{call}!{REPEATED}"]
        if self.times(record):
            found.append(TIME)
            found += [f"{TIME}!{LATE}"] if any(map(offered_on, cards)) else []
        if self.awaited(record):
            found += [ENDS_WELL, ENDS_BADLY]
        return [*found, CANCEL]

    def times(self, record: Record) -> list[int]:
        """Return when the timers of a record are due that move it on."""
        stage = self.stage(record)
        due = ((stage.timer(each.name), each.due_at) for each in record.timers)
        return [at for timer, at in due if timer and timer.trigger]

    def awaited(self, record: Record) -> str:
        """Return the id of the record whose end a record waits for, or ''."""
        found = awaited_by(self._flows[record.machine].machine, record)
        return found[1] if found else ""

    def do(self, record: Record, option: str, fault: str) -> None:
        """Do one thing from outside, or let time pass."""
        if option == LATE:
            self._come_too_late(record)
        elif option == TIME:
            self._let_time_pass(record, is_late=bool(fault))
        elif option in (ENDS_WELL, ENDS_BADLY):
            is_success = option == ENDS_WELL
            end_outside(self.kit.client, self.awaited(record), is_success=is_success)
            self.outside[record.id] += 1
        elif option != STOP:
            self._act(record, option, fault)

    def call_meanwhile(self, record_id: str, call: str) -> None:
        """Call a record whose step is at work."""
        record = self.kit.client.show(record_id)
        self._try(record, call, self._act_of(record, call), self._op_id())

    def _act(self, record: Record, option: str, fault: str) -> None:
        """Answer a card of a record, or call it, and once more as the fault has it."""
        act, op_id = self._act_of(record, option), self._op_id()
        self.outside[record.id] += 1
        if not self._try(record, option, act, op_id):
            return
        before = self.kit.client.show(record.id).version
        if fault == REPEATED:
            if not self._try(record, option, act, op_id):
                said = f"{option} of {record.state} was refused when it came again with its op-id"
                self._problems.note(FindingKind.BROKEN, f"{record.state}/{option}", said)
        elif fault == TWICE:
            other = next((one for one in choices_of(self.stage(record)) if one != option), option)
            self._must_refuse(f"a second answer ({other}) to {record.state}", act, other)
        if self.kit.client.show(record.id).version != before:
            said = f"{option} of {record.state} was taken twice"
            self._problems.note(FindingKind.BROKEN, f"{record.state}/{option}", said)

    def _try(self, record: Record, option: str, act: Act, op_id: str) -> bool:
        try:
            act(option, op_id)
        except KernelError as refusal:
            self.refusals[record.machine, record.state, option] = str(refusal)
            return False
        return True

    def _act_of(self, record: Record, option: str) -> Act:
        stage, client = self.stage(record), self.kit.client
        if option == RETRY_CHOICE or option in choices_of(stage):
            cards = self.cards(record)
            card = next((one for one in cards if option in offered_on(one)), None)
            return self._answering(record, card.proposal if card else record.proposal)

        def call(name: str, op_id: str) -> object:
            if name == CANCEL:
                self.kit.cancel_now(record.id, op_id)
                return None
            return client.fire(record.id, name, self._fields(record, name), op_id=op_id)

        return call

    def _answering(self, record: Record, proposal: str) -> Act:
        stage = self.stage(record)
        triggers = dict(stage.affordances) if isinstance(stage, Waiting) else {}

        def answer(choice: str, op_id: str) -> object:
            fields = self._fields(record, triggers.get(choice, choice))
            decide = self.kit.client.decide
            return decide(record.id, choice, fields, proposal=proposal, op_id=op_id)

        return answer

    def _fields(self, record: Record, trigger: str) -> dict[str, Any]:
        """Return what is said with a call or an answer: a value of its model."""
        return payload_of(self._flows[record.machine].machine.payloads.get(trigger))

    def _let_time_pass(self, record: Record, *, is_late: bool) -> None:
        """Let time pass until the next timer of a record; with `is_late` it is answered then."""
        cards = [card for card in self.cards(record) if offered_on(card)]
        self.kit.pass_until(min(self.times(record)))
        now = self.kit.client.show(record.id)
        if is_late and now.entered != record.entered:
            for card in cards[:1]:
                answer = self._answering(record, card.proposal)
                what = f"an answer to {record.state} that came too late"
                self._must_refuse(what, answer, offered_on(card)[0])

    def _come_too_late(self, record: Record) -> None:
        """Do at a record that has ended what would have done something before."""
        flow = self._flows[record.machine]
        states = (str(stage.state) for stage in flow.machine.stages)
        for call in dict.fromkeys(call for state in states for call in calls_in(flow, state)):
            act = self._act_of(record, call)
            self._must_refuse(f"a call after the end {record.state}", act, call)
        for card in [one for one in self._seen.values() if one.record_id == record.id]:
            for choice in offered_on(card)[:1]:
                act = self._answering(record, card.proposal)
                self._must_refuse(f"an answer after the end {record.state}", act, choice)
        self.kit.send_again()
        if self.kit.client.show(record.id).version != record.version:
            said = f"an old message that came again moved a record from its end {record.state}"
            self._problems.note(FindingKind.BROKEN, record.state, said)

    def _must_refuse(self, what: str, act: Act, name: str) -> None:
        try:
            act(name, self._op_id())
        except KernelError:
            return
        self._problems.note(FindingKind.BROKEN, f"{what}: {name}", f"{what} was taken: {name}")

    def _op_id(self) -> str:
        self._acts += 1
        return f"act-{self._acts}"


def calls_in(flow: Workflow[Any], state: str, *, moving: bool = False) -> list[str]:
    """Return the calls of people and programs that a state takes, beside answers and a cancel.

    With `moving` only those that lead into another state.
    """
    choices = flow.machine.stage(state)
    answers = (
        [trigger for _, trigger in choices.affordances] if isinstance(choices, Waiting) else []
    )
    found = [
        str(row.trigger)
        for row in flow.machine.transitions
        if row.source == state
        and not {PERSON, PRODUCER}.isdisjoint(row.by)
        and row.trigger not in (CANCEL, *answers)
        and not (moving and row.target == state)
    ]
    return [*dict.fromkeys(found)]


def has_ended(stage: Stage) -> bool:
    """Whether a record in this stage has ended."""
    return isinstance(stage, Terminal)


def choices_of(stage: Stage) -> list[str]:
    """Return the choices of a question, also those that it does not offer now."""
    return [choice for choice, _ in stage.affordances] if isinstance(stage, Waiting) else []


def offered_on(card: Card) -> list[str]:
    """Return the choices that a card offers."""
    return [each.name for each in card.affordances]
