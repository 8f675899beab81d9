"""Creates records and fires triggers at them, which is how records move from state to state."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property

from interlock.kernel.amounts import check_deltas
from interlock.kernel.checks import (
    OP_ID_LENGTH_MAX,
    check_created,
    check_op_id,
    deltas_of,
    lease_wanted,
    obstacle,
    unauthorised,
)
from interlock.kernel.decision import Decision
from interlock.kernel.errors import (
    CallError,
    ConflictError,
    FencedError,
    GuardRefusedError,
    IgnoredError,
    IllegalTransitionError,
    OpIdReusedError,
    StaleDecisionError,
    UnknownRecordError,
)
from interlock.kernel.event import NO_FACTS, Cause
from interlock.kernel.families import check_children, reporting_loss
from interlock.kernel.fired import Fired
from interlock.kernel.following import created, with_followers
from interlock.kernel.machine import Machine
from interlock.kernel.mover import CONFLICTS_MAX, Mover
from interlock.kernel.notes import Notes
from interlock.kernel.record import PRIORITY_DEFAULT, Record, Version, record_id
from interlock.kernel.store import codec
from interlock.kernel.store.commands import (
    Call,
    InitialLease,
    NoteDraft,
    Offer,
    Warrant,
    entitled,
    facts_read,
    policy_facts,
)
from interlock.kernel.store.leases import initial_lease_of
from interlock.kernel.table import UNBOUND, Bounds, Data

# The warrants of those parts of Interlock that report what files, programs and agents say.
REPORTING = ("token", "component")


class Lifecycle(Notes):
    """Creates and changes the records of all machines in one store, and publishes what they owe."""

    @cached_property
    def mover(self) -> Mover:
        """Moves records that an older version of their table has left."""
        return Mover(self.store, self.machines)

    def create(
        self,
        machine_name: str,
        new_id: str,
        payload: Data,
        cause: Cause,
        *,
        priority: int = PRIORITY_DEFAULT,
        countdown: str = "",
        bounds: Bounds = UNBOUND,
        initial_lease: InitialLease | Offer | None = None,
        begins: bool = False,
    ) -> Fired:
        """Create a record. A repeat with the same payload changes nothing.

        Raises IdTakenError where the id exists with another payload. A child joins a `countdown`
        of its parent (<name>:<generation>). `bounds` are what the record and all below it may use;
        without them the data of a root decide. `initial_lease` leases the first effect of the
        record in the same step. If it `begins`, the first trigger of its machine is fired too: in
        that step, where it needs nothing of other records, else in one that follows.
        """
        cause = self.carry(cause)
        machine = self.machine(machine_name)
        self.check(machine)
        machine.placement.check_id(machine.name, new_id, is_child=bool(countdown))
        written = codec.encode(payload, "the payload")
        data = machine.first_data(payload)
        own = UNBOUND if countdown else machine.bounds(data)
        record = Record(
            id=record_id(new_id),
            machine=machine.name,
            state=str(machine.initial_stage(data).state),
            version=Version(1),
            data=data,
            schema=machine.schema,
            priority=priority,
            counted=countdown,
        )
        decision = created(machine, machine.decide_creation(record), begins=begins)
        check_children(self.machines, decision)
        initial_lease = lease_wanted(decision, initial_lease)
        answer = self.store.create(
            machine,
            decision,
            digest=codec.digest(machine.name, written),
            nonce=codec.nonce_of(new_id),
            cause=cause,
            render=self.render,
            countdown=countdown,
            bounds={**own, **bounds},
            initial_lease=initial_lease,
        )
        check_created(new_id, answer)
        replayed = answer.status != "created"
        after = replace(decision.after, parent_machine=answer.detail)
        self.publish(answer.owed)
        if begins and machine.first_trigger and answer.version == 1:
            with suppress(CallError):  # it may have begun already, by a timer or an earlier call
                self.fire(new_id, machine.first_trigger, {}, Call(cause, f"begin:{new_id}"))
        return Fired(answer.version, None if replayed else after, replayed, answer.owed)

    def fire(
        self,
        target: Record | str,
        trigger: str,
        payload: Data,
        call: Call,
        *,
        initial_lease: InitialLease | Offer | None = None,
    ) -> Fired:
        """Fire a trigger at a record, given as it was last read or by its id.

        A record that was given is loaded anew only where its row reads facts of other records.

        Raises a CallError where the table or a guard refuses, FencedError where the warrant is
        void, ConflictError after many lost races, HeldError where another record is in the way, a
        StoreError where the store cannot serve. `initial_lease` leases the effect of the entered
        state in the same step; a function is asked whether it does.

        What a part of Interlock reports of files, programs and agents is made storable; from a
        person or a producer, text that cannot be stored is refused.
        """
        if (cause := self.carry(call.cause)) is not call.cause:
            call = replace(call, cause=cause)
        if call.warrant.kind in REPORTING:
            payload = codec.storable(payload)
        try:
            fired = self._fired(target, trigger, payload, call, initial_lease)
        except IgnoredError as refusal:
            if isinstance(target, Record):
                # It may have left its state since it was read.
                return self.fire(target.id, trigger, payload, call, initial_lease=initial_lease)
            fired = self._ignored(target, trigger, refusal.why, call)
        self.publish(fired.owed)
        if not fired.replayed:
            self._list_act(str(getattr(target, "id", target)), trigger, call.cause)
        return fired

    def _fired(
        self,
        target: Record | str,
        trigger: str,
        payload: Data,
        call: Call,
        initial_lease: InitialLease | Offer | None,
    ) -> Fired:
        record = target if isinstance(target, Record) else None
        target_id = record.id if record else record_id(str(target))
        digest = _digest(trigger, payload)
        check_deltas(call.deltas)
        check_op_id(call.op_id)
        facts = NO_FACTS
        for _ in range(CONFLICTS_MAX):
            if record is None or facts_read(self.machine(record.machine), record, trigger):
                record, known, facts = self._load(target_id, trigger, call.op_id)
                if known:
                    return self._replayed(known, call, trigger, payload, record)
            record = self.mover.present(record, call.warrant)
            decision = self._decided(record, trigger, payload, facts, warrant=call.warrant)
            decision = with_followers(self.machine(record.machine), decision)
            check_children(self.machines, decision)
            decision = reporting_loss(self.machines, decision, call.cause)
            leased = lease_wanted(decision, initial_lease)
            answer = self.store.commit(
                self.machine(record.machine),
                decision,
                op_id=call.op_id,
                digest=digest,
                warrant=call.warrant,
                cause=call.cause,
                deltas=deltas_of(call.deltas, decision),
                render=self.render,
                initial_lease=leased,
            )
            match answer.status:
                case "committed":
                    owed, lease = answer.owed, initial_lease_of(target_id, answer.leased)
                    return Fired(answer.version, decision.after, owed=owed, lease=lease)
                case "replayed":
                    return Fired(answer.version, None, replayed=True)
                case "reused":
                    raise OpIdReusedError(call.op_id)
                case "missing":
                    raise UnknownRecordError(target_id)
                case "fenced":
                    self._refuse_fenced(target_id, call.warrant)
                case "held" | "paused" | "busy" | "over":
                    raise obstacle(decision, answer)
            record = None
        raise ConflictError(
            f"{target_id}: {trigger} lost {CONFLICTS_MAX} races in a row; try again"
        )

    def facts(self, record: Record, ids: Sequence[str]) -> Data:
        """Read the facts of other records that guards of this record's machine may use."""
        return policy_facts(self.store.load(record.id, reads=ids).facts if ids else NO_FACTS)

    def _decided(
        self, record: Record, trigger: str, payload: Data, facts: Data, *, warrant: Warrant
    ) -> Decision:
        machine = self._known(record)
        admitted = machine.admit(trigger, payload)
        self._check_proposal(record, warrant)
        try:
            decision = machine.decide(record, trigger, admitted, facts)
        except (IllegalTransitionError, GuardRefusedError):
            # The warrant goes before the table: a caller that is fenced learns only that.
            if not entitled(record, warrant):
                raise FencedError(record.id, warrant.kind) from None
            raise
        if why := unauthorised(machine, decision, warrant):
            raise GuardRefusedError(machine.name, record.state, trigger, why)
        if warrant.kind == "token":
            self._check_holder(machine, decision, warrant)
        return decision

    def _check_holder(self, machine: Machine, decision: Decision, warrant: Warrant) -> None:
        """Refuse what the facts do not allow the holder, and note in the log that it tried."""
        record, trigger = decision.before, decision.trigger
        why = machine.holder_refusal(trigger, record.data, decision.facts)
        if why:
            suffix, token = warrant.proof
            draft = NoteDraft("refused", {"effect": suffix, "trigger": trigger, "why": why})
            self.note(record, draft, op_id=f"{token}:{trigger}/refused")
            raise GuardRefusedError(machine.name, record.state, trigger, why)

    def _load(self, target: str, trigger: str, op_id: str) -> tuple[Record, str, Data]:
        loaded = self.store.load(target, op_id)
        reads = facts_read(self.machine(loaded.record.machine), loaded.record, trigger)
        if reads:
            loaded = self.store.load(target, op_id, reads)
        return loaded.record, loaded.op_outcome, policy_facts(loaded.facts)

    def _replayed(
        self, known: str, call: Call, trigger: str, payload: Data, record: Record
    ) -> Fired:
        was, version, _ = known.split(" ")
        if was != _digest(trigger, payload):
            raise OpIdReusedError(call.op_id)
        return Fired(
            int(version), record if record.version == int(version) else None, replayed=True
        )

    def _ignored(self, target: str, trigger: str, why: str, call: Call) -> Fired:
        record = self.store.load(target).record
        draft = NoteDraft("ignored", {"trigger": trigger, "why": why, "actor": call.cause.actor})
        answer = self.note(record, draft, op_id=f"{call.op_id}/ignored"[-OP_ID_LENGTH_MAX:])
        return Fired(record.version, record, answer.status == "replayed", ignored=why)

    def _check_proposal(self, record: Record, warrant: Warrant) -> None:
        if warrant.kind in ("person", "component") and not entitled(record, warrant):
            seen = f"{record.id}:{warrant.proof[-1]}"
            waits = self._known(record).stage(record.state).waits_for_person(record.data)
            current = record.proposal if waits else None
            raise StaleDecisionError(seen, current, of_person=warrant.kind == "person")

    def _refuse_fenced(self, target: str, warrant: Warrant) -> None:
        if warrant.kind == "person":
            self._check_proposal(self.store.load(target).record, warrant)
        raise FencedError(target, warrant.kind)


def _digest(trigger: str, payload: Data) -> str:
    return codec.digest(trigger, codec.encode(payload, "the payload"))
