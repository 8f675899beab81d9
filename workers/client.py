"""What producers and people call: submit, fire, decide, watch. It runs and decides nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from interlock.kernel.errors import (
    CallError,
    IllegalTransitionError,
    InvalidIdError,
    InvalidPayloadError,
    KernelError,
    StaleDecisionError,
    UnknownRecordError,
)
from interlock.kernel.event import Cause, Event, Note
from interlock.kernel.machine import Explanation, Machine
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import Record, ancestors
from interlock.kernel.store.commands import Call, Warrant
from interlock.kernel.store.views import RecordInState
from interlock.kernel.table import Terminal, Waiting
from interlock.workers.config import Settings, local_settings
from interlock.workers.engine.app import PRIORITY_LAST, SWEEPS, make_app
from interlock.workers.engine.card import Card, card_of, quarantine_of
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.polling import polls
from interlock.workers.gateways.capabilities.registry import Registry, load_registry

ACTION_FIELDS = frozenset({"capability", "parameters", "declared"})


@dataclass(frozen=True, slots=True)
class Submitted:
    """What became of one submission. `replayed`: the same had been accepted before."""

    id: str
    replayed: bool
    error: KernelError | None = None


class WaitTimeoutError(TimeoutError):
    """The record did not get there in time; it goes on by itself."""


class Client:
    """A typed, synchronous client. One per process; safe in threads."""

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        actor: str = "producer",
        machines: Mapping[str, Machine] = MACHINES,
    ) -> None:
        self.settings, self.actor, self.machines = settings or local_settings(), actor, machines
        names = {name for machine in machines.values() for name in machine.effects}
        app = make_app(self.settings, (*sorted(names), SWEEPS))
        self.dispatch = Dispatch(self.settings, machines, app)
        self._registry: Registry | None = None

    @property
    def registry(self) -> Registry:
        """The capabilities by which a person's edit is checked before it is accepted."""
        if self._registry is None:
            self._registry = load_registry(self.settings.capabilities)
        return self._registry

    def submit(
        self,
        payload: Mapping[str, Any],
        *,
        id: str | None = None,  # noqa: A002 - the word that everybody uses
        machine: str,
        priority: int = 5,
    ) -> Submitted:
        """Hand in something that happened. "Accepted" means that the record exists.

        With an id of your own it may be repeated; the same id with another payload is IdTakenError.
        """
        new_id = f"{machine[:2]}-{uuid4().hex[:10]}" if id is None else id
        _check_submission(payload, new_id, priority)
        call = Call(Cause(self.actor))
        fired = self.dispatch.create(machine, new_id, payload, call, priority=priority)
        begins = self.dispatch.lifecycle.machine(machine).begins
        if begins and not payload.get("hold") and fired.version:
            self._begin(new_id, begins)
        return Submitted(new_id, fired.replayed)

    def submit_many(
        self, payloads: Sequence[Mapping[str, Any]], *, machine: str
    ) -> list[Submitted]:
        """Submit several; one that is refused has its error in its answer and stops no other.

        A payload may carry `id` and `priority` beside its own fields.
        """
        answers: list[Submitted] = []
        for payload in payloads:
            own: Any = dict(payload) if isinstance(payload, Mapping) else payload
            named = ("id", "priority") if isinstance(own, dict) else ()
            options = {name: own.pop(name) for name in named if name in own}
            try:
                answers.append(self.submit(own, machine=machine, **options))
            except KernelError as refusal:
                new_id = str(options.get("id") or "")
                answers.append(Submitted(new_id, replayed=False, error=refusal))
        return answers

    def fire(
        self,
        record_id: str,
        trigger: str,
        payload: Mapping[str, Any] | None = None,
        *,
        op_id: str | None = None,
        reason: str = "",
    ) -> Record:
        """Fire a trigger. Repeat a call whose answer was lost with the same op-id."""
        call = self._call(op_id, reason)
        words = dict(payload or {})
        if ACTION_FIELDS & words.keys():
            words = self._checked(self.show(record_id), words)
        fired = self.dispatch.fire(record_id, trigger, words, call)
        return fired.record or self.show(record_id)

    def decide(
        self,
        record_id: str,
        choice: str,
        answer: Mapping[str, Any] | None = None,
        *,
        proposal: str,
        op_id: str | None = None,
    ) -> Record:
        """Answer a card. `proposal` names the one you saw: a stale decision is refused.

        `choice` is one of the card's affordances, or redirect, where its state takes that.
        """
        record = self.show(record_id)
        machine = self.dispatch.lifecycle.machine(record.machine)
        if choice == "retry" and quarantine_of(machine, record):
            self.retry(record_id)
            return self.show(record_id)
        entered = self.proposal_version(record, proposal)
        state = record.state
        if entered != record.entered:
            # Repeated with its op-id after a lost answer, a choice means what it meant then.
            state = self._state_seen(record, entered) if op_id else ""
            if not state:
                raise self._stale(record, proposal)
        trigger = self._trigger(record, state, choice)
        call = Call(Cause(self.actor), op_id or uuid4().hex, Warrant.person(entered))
        payload = self.with_actor(record, trigger, self._checked(record, dict(answer or {})))
        fired = self.dispatch.fire(record.id, trigger, payload, call)
        return fired.record or self.show(record_id)

    def cancel(self, record_id: str, *, reason: str = "") -> Record:
        """End a record, or ask its running action to stop; the answer says which it was."""
        record = self.show(record_id)
        machine = self.dispatch.lifecycle.machine(record.machine)
        legal = machine.legal(record.state)
        trigger = next((name for name in machine.cancels if name in legal), None)
        if trigger is None:
            raise IllegalTransitionError(machine.name, record.state, "cancel", legal)
        words = self.with_actor(record, trigger, {"reason": reason})
        return self.fire(record_id, trigger, words, reason=reason)

    def pause(self, record_id: str, *, reason: str = "") -> str:
        """Start nothing new on a record until it is resumed; what runs ends."""
        return self.dispatch.flag("pause", record_id, self._call(None, reason)).word

    def resume(self, record_id: str, *, reason: str = "") -> str:
        """Lift a pause."""
        return self.dispatch.flag("resume", record_id, self._call(None, reason)).word

    def retry(self, record_id: str, *, reason: str = "") -> str:
        """Let every quarantined effect of a record try again, with fresh attempts."""
        return self.dispatch.flag("retry", record_id, self._call(None, reason)).word

    def explain(
        self, record_id: str, trigger: str, payload: Mapping[str, Any] | None = None
    ) -> Explanation:
        """Say what firing a trigger now would do, or why it would be refused. It fires nothing."""
        record = self.show(record_id)
        machine = self.dispatch.lifecycle.machine(record.machine)
        facts = self.dispatch.lifecycle.facts(record, ancestors(record.id))
        return machine.explain(record, trigger, machine.admit(trigger, payload or {}), facts)

    def show(self, record_id: str) -> Record:
        """Return a record as it is now."""
        return self.dispatch.views.record(record_id)

    def history(self, record_id: str) -> list[Event | Note]:
        """Return a record's whole log, oldest first."""
        lines = self.dispatch.views.history(record_id)
        if not lines:
            raise UnknownRecordError(record_id)
        return lines

    def card(self, record_id: str) -> Card | None:
        """Return what a record asks a person now."""
        record = self.show(record_id)
        return card_of(self.dispatch.lifecycle.machine(record.machine), record)

    def cards(self, *, limit: int = 100) -> list[Card]:
        """Return what people are asked, the longest waiting first."""
        found: list[Card | None] = []
        for record_id, _ in self.dispatch.views.waiting(limit):
            record = self.show(record_id)
            machine = self.dispatch.lifecycle.machine(record.machine)
            found += [card_of(machine, record), quarantine_of(machine, record)]
        return [card for card in found if card is not None]

    def list(
        self, *, machine: str, state: str | None = None, limit: int = 100
    ) -> list[RecordInState]:
        """Return records of a machine, in one state or in all, the longest there first."""
        found = self.dispatch.lifecycle.machine(machine)
        states = [str(stage.state) for stage in found.stages]
        if state is not None and state not in states:
            raise CallError(f"{machine} has no state {state!r}; its states: {', '.join(states)}")
        rows = [
            row
            for name in ([state] if state else states)
            for row in self.dispatch.views.list_in_state(found, name, limit)
        ]
        return sorted(rows, key=lambda row: row.since_ms)[:limit]

    def wait(self, record_id: str, *, timeout_s: float, for_person: bool = True) -> Record:
        """Wait until a record has ended or, with `for_person`, asks a person."""
        for _ in polls(timeout_s):
            record = self.show(record_id)
            stage = self.dispatch.lifecycle.machine(record.machine).stage(record.state)
            asks = isinstance(stage, Waiting) and stage.asks(record.data)
            if isinstance(stage, Terminal) or (for_person and asks):
                return record
        raise WaitTimeoutError(f"{record_id} is still {record.state} after {timeout_s:g} s")

    def watch(self, record_id: str, *, timeout_s: float) -> Iterator[Event | Note]:
        """Yield the lines of a record's log as they come, until it has ended or the time is up."""
        seen = 0
        for _ in polls(timeout_s):
            record = self.show(record_id)
            lines = self.history(record_id)
            yield from lines[seen:]
            seen = len(lines)
            stage = self.dispatch.lifecycle.machine(record.machine).stage(record.state)
            if isinstance(stage, Terminal) and not record.entries:
                return

    def _begin(self, record_id: str, begins: str) -> None:
        call = Call(Cause(self.actor), op_id=f"begin:{record_id}")
        try:
            self.dispatch.fire(record_id, begins, {}, call)
        except CallError:
            return  # a repeated submission: it began long ago, and may even be pruned

    def _call(self, op_id: str | None, reason: str) -> Call:
        return Call(Cause(self.actor, reason), op_id or uuid4().hex)

    def with_actor(self, record: Record, trigger: str, words: dict[str, Any]) -> dict[str, Any]:
        """Return a payload with who says it, where the trigger has a word for that."""
        model = self.dispatch.lifecycle.machine(record.machine).payloads.get(trigger)
        asks = model is not None and "by" in model.model_fields
        return {**words, "by": self.actor} if asks else words

    def proposal_version(self, record: Record, proposal: str) -> int:
        """Return the version that a proposal names. Raises StaleDecisionError if it is no such."""
        seen_id, _, entered = proposal.rpartition(":")
        if seen_id != record.id or not (entered.isascii() and entered.isdigit()):
            raise self._stale(record, proposal)
        return int(entered)

    def _state_seen(self, record: Record, entered: int) -> str:
        """Return the state that was entered with this version, or '' if none was."""
        events = (line for line in self.history(record.id) if isinstance(line, Event))
        return next((event.target for event in events if event.version == entered), "")

    def _stale(self, record: Record, proposal: str) -> StaleDecisionError:
        stage = self.dispatch.lifecycle.machine(record.machine).stage(record.state)
        waits = stage.waits_for_person(record.data)
        return StaleDecisionError(proposal, record.proposal if waits else None)

    def _trigger(self, record: Record, state: str, choice: str) -> str:
        """Return what a choice fires in a state."""
        machine = self.dispatch.lifecycle.machine(record.machine)
        stage = machine.stage(state)
        offered = dict(stage.affordances) if isinstance(stage, Waiting) else {}
        if choice in offered:
            return offered[choice]
        if choice == "redirect" and "redirected" in machine.legal(state):
            return "redirected"
        asked = ", ".join(offered) or "nobody is asked anything"
        raise CallError(f"{choice!r} is no answer to {record.id} in {state}; there are: {asked}")

    def _checked(self, record: Record, answer: dict[str, Any]) -> dict[str, Any]:
        """Check an edited action against its capability, and add what that declares of itself."""
        if "declared" in answer:
            raise InvalidPayloadError("the answer", ["declared: it is the capability's to say"])
        if "capability" not in answer and "parameters" not in answer:
            return answer
        before = (record.data.get("proposals") or {}).get("action", {}).get("payload", {})
        name = answer.get("capability") or before.get("capability") or ""
        one = self.registry[name]
        same = name == before.get("capability")
        parameters = answer.get("parameters", before.get("parameters", {}) if same else {})
        self.registry.check(name, parameters)
        return {**answer, "declared": one.declared()}


def _check_submission(payload: Any, new_id: Any, priority: Any) -> None:
    """Refuse what only a type checker would have told its caller."""
    if not isinstance(payload, Mapping):
        raise InvalidPayloadError("the payload", [f"it is {type(payload).__name__}, no mapping"])
    if not isinstance(new_id, str):
        raise InvalidIdError(repr(new_id), "it is not text")
    if type(priority) is not int or not 0 <= priority <= PRIORITY_LAST:
        raise InvalidPayloadError("priority", [f"{priority!r} is not between 0 (first) and 9"])
