"""Writes to a record what does not change its state: notes, mail, reminders, pauses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from interlock.kernel.amounts import check_deltas
from interlock.kernel.checks import check_op_id, merged_deltas
from interlock.kernel.effect import OF_ANY_MACHINE, Effect
from interlock.kernel.errors import (
    FencedError,
    MailRefusedError,
    NewerSchemaError,
    OpIdReusedError,
    StaleDecisionError,
    StoreError,
    UnknownMachineError,
    UnknownRecordError,
)
from interlock.kernel.event import Cause
from interlock.kernel.machine import Machine
from interlock.kernel.record import Record, record_id
from interlock.kernel.store.codec import storable
from interlock.kernel.store.commands import (
    NO_WARRANT,
    Answer,
    Call,
    NoteDraft,
    Publish,
    Render,
    Warrant,
)
from interlock.kernel.store.inboxes import Inboxes
from interlock.kernel.store.people import PersonActs
from interlock.kernel.store.redis import Store
from interlock.kernel.store.subscriptions import Subscriber
from interlock.kernel.table import Data

FLAGGED = ("paused", "resumed", "retried")  # what a call of `flag` has done


class Notes:
    """The part of `Lifecycle` that changes no state."""

    def __init__(
        self,
        store: Store,
        machines: Mapping[str, Machine],
        render: Render,
        publish: Publish,
        *,
        check: Callable[[Machine], object] = bool,
        carry: Callable[[Cause], Cause] = lambda cause: cause,
    ) -> None:
        """`publish` sends the messages that a commit could not push.

        `check` raises for a machine by whose table this process must not decide. `carry` adds to
        the cause of an event the trace in which the call is made.
        """
        self.store, self.machines, self.render, self.publish = store, machines, render, publish
        self.check, self.carry = check, carry
        self.inboxes = Inboxes(store.client, store.keys, store.limits)
        self.acts = PersonActs(store.client, store.keys)

    def machine(self, name: str) -> Machine:
        """Return a machine by name."""
        try:
            return self.machines[name]
        except KeyError:
            raise UnknownMachineError(name, sorted(self.machines)) from None

    def _known(self, record: Record) -> Machine:
        machine = self.machine(record.machine)
        self.check(machine)
        if record.schema > machine.schema:
            raise NewerSchemaError(record.id, record.schema, machine.schema)
        return machine

    def note(
        self,
        record: Record,
        draft: NoteDraft,
        *,
        op_id: str = "",
        warrant: Warrant = NO_WARRANT,
    ) -> Answer:
        """Write a note into a record's log. With an op-id a repeat writes nothing.

        Deltas and effects need an op-id: repeated without one, they would be counted and owed
        twice. After a note with deltas the record also owes its mirror. Text that cannot be stored
        is made storable.
        """
        machine = self.machine(record.machine)
        if draft.deltas:
            mirrors = (owed.effect for owed in machine.mirrored())
            draft = replace(draft, owes=(*draft.owes, *mirrors))
        draft = replace(draft, detail=storable(draft.detail))
        if draft.deltas or draft.owes:
            check_op_id(op_id)
        check_deltas(draft.deltas)
        merged_deltas(draft.deltas, machine.counters(record.data))
        answer = self.store.note(record, draft, op_id=op_id, warrant=warrant, render=self.render)
        match answer.status:
            case "fenced":
                raise FencedError(record.id, warrant.kind)
            case "reused":
                raise OpIdReusedError(op_id)
        return self._published(answer)

    def wake(self, target: str, effect: Effect, why: Data, op_id: str) -> None:
        """Make an effect of a record due again, because a thing it waits for may have come."""
        record = self.store.load(record_id(target)).record
        self.note(record, NoteDraft(f"{effect}_owed", why, owes=(effect,)), op_id=op_id)

    def post(self, target: str, mail: Data, op_id: str) -> Answer:
        """Post a message to a record's inbox. The answer's `detail` is the id of the message.

        Raises InvalidPayloadError for a wrong message, MailRefusedError where the record has no
        inbox, has ended, or has a full one.
        """
        check_op_id(op_id)
        record = self.store.load(record_id(target)).record
        machine = self._known(record)
        if machine.inbox is None:
            raise MailRefusedError(target, f"a {machine.name} has no inbox")
        answer = self.inboxes.post(
            record,
            machine.inbox_data(mail),
            machine.inbox,
            read_upto=str(record.data["acknowledged"]),
            op_id=op_id,
            render=self.render,
        )
        match answer.status:
            case "reused":
                raise OpIdReusedError(op_id)
            case "missing":
                raise UnknownRecordError(target)
            case "ended":
                raise MailRefusedError(target, f"it is {answer.detail}")
            case "full":
                raise MailRefusedError(target, f"{answer.detail} messages wait for it already")
        return self._published(answer)

    def remind(
        self, record: Record, timer: str, warrant: Warrant, fired: int, op_id: str
    ) -> Answer:
        """Answer a due timer that is a reminder: note it, owe its effect, and set it again."""
        found = self.machine(record.machine).stage(record.state).timer(timer)
        delay_ms = (found.delay(record.data) if found else None) or self.store.limits.remind_ms
        owes: tuple[Effect, ...] = (found.effect,) if found and found.effect else ()
        again_ms = delay_ms * 2 ** min(fired + 1, 5)
        draft = NoteDraft(
            "reminder",
            {"timer": timer, "times": fired + 1},
            timers=((timer, again_ms, fired + 1),),
            owes=owes,
        )
        return self._published(
            self.store.note(record, draft, op_id=op_id, warrant=warrant, render=self.render)
        )

    def flag(self, name: str, target: str, call: Call, *, proposal: str = "") -> Answer:
        """Pause, resume or retry a record, as a person asked. Its version stays the same.

        Raises StaleDecisionError where effects may not try again, because the `proposal` to do so
        is no longer the current one.
        """
        check_op_id(call.op_id)
        record = self.store.load(record_id(target)).record
        # This process may not know the machine.
        machine = self.machines.get(record.machine)
        effects = {**OF_ANY_MACHINE, **(machine.effects if machine else {})}
        answer = self.store.flag(
            name,
            record,
            op_id=call.op_id,
            cause=call.cause,
            proposal=proposal,
            attempts_max={effect.name: effect.attempts_max for effect in effects.values()},
        )
        match answer.status:
            case "reused":
                raise OpIdReusedError(call.op_id)
            case "stale":
                now = self.store.load(record.id).record
                raise StaleDecisionError(proposal, now.retry_proposal or None)
        self._published(answer)
        if answer.status in FLAGGED:
            self._list_act(record.id, name, call.cause)
        return answer

    def leave_countdown(self, parent: Subscriber, member: str, outcome: str) -> Answer:
        """Take an ended record out of a countdown that waits for it."""
        return self._published(self.store.leave_countdown(parent, member, outcome, self.render))

    def op_outcome(self, target: str, op_id: str) -> str:
        """Return the outcome of an earlier call by its op-id; '' if the store has it no more."""
        return self.store.load(target, op_id).op_outcome

    def _list_act(self, target: str, what: str, cause: Cause) -> None:
        with suppress(StoreError):  # it is done, and the log of the record has it
            self.acts.add(target, what, cause)

    def _published(self, answer: Answer) -> Answer:
        self.publish(answer.owed)
        return answer
