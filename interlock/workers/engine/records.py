"""What one part of a deployment does to records: reads them, creates them, moves them, notes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from interlock.kernel.effect import Effect
from interlock.kernel.event import Cause, Event, Note
from interlock.kernel.exported_event import LifecycleEvent, LifecycleEvents
from interlock.kernel.families import countdowns_begun
from interlock.kernel.fired import Fired
from interlock.kernel.machine import Machine
from interlock.kernel.record import PRIORITY_DEFAULT, Record, split_key
from interlock.kernel.restoration import Restoration
from interlock.kernel.store.codec import digest, encode, nonce_of, reading
from interlock.kernel.store.commands import (
    NO_WARRANT,
    Call,
    InitialLease,
    NoteDraft,
    Offer,
    Warrant,
    facts_read,
)
from interlock.kernel.store.fold import fold
from interlock.kernel.store.inboxes import Inboxes
from interlock.kernel.store.indexes import Indexes
from interlock.kernel.store.leases import Lease, Leases
from interlock.kernel.store.repairs import Repairs
from interlock.kernel.store.slots import Slots
from interlock.kernel.store.views import Views
from interlock.kernel.table import UNBOUND, Bounds, Data, Owed
from interlock.workers.config import Settings
from interlock.workers.engine.cloud_event import cloud_event
from interlock.workers.engine.countdown import Countdown
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.holds import Holds
from interlock.workers.engine.leases import initial_lease
from interlock.workers.engine.submission import check_submission
from interlock.workers.engine.work_secrets import secrets_of
from interlock.workers.redaction import Redaction

if TYPE_CHECKING:
    from interlock.workers.gateways.capabilities.registry import Registry
    from interlock.workers.gateways.sources import Sources

Held = tuple[str, str]  # the suffix of an effect, and the token of its holder


class Records:
    """The records of a deployment, as one actor reads and changes them.

    `actor` is the name that the log has for who changes them. `is_component`: it is a part of
    Interlock, which may fire what a table leaves to that part.
    """

    def __init__(
        self, dispatch: Dispatch, actor: str, codes: tuple[str, ...] = (), *, is_component: bool
    ) -> None:
        self.dispatch, self.actor, self.codes = dispatch, actor, codes
        self.is_component = is_component

    def named(self, name: str) -> Records:
        """Return the same records, as another part of Interlock changes them."""
        return component(self.dispatch, name)

    @property
    def as_producer(self) -> Records:
        """The same records, changed with the rights of a producer and under the same name."""
        return Records(self.dispatch, self.actor, self.codes, is_component=False)

    @property
    def settings(self) -> Settings:
        """The settings of this process."""
        return self.dispatch.settings

    @property
    def redaction(self) -> Redaction:
        """What replaces the secrets of this process in a text by asterisks.

        Apply it before you cut a text: a secret that was cut is not recognised.
        """
        return Redaction(secrets_of(self.settings))

    @property
    def capabilities(self) -> Registry:
        """The capabilities of this process, loaded when they are first needed, by name.

        Its `catalog` is what a model may choose from; `CapabilityCall` calls one.
        """
        return self.dispatch.registry

    @property
    def sources(self) -> Sources:
        """The sources of requests, which remove a finished request from where it came from."""
        # Few processes need them, and the modules that a deployment adds are imported with them.
        from interlock.workers.gateways.sources import open_sources  # noqa: PLC0415

        return open_sources(self.settings)

    @property
    def machines(self) -> Mapping[str, Machine]:
        """The machines that this process knows, by name."""
        return self.dispatch.machines

    @property
    def views(self) -> Views:
        """What is read: `record(id)` (or UnknownRecordError), `records(ids)`, `ids(machine)`, ...

        The docstring of `interlock.system.records` lists more.
        """
        return self.dispatch.views

    @property
    def inboxes(self) -> Inboxes:
        """The mail that records have and have not read."""
        return self.dispatch.inboxes

    @property
    def repairs(self) -> Repairs:
        """What corrects the sums of a family, and frees the names that ended records hold."""
        return Repairs(self.dispatch.client, self.dispatch.keys)

    def restoration(self, name: str) -> Restoration:
        """Return what restores families from their logs. A family holds `name` meanwhile."""
        return Restoration(self.dispatch.client, self.dispatch.keys, self.machines, name=name)

    def now_ms(self) -> int:
        """Return the time of the store, in ms since the epoch."""
        return self.dispatch.views.now_ms()

    def folded(self, machine: str, lines: Sequence[Event | Note]) -> Record:
        """Return the record of a machine to which the lines of a log lead. Raises StoreError."""
        return fold(self.machine(machine), lines)

    def reading(self, record_id: str) -> AbstractContextManager[None]:
        """Read the data of a record that may be damaged, in the block of a `with`.

        Where a field is missing, UnreadableRecordError, a ValueError, names the record.
        """
        return reading(record_id)

    def countdown(self, record: Record, name: str) -> Countdown:
        """Return a countdown of a record, which its row with `spawns` begins."""
        return Countdown(self.dispatch, record, name)

    def countdowns(self, record: Record) -> list[Countdown]:
        """Return every countdown that a record has begun, the oldest first."""
        machine, log = self.machine(record.machine), self.views.history(record.id)
        return [self.countdown(record, name) for name in countdowns_begun(machine, log)]

    @property
    def slots(self) -> Slots:
        """The slots that records hold or wait for: names, each with a limited number of them."""
        return self.dispatch.slots

    @property
    def leases(self) -> Leases:
        """The leases of effects, by which their holders renew what they hold."""
        return self.dispatch.leases

    @property
    def holder(self) -> str:
        """The name of this process as the holder of leases."""
        return self.dispatch.holder

    def machine(self, name: str) -> Machine:
        """Return a machine by its name. Raises UnknownMachineError."""
        return self.dispatch.lifecycle.machine(name)

    def effect(self, machine: str, name: str) -> Effect:
        """Return an effect of a machine, with the lease that this deployment sets."""
        return self.dispatch.effect(machine, name)

    def admit(self, new_ids: Collection[str], *, unnamed: int = 0) -> None:
        """Check that there may be so many more records: see `RecordQuota.admit`.

        A client calls it before it creates what its caller asks for. Raises QuotaError.
        """
        self.dispatch.quota.admit(new_ids, unnamed=unnamed)

    def created_with(self, machine: str, payloads: Mapping[str, Data]) -> dict[str, bool]:
        """Return for each id of a record that exists whether it was created from this payload."""
        found = self.views.creation_digests(payloads)
        return {
            one: created == digest(machine, encode(payloads[one], "the payload"))
            for one, created in found.items()
        }

    def check_new(self, machine: str, payload: Data) -> None:
        """Raise what the creation of a record from a payload would raise, and create nothing."""
        encode(payload, "the payload")
        self.machine(machine).initial_data(payload)

    def create(
        self,
        machine: str,
        new_id: str,
        payload: Data,
        *,
        reason: str = "",
        priority: int = PRIORITY_DEFAULT,
        countdown: str = "",
        bounds: Bounds = UNBOUND,
        leased_by: str = "",
        begins: bool = False,
    ) -> Fired:
        """Create a record; a repeat with the same payload changes nothing. See `Lifecycle.create`.

        It may be one more than the deployment's limit of records: what a client creates for its
        caller is admitted before, by `admit`. With `leased_by` that holder gets the
        lease of the record's effect in the same step, as `lease` of what is returned, also where an
        earlier call of that holder has created the record. Raises HeldError where the lease is lost
        already.
        """
        check_submission(payload, new_id, priority)
        nonce = nonce_of(f"{leased_by} creates {new_id}")  # a repeat finds its lease by it
        fired = self.dispatch.lifecycle.create(
            machine,
            new_id,
            payload,
            self._cause(reason),
            priority=priority,
            countdown=countdown,
            bounds=bounds,
            initial_lease=self._offer(leased_by, nonce) if leased_by else None,
            begins=begins,
        )
        if not leased_by:
            return fired
        return replace(fired, lease=initial_lease(self.dispatch, new_id, nonce, leased_by))

    def fire(
        self,
        record: Record | str,
        trigger: str,
        payload: Data | None = None,
        *,
        op_id: str | None = None,
        reason: str = "",
        version: int | None = None,
        held: Held | None = None,
        deltas: Mapping[str, int] | None = None,
        leased_by: str = "",
    ) -> Fired:
        """Fire a trigger at a record. Repeat a call whose answer was lost with the same op-id.

        Without `op_id` each call is a new one, which acts once more if it is made again. With
        `version` it is refused once the record has left the state that it entered with that
        version; with `held`, the `(lease.suffix, lease.token)` of a `Lease`, once that is lost;
        not both. At its own record a handler fires by `EffectWork.fire`. `deltas` are costs,
        integers by name. With `leased_by` that holder gets the lease of the entered state's effect
        in the same step, as `lease` of what is returned. Raises what `Lifecycle.fire` raises, and
        HeldError where the lease is lost already.
        """
        call = Call(
            self._cause(reason), op_id or uuid4().hex, self._warrant(version, held), deltas or {}
        )
        nonce = uuid4().hex[:8]
        offer = self._offer(leased_by, nonce) if leased_by else None
        fired = self.dispatch.lifecycle.fire(
            record, trigger, payload or {}, call, initial_lease=offer
        )
        if offer is None or fired.lease is not None:
            return fired
        record_id = record.id if isinstance(record, Record) else record
        lease = initial_lease(self.dispatch, record_id, nonce, leased_by)
        return replace(fired, lease=lease)

    def check(self, record: Record, trigger: str, payload: Data) -> None:
        """Raise what firing a trigger at a record would raise by its table, and change nothing."""
        machine = self.machine(record.machine)
        facts = self.dispatch.lifecycle.facts(record, facts_read(machine, record, trigger))
        machine.decide(record, trigger, machine.admit(trigger, payload), facts)

    def note(
        self,
        record: Record,
        kind: str,
        detail: Mapping[str, Any],
        *,
        op_id: str | None = None,
        once: bool = True,
        deltas: Mapping[str, int] | None = None,
        timers: Mapping[str, int] | None = None,
        held: Held | None = None,
    ) -> None:
        """Write a note into the log of a record.

        A call that is repeated with the same op-id writes nothing; without `op_id` each call is a
        new one. With `once=False` the store keeps no op-id: a call whose answer is lost may write
        the note twice, and the note must have no `deltas`. `timers` gives, for timers that run, the
        milliseconds after which each is due from now on. With `held`, as of `fire`, the note is
        refused once that holder has lost its lease.
        """
        again = tuple((name, after_ms, 0) for name, after_ms in (timers or {}).items())
        draft = NoteDraft(kind, detail, deltas or {}, timers=again)
        warrant = Warrant.token(*held) if held else NO_WARRANT
        its_op_id = (op_id or uuid4().hex) if once else ""
        self.dispatch.lifecycle.note(record, draft, op_id=its_op_id, warrant=warrant)

    def op_id_of(self, prefix: str, trigger: str, payload: Data) -> str:
        """Return an op-id of what is fired: the same trigger with the same payload has the same."""
        return f"{prefix}:{digest(trigger, encode(payload, 'the payload'))}"

    def post(self, record_id: str, mail: Data, *, op_id: str | None = None) -> str:
        """Post mail to the inbox of a record, and return the id of the mail.

        A repeat with the same op-id posts nothing, and returns the same id. Raises what
        `Lifecycle.post` raises.
        """
        return self.dispatch.lifecycle.post(record_id, mail, op_id or uuid4().hex).detail

    def wake(self, record_id: str, effect: Effect, why: Data, op_id: str) -> None:
        """Make an effect of a record due again, because what it waits for may have come."""
        self.dispatch.lifecycle.wake(record_id, effect, why, op_id)

    def prune(self, record: Record, *, tombstone_ms: int) -> str:
        """Delete a record without children that has ended; its id can be used again after a time.

        Returns pruned, or why it is not: busy or missing.
        """
        limits = replace(self.dispatch.limits, tombstone_ms=tombstone_ms)
        indexes = Indexes(self.dispatch.client, self.dispatch.keys, limits)
        return indexes.prune(record, (), age_ms=0, last=True)

    def was_made(self, record_id: str, op_id: str) -> bool:
        """Whether a call with this op-id has changed a record before."""
        return bool(self.dispatch.lifecycle.op_outcome(record_id, op_id))

    def effect_of(self, key: str) -> tuple[str, str]:
        """Return the id of an effect's record, and the effect's suffix there. Raises CallError."""
        return split_key(key)

    @cached_property
    def _exported(self) -> LifecycleEvents:
        return LifecycleEvents(self.machines)

    def published(self, event: Event, machine: str) -> LifecycleEvent:
        """Return an event of a record of a machine in the form in which events are exported."""
        return self._exported.published(event, machine)

    def cloud_event(
        self, kind: str, event_id: str, subject: str, at_ms: int, data: Data
    ) -> dict[str, Any]:
        """Return data in the envelope of CloudEvents 1.0; the id stays when it is sent again."""
        return cloud_event(
            id=event_id,
            kind=kind,
            namespace=self.settings.namespace,
            subject=subject,
            at_ms=at_ms,
            data=data,
        )

    def holds(self) -> Holds:
        """Return the names that records of some families hold, each family read once."""
        return Holds(self.dispatch)

    def computers(self) -> Mapping[str, Mapping[str, Any]]:
        """Return by its name what each computer with workers has announced of itself."""
        return self.dispatch.hosts.facts()

    def settle(self, record: Record, held: Held) -> str:
        """End an effect of a record without an outcome, as its holder. See `Dispatch.settle`."""
        suffix, token = held
        entry = next(entry for entry in record.entries if entry.suffix == suffix)
        key, kind = entry.key(record.id), entry.kind
        lease = Lease(key, suffix, token, entry.attempts, entry.name, kind, record, interrupts=0)
        return self.dispatch.settle(lease)

    def _offer(self, holder: str, nonce: str) -> Offer:
        def offer(after: Record, owed: Owed) -> InitialLease:
            lease_ms = self.effect(after.machine, owed.effect.name).lease_ms
            return InitialLease(nonce, holder, lease_ms)

        return offer

    def _cause(self, reason: str) -> Cause:
        return Cause(self.actor, reason, self.codes)

    def _warrant(self, version: int | None, held: Held | None) -> Warrant:
        if held is not None and version is not None:
            raise TypeError("give version=, what a person saw, or held=, a lease: not both")
        if held is not None:
            return Warrant.token(*held)
        if self.is_component:
            return Warrant.component(self.actor, version)
        return NO_WARRANT if version is None else Warrant.person(version)


def component(dispatch: Dispatch, name: str) -> Records:
    """Return the records as a part of Interlock reads and changes them, under its name."""
    return Records(dispatch, name, is_component=True)
