"""The client of producers and people: submit, fire, decide, show, wait, for every machine."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload
from uuid import uuid4

from pydantic import BaseModel

from interlock.kernel.decision import Explanation
from interlock.kernel.errors import (
    IllegalTransitionError,
    UnknownMachineError,
    UnknownRecordError,
)
from interlock.kernel.event import Cause, Event, Note
from interlock.kernel.machine import Machine
from interlock.kernel.machines import LISTED, MACHINES
from interlock.kernel.payload import fields_of
from interlock.kernel.record import PRIORITY_DEFAULT, Record
from interlock.kernel.store.commands import Call, Warrant
from interlock.kernel.store.counts import RecordCounts, count_records
from interlock.kernel.store.inboxes import Mail
from interlock.kernel.store.listings import Filter, ListedRecord, Page
from interlock.kernel.table import Terminal
from interlock.workers.config import Settings
from interlock.workers.engine.answer_schema import ACTION_FIELDS
from interlock.workers.engine.bulk import BulkAct, BulkPage, BulkVerb, check_bounded
from interlock.workers.engine.card_calls import CardCalls
from interlock.workers.engine.diff_calls import DiffCalls
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.event_feed import EventFeed, FollowedEvent
from interlock.workers.engine.explanations import explain, explain_all
from interlock.workers.engine.outlook import outlook_of
from interlock.workers.engine.own_systems import add_systems_of
from interlock.workers.engine.polling import WaitTimeoutError, polls
from interlock.workers.engine.printed_calls import PrintedCalls
from interlock.workers.engine.record_filter import Wanted, record_filter
from interlock.workers.engine.records import Records
from interlock.workers.engine.submission import (
    Submitted,
    check_actor,
    check_submission,
    of_machine,
    op_id_of_call,
    submit_each,
)
from interlock.workers.engine.system import Definition
from interlock.workers.engine.workflow_calls import WorkflowCalls
from interlock.workers.up_file import local_settings

if TYPE_CHECKING:  # imported where it is loaded
    pass


D = TypeVar("D", bound=BaseModel)


class Client(CardCalls, DiffCalls, PrintedCalls, WorkflowCalls):
    """A typed, synchronous client. One per process; safe in threads."""

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        actor: str = "producer",
        machines: Mapping[str, Machine] | None = None,
    ) -> None:
        self.settings, self.actor = settings or local_settings(), actor
        self.machines: Mapping[str, Machine] = LISTED if machines is None else machines
        self.codes: tuple[str, ...] = ()  # what the log says beside the name of a proved actor
        add_systems_of(self.settings)
        every = MACHINES if machines is None else machines
        check_actor(actor, every)
        # Somebody waits for the answer of each call, and may repeat it.
        self.dispatch = Dispatch(self.settings, every, patient=False)

    @overload
    def submit(
        self,
        payload: Mapping[str, Any],
        /,
        *,
        id: str | None = None,
        machine: str,
        priority: int = PRIORITY_DEFAULT,
    ) -> Submitted: ...
    @overload
    def submit(
        self,
        workflow: Definition[D],
        data: D,
        /,
        *,
        id: str | None = None,
        priority: int = PRIORITY_DEFAULT,
    ) -> Submitted: ...

    def submit(
        self,
        what: Mapping[str, Any] | Definition[Any],
        data: BaseModel | None = None,
        /,
        *,
        id: str | None = None,  # noqa: A002 - a record's id is called id everywhere
        machine: str = "",
        priority: int = PRIORITY_DEFAULT,
    ) -> Submitted:
        """Create a record: of a machine from a payload, or of a workflow from its data.

        When this returns, the record is stored. With an id of your own the call can be repeated.
        Raises UnknownMachineError, IdTakenError if the id exists with another payload, QuotaError
        if the deployment has as many records as it may have.
        """
        payload: Any = what
        if isinstance(what, Definition):
            machine, payload = what.name, what.as_payload(data)
        if machine not in self.machines:
            raise UnknownMachineError(machine, sorted(self.machines))
        new = f"{machine[:2]}-{uuid4().hex[:10]}" if id is None else id
        check_submission(payload, new, priority)
        self.dispatch.quota.admit([new])
        fired = self.dispatch.lifecycle.create(
            machine,
            new,
            payload,
            self.cause(),
            priority=priority,
            begins=not payload.get("hold"),
        )
        return Submitted(new, fired.replayed)

    def submit_many(
        self, payloads: Sequence[Mapping[str, Any]], *, machine: str
    ) -> list[Submitted]:
        """Submit several payloads. A refused one has its error in its result; the rest are stored.

        A payload may have the fields `id` and `priority` beside its own.
        """
        return submit_each(payloads, partial(self.submit, machine=machine))

    def fire(
        self,
        record_id: str,
        trigger: str,
        payload: Mapping[str, Any] | None = None,
        *,
        op_id: str | None = None,
        reason: str = "",
        version: int | None = None,
    ) -> Record:
        """Fire a trigger. Repeat a call whose answer was lost with the same op-id.

        With the `version` with which the record entered the state that you saw, the call is refused
        once the record has left it. Where the table demands that, the call is refused without one.
        """
        call = self.call(op_id, reason)
        if version is not None:
            call = replace(call, warrant=Warrant.person(version))
        fields = fields_of(trigger, payload)
        if ACTION_FIELDS & fields.keys():
            fields = self.answers(self.show(record_id)).checked_action(trigger, fields)
        fired = self.dispatch.lifecycle.fire(record_id, trigger, fields, call)
        return fired.record or self.show(record_id)

    def fire_by_hand(
        self,
        record_id: str,
        trigger: str,
        payload: Mapping[str, Any] | None = None,
        *,
        op_id: str | None = None,
        reason: str = "",
        version: int | None = None,
    ) -> Record:
        """Fire a trigger as `fire` does. Where its payload has a field `by`, that is who fires."""
        fields = self.answers(self.show(record_id)).signed(trigger, payload or {}, self.actor)
        return self.fire(record_id, trigger, fields, op_id=op_id, reason=reason, version=version)

    def was_made(self, record_id: str, op_id: str | None) -> bool:
        """Return whether a call about a record was made before with this op-id."""
        return bool(op_id and self.dispatch.lifecycle.op_outcome(record_id, op_id_of_call(op_id)))

    def cancel(self, record_id: str, *, reason: str = "", op_id: str | None = None) -> Record:
        """End a record, or ask its running action to stop. The returned state says which it was."""
        record = self.show(record_id)
        machine = self._machine(record)
        legal = machine.legal(record.state)
        if self.was_made(record_id, op_id):
            events = (line for line in self.history(record_id) if isinstance(line, Event))
            same = op_id_of_call(op_id)
            legal = tuple(event.trigger for event in events if event.op_id == same)
        trigger = next((name for name in machine.cancel_triggers if name in legal), None)
        if trigger is None:
            raise IllegalTransitionError(machine.name, record.state, "cancel", legal)
        fields = machine.taken_by(trigger, {"reason": reason, "by": self.actor})
        # Some decisions must name the state that was seen: here the one that was just read.
        decides = any(row.names_proposal for row in machine.rows(record.state, trigger))
        seen = record.entered if decides else None
        return self.fire(record_id, trigger, fields, op_id=op_id, reason=reason, version=seen)

    def pause(self, record_id: str, *, reason: str = "") -> str:
        """Start no new effect on a record until it is resumed. Running effects finish."""
        return self.dispatch.lifecycle.flag("pause", record_id, self.call(None, reason)).status

    def resume(self, record_id: str, *, reason: str = "") -> str:
        """Resume a paused record."""
        return self.dispatch.lifecycle.flag("resume", record_id, self.call(None, reason)).status

    def retry(self, record_id: str, *, reason: str = "") -> str:
        """Let the effects of a record that failed, or were given up, try again now."""
        return self.dispatch.lifecycle.flag("retry", record_id, self.call(None, reason)).status

    def change(self, verb: BulkVerb, record_id: str, *, reason: str = "") -> str:
        """Do what a verb names to a record. Return what was done: for a cancel, the state."""
        if verb == "cancel":
            return self.cancel(record_id, reason=reason).state
        flag = {"pause": self.pause, "resume": self.resume, "retry": self.retry}[verb]
        return flag(record_id, reason=reason)

    def bulk(self, verb: BulkVerb) -> BulkAct:
        """Return what does a verb to several records, each by itself."""
        return BulkAct(self.dispatch, self.machines, verb, partial(self.change, verb))

    def change_many(
        self,
        verb: BulkVerb,
        *,
        limit: int = 100,
        cursor: str = "",
        reason: str = "",
        dry_run: bool = False,
        **wanted: Unpack[Wanted],
    ) -> BulkPage:
        """Do what a verb names to the records of a page, or with `dry_run` say what it would do.

        Raises CallError without a condition, which would be about every record.
        """
        check_bounded(wanted)
        page = self.page(limit=limit, cursor=cursor, newest=False, **wanted)
        items = self.bulk(verb).each(page.ids, reason=reason, dry_run=dry_run)
        return BulkPage(items, page.cursor)

    def explain(
        self, record_id: str, trigger: str, payload: Mapping[str, Any] | None = None
    ) -> Explanation:
        """Return what an answer or a trigger would do now, or why it is refused. Fires nothing.

        `trigger` is one of the choices of the record's card, or a trigger of its machine.
        """
        answers = self.answers(self.show(record_id))
        return explain(self.dispatch, answers, trigger, payload or {}, self.actor)

    def explain_all(self, record_id: str) -> list[Explanation]:
        """Return for each trigger of a record's machine what it would do now, or why it would not.

        A trigger that needs a payload is explained without one.
        """
        return explain_all(self.dispatch, self.answers(self.show(record_id)), self.actor)

    def show(self, record_id: str, *, machine: str = "") -> Record:
        """Return a record as it is now. Raises UnknownRecordError, UnreadableRecordError.

        With a machine, raises CallError for a record of another one, and says what it is.
        """
        return of_machine(self.dispatch.views.record(record_id), machine)

    def outlook(self, record: Record) -> str:
        """Say what follows by itself in the state of a record, or ''."""
        return outlook_of(self.dispatch, record, self.machines)

    def history(self, record_id: str) -> list[Event | Note]:
        """Return a record's whole log, oldest first."""
        lines = self.dispatch.views.history(record_id)
        if not lines:
            raise UnknownRecordError(record_id)
        return lines

    def mail(self, record_id: str, *, limit: int = 100) -> list[Mail]:
        """Return the newest mail of a record, read or not, the newest first.

        Records of a family share an inbox.
        """
        return self.dispatch.inboxes.latest(self.show(record_id).id, limit)

    def list(self, *, limit: int = 100, **wanted: Unpack[Wanted]) -> list[ListedRecord]:
        """Return the records for which all holds that is given, the longest in their state first.

        Given may be `machine`, `state`, `effect` (that they owe or that is at work), `parent`,
        `id_prefix`, `text` of the title, and `created_ms` and `since_ms`, each a pair of the
        first and the last ms. With `parent`, `id_prefix` or `text` they come by name.
        """
        found = self._filter(by_state=True, **wanted)
        return list(islice(self.dispatch.listings.rows(found, size=limit, newest=False), limit))

    def page(
        self,
        *,
        limit: int = 100,
        cursor: str = "",
        newest: bool = True,
        by_state: bool = False,
        **wanted: Unpack[Wanted],
    ) -> Page:
        """Return one page of a list, which begins after the page with this cursor.

        With a state, or with `by_state`, the records come by the time at which they entered their
        state, else by that of their creation: the newest first, or the oldest. With `parent`,
        `id_prefix` or `text` they come by name. The conditions are those of `list`; None is none.

        A page has `rows`, `ids` of these, and the `cursor` of the page after it, '' at the end. A
        row has `id`, `machine`, `state`, `version`, `title`, `since_ms`, `created_ms`, `paused` and
        `waits_for_person`.
        """
        found = self._filter(by_state=by_state, **wanted)
        return self.dispatch.listings.page(found, limit=limit, cursor=cursor, newest=newest)

    def counts(self, **wanted: Unpack[Wanted]) -> RecordCounts:
        """Count the records that `list` would show, in each state that has any.

        By `machine`, `state`, `effect` and `since_ms` all are counted. With any other condition at
        most COUNT_MAX records are read: see `RecordCounts.more`.
        """
        found = self._filter(by_state=True, **wanted)
        return count_records(self.dispatch.listings, found)

    def _filter(self, *, by_state: bool, **wanted: Unpack[Wanted]) -> Filter:
        """Return the filter of a list, also of records in states that our tables lack."""
        others = self.dispatch.tables_elsewhere.states()
        return record_filter(self.machines, by_state=by_state, others=others, **wanted)

    def now_ms(self) -> int:
        """Return the time of the store."""
        return self.dispatch.views.now_ms()

    def wait(self, record_id: str, *, timeout_s: float, for_person: bool = True) -> Record:
        """Wait until a record has ended or (with `for_person`) asks a person.

        Raises WaitTimeoutError.
        """
        for _ in polls(timeout_s):
            record = self.show(record_id)
            ended = isinstance(self._machine(record).stage(record.state), Terminal)
            if ended or (for_person and self.asks_person(record)):
                return record
        raise WaitTimeoutError(f"{record_id} is still {record.state} after {timeout_s:g} s")

    def watch(self, record_id: str, *, timeout_s: float) -> Iterator[Event | Note]:
        """Yield the lines of a record's log as they come, until it has ended or the time is up."""
        seen = 0
        for _ in polls(timeout_s):
            record, lines = self.show(record_id), self.history(record_id)
            yield from lines[seen:]
            seen = len(lines)
            stage = self._machine(record).stage(record.state)
            if isinstance(stage, Terminal) and not record.entries:
                return

    def events(self, *, after: str = "", machines: Collection[str] = ()) -> Iterator[FollowedEvent]:
        """Yield the events of all records, or of some machines, from now on or after a position.

        It does not end. Raises MissedError where what followed the position is no longer kept.
        """
        return EventFeed(self.dispatch).follow(after, machines, self.machines)

    def _machine(self, record: Record) -> Machine:
        return self.dispatch.lifecycle.machine(record.machine)

    @property
    def records(self) -> Records:
        """The records as this client's actor changes them, for the clients of systems."""
        return Records(self.dispatch, self.actor, self.codes, is_component=False)

    def call(self, op_id: str | None, reason: str) -> Call:
        """Return a call of this client, with the op-id and reason of its caller."""
        return Call(self.cause(reason), op_id_of_call(op_id))

    def cause(self, reason: str = "") -> Cause:
        """Return what the log says of a call: who made it, and why."""
        return Cause(self.actor, reason, self.codes)
