"""Creates records and fires triggers at them: the only way in which a record changes its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from interlock.kernel.amounts import check_deltas
from interlock.kernel.checks import (
    OP_ID_LENGTH_MAX,
    check_created,
    check_op_id,
    deltas_of,
    lease_wanted,
    merged_deltas,
    obstacle,
    unauthorised,
)
from interlock.kernel.decision import Decision
from interlock.kernel.effect import Effect
from interlock.kernel.errors import (
    ConflictError,
    FencedError,
    GuardRefusedError,
    IgnoredError,
    IllegalTransitionError,
    MailRefusedError,
    NewerSchemaError,
    OpIdReusedError,
    StaleDecisionError,
    UnknownMachineError,
    UnknownRecordError,
)
from interlock.kernel.event import NO_FACTS, Cause
from interlock.kernel.families import check_children, reporting_loss
from interlock.kernel.following import created, with_followers
from interlock.kernel.machine import Machine
from interlock.kernel.record import Record, Version, record_id
from interlock.kernel.store import codec
from interlock.kernel.store.commands import (
    NO_WARRANT,
    Answer,
    Call,
    EffectMessage,
    InitialLease,
    NoteDraft,
    Offer,
    Render,
    Warrant,
    entitled,
    facts_read,
    policy_facts,
)
from interlock.kernel.store.inboxes import Inboxes
from interlock.kernel.store.leases import Lease, initial_lease_of
from interlock.kernel.store.redis import Store
from interlock.kernel.table import UNBOUND, Bounds, Data

CONFLICTS_MAX = 50


@dataclass(frozen=True, slots=True)
class Fired:
    """The result of a call. `replayed`: the same call was made before, and changed the record then.

    `record` is the record after the call; it may be None where the call was replayed. `owed` are
    the effects that the caller should publish now, where the commit did not push their messages.
    `ignored` is why the table ignored the trigger, which is noted. `lease` is the initial lease.
    """

    version: int
    record: Record | None
    replayed: bool = False
    owed: tuple[EffectMessage, ...] = ()
    ignored: str = ""
    lease: Lease | None = None


class Lifecycle:
    """Creates and changes the records of all machines in one store."""

    def __init__(self, store: Store, machines: Mapping[str, Machine], render: Render) -> None:
        self.store, self.machines, self.render = store, machines, render
        self.inboxes = Inboxes(store.client, store.keys, store.limits)

    def machine(self, name: str) -> Machine:
        """Return a machine by name."""
        try:
            return self.machines[name]
        except KeyError:
            raise UnknownMachineError(name, sorted(self.machines)) from None

    def create(
        self,
        machine_name: str,
        new_id: str,
        payload: Data,
        cause: Cause,
        *,
        priority: int = 5,
        countdown: str = "",
        bounds: Bounds = UNBOUND,
        initial_lease: InitialLease | None = None,
        begins: bool = False,
    ) -> Fired:
        """Create a record. A repeat with the same payload changes nothing.

        Raises IdTakenError where the id exists with another payload. A child joins a `countdown`
        of its parent (<name>:<generation>). `bounds` are what the record and all below it may use;
        without them the data of a root decide. `initial_lease` leases the first effect of the
        record in the same step. If it `begins`, the first trigger of its machine is fired in that
        step too, where it needs nothing of other records: else its version is 1.
        """
        machine = self.machine(machine_name)
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
        """
        try:
            return self._fired(target, trigger, payload, call, initial_lease)
        except IgnoredError as refusal:
            if isinstance(target, Record):
                # It may have left its state since it was read.
                return self.fire(target.id, trigger, payload, call, initial_lease=initial_lease)
            return self._ignored(target, trigger, refusal.why, call)

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
        twice. After a note with deltas the record also owes its mirror.
        """
        machine = self.machine(record.machine)
        if draft.deltas:
            mirrors = (owed.effect for owed in machine.mirrored())
            draft = replace(draft, owes=(*draft.owes, *mirrors))
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
        return answer

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
            machine.inbox.data(mail),
            machine.inbox.effect,
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
        return answer

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
        return self.store.note(record, draft, op_id=op_id, warrant=warrant, render=self.render)

    def flag(
        self, name: str, target: str, *, op_id: str, cause: Cause, proposal: str = ""
    ) -> Answer:
        """Pause, resume or retry a record, as a person asked. Its version stays the same.

        Raises StaleDecisionError where effects may not try again, because the `proposal` to do so
        is no longer the current one.
        """
        check_op_id(op_id)
        record = self.store.load(record_id(target)).record
        answer = self.store.flag(name, record, op_id=op_id, cause=cause, proposal=proposal)
        match answer.status:
            case "reused":
                raise OpIdReusedError(op_id)
            case "stale":
                now = self.store.load(record.id).record
                raise StaleDecisionError(proposal, now.retry_proposal or None)
        return answer

    def facts(self, record: Record, ids: Sequence[str]) -> Data:
        """Read the facts of other records that guards of this record's machine may use."""
        return policy_facts(self.store.load(record.id, reads=ids).facts if ids else NO_FACTS)

    def _known(self, record: Record) -> Machine:
        machine = self.machine(record.machine)
        if record.schema > machine.schema:
            raise NewerSchemaError(record.id, record.schema, machine.schema)
        return machine

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
        if warrant.kind == "person" and warrant.proof[0] != str(record.entered):
            seen = f"{record.id}:{warrant.proof[0]}"
            waits = self._known(record).stage(record.state).waits_for_person(record.data)
            raise StaleDecisionError(seen, record.proposal if waits else None)

    def _refuse_fenced(self, target: str, warrant: Warrant) -> None:
        if warrant.kind == "person":
            self._check_proposal(self.store.load(target).record, warrant)
        raise FencedError(target, warrant.kind)


def _digest(trigger: str, payload: Data) -> str:
    return codec.digest(trigger, codec.encode(payload, "the payload"))
