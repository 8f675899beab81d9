"""Calls the kernel for workers and clients, and publishes the effects that follow."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from threading import BoundedSemaphore
from typing import TYPE_CHECKING
from uuid import uuid4

from interlock.kernel.effect import Effect
from interlock.kernel.errors import (
    CallError,
    KernelError,
    StoreDeniedError,
    StoreError,
    StoreReadOnlyError,
)
from interlock.kernel.event import Cause
from interlock.kernel.lifecycle import Fired, Lifecycle
from interlock.kernel.machine import Machine
from interlock.kernel.record import Record
from interlock.kernel.store.access_tokens import AccessTokens
from interlock.kernel.store.acts import PersonActs
from interlock.kernel.store.call_times import CallTimes
from interlock.kernel.store.card_reads import CardReads
from interlock.kernel.store.clocks import Clocks
from interlock.kernel.store.codec import digest, encode
from interlock.kernel.store.commands import (
    Answer,
    Call,
    EffectMessage,
    InitialLease,
    Limits,
    NoteDraft,
    Offer,
    Warrant,
)
from interlock.kernel.store.feed import Feed
from interlock.kernel.store.hosts import Hosts
from interlock.kernel.store.inboxes import Inboxes
from interlock.kernel.store.indexes import Indexes
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.leases import Leases
from interlock.kernel.store.link_key import link_key
from interlock.kernel.store.listings import Listings
from interlock.kernel.store.metrics import MetricsReader
from interlock.kernel.store.news import Newsreader
from interlock.kernel.store.overdue import OverdueReader
from interlock.kernel.store.owed import OwedReader
from interlock.kernel.store.redis import Store
from interlock.kernel.store.rejected import RejectedMessages
from interlock.kernel.store.saved_views import SavedViews
from interlock.kernel.store.scripts import Client, count_call_times
from interlock.kernel.store.slots import Slots
from interlock.kernel.store.subscriptions import Subscriber, Subscriptions
from interlock.kernel.store.views import Views
from interlock.kernel.table import UNBOUND, Bounds, Data
from interlock.workers.config import Settings, ms
from interlock.workers.engine.passes import Passes, with_lease
from interlock.workers.engine.quota import RecordQuota
from interlock.workers.engine.refusals import repeat_while_refused
from interlock.workers.engine.store_client import greet_store, open_safe_store
from interlock.workers.engine.tracing import carried
from interlock.workers.text import storable

if TYPE_CHECKING:  # imported where they are opened
    from interlock.workers.engine.publisher import Publisher
    from interlock.workers.gateways.capabilities.registry import Registry

COMPARISONS_MAX = 4  # of one process at once: each takes a thread and git for up to 10 s
# The warrants of those parts of Interlock that report what files, programs and agents say.
REPORTING = ("token", "component")
FLAGGED = ("paused", "resumed", "retried")  # what a call of `flag` has done


class Dispatch:
    """The connection of one process to the kernel, the store and the broker.

    That of a worker is `patient`: its calls wait longer for a store that hangs.
    """

    def __init__(
        self,
        settings: Settings,
        machines: Mapping[str, Machine],
        publisher: Publisher | None = None,
        *,
        patient: bool = True,
    ) -> None:
        self.settings, self.machines = settings, machines
        self._store, self._patient = settings.store, patient
        if publisher is not None:
            self.publisher = publisher
        self.holder = f"{settings.host}:{os.getpid()}:{uuid4().hex[:6]}"
        self.call_times = CallTimes(self.keys.metrics(0))
        self.comparisons = BoundedSemaphore(COMPARISONS_MAX)

    @cached_property
    def publisher(self) -> Publisher:
        """The connection to the broker."""
        # A client that only reads does without Celery, which takes as long to import as the rest.
        from interlock.workers.engine.publisher import open_publisher  # noqa: PLC0415

        return open_publisher(self.settings, self.machines)

    @cached_property
    def client(self) -> Client:
        """The store's client; a store that may drop data or has another format is refused here."""
        connections_max = self.settings.concurrency + 50
        client = open_safe_store(
            self._store, self.keys, connections_max=connections_max, patient=self._patient
        )
        count_call_times(client, self.call_times)
        return client

    def wait_for_store(self) -> None:
        """Open the store; wait for one that answers and refuses this process.

        Raises StoreDownError or StoreMisconfiguredError where a setting may be wrong.
        """
        errors = (StoreDeniedError, StoreReadOnlyError)
        repeat_while_refused("the store", lambda: self.client, errors)

    def greet(self) -> None:
        """Raise a StoreError if no store answers in two seconds: a person does not wait longer."""
        greet_store(self._store)

    @cached_property
    def keys(self) -> Keys:
        """The keys of this deployment in the store."""
        return Keys(self.settings.prefix)

    @cached_property
    def limits(self) -> Limits:
        """The periods that the store's scripts use, from the settings."""
        return Limits(
            op_window_ms=ms(self.settings.op_window_s),
            poll_ms=ms(self.settings.poll_s),
            remind_ms=ms(self.settings.remind_s),
            tombstone_ms=ms(self.settings.tombstone_s),
        )

    @cached_property
    def lifecycle(self) -> Lifecycle:
        """The kernel's calls that create and change records."""
        store = Store(self.client, self.keys, self.limits)
        return Lifecycle(store, self.machines, self.render)

    @cached_property
    def leases(self) -> Leases:
        """The leases of effects: claim, renew, settle, release."""
        return Leases(self.client, self.keys, self.limits)

    @cached_property
    def subscriptions(self) -> Subscriptions:
        """Subscriptions to the end of other records."""
        return Subscriptions(self.client, self.keys)

    @property
    def inboxes(self) -> Inboxes:
        """The inboxes of records."""
        return self.lifecycle.inboxes

    @cached_property
    def slots(self) -> Slots:
        """Slots with a limit of concurrent holders, and the queues for them."""
        return Slots(self.client, self.keys)

    @cached_property
    def indexes(self) -> Indexes:
        """The indexes of effects, timers, records that wait for a person, and ended families."""
        return Indexes(self.client, self.keys, self.limits)

    @cached_property
    def owed(self) -> OwedReader:
        """The effects that nobody has at work."""
        return OwedReader(self.client, self.keys)

    @cached_property
    def passes(self) -> Passes:
        """What the sweep of orphans notes as it passes."""
        clocks = Clocks(self.client, self.keys)
        return Passes(self.settings, self.machines, self.indexes, clocks, self.views)

    @cached_property
    def rejected(self) -> RejectedMessages:
        """Messages that nobody can act on, kept for people."""
        return RejectedMessages(self.client, self.keys)

    @cached_property
    def metrics(self) -> MetricsReader:
        """What the scripts count for metrics."""
        return MetricsReader(self.client, self.keys)

    @cached_property
    def access_tokens(self) -> AccessTokens:
        """The access tokens of people and programs that call over HTTP."""
        return AccessTokens(self.client, self.keys)

    @cached_property
    def acts(self) -> PersonActs:
        """The latest acts of people over all records."""
        return PersonActs(self.client, self.keys)

    @cached_property
    def saved_views(self) -> SavedViews:
        """The addresses of pages that people gave a name."""
        return SavedViews(self.client, self.keys)

    @cached_property
    def hosts(self) -> Hosts:
        """What the computers of the deployment say of themselves."""
        return Hosts(self.client, self.keys)

    @cached_property
    def views(self) -> Views:
        """Reads of records, logs and counts."""
        return Views(self.client, self.keys)

    @cached_property
    def quota(self) -> RecordQuota:
        """How many records there may be."""
        return RecordQuota(self.views, self.machines, self.settings.records_max)

    @cached_property
    def card_reads(self) -> CardReads:
        """What is shown of cards beside their records."""
        return CardReads(self.client, self.keys)

    @cached_property
    def news(self) -> Newsreader:
        """What has happened since it was last reported."""
        return Newsreader(self.client, self.keys)

    @cached_property
    def overdue(self) -> OverdueReader:
        """Which records have waited for a person for too long."""
        return OverdueReader(self.client, self.keys)

    @cached_property
    def feed(self) -> Feed:
        """All commits, in the order of each partition."""
        return Feed(self.client, self.keys)

    @cached_property
    def link_key(self) -> bytes:
        """The key that signs links for people."""
        return link_key(self.client, self.keys)

    @cached_property
    def registry(self) -> Registry:
        """The capabilities, which all clients of this connection share."""
        # A client that reads needs none, and it imports the libraries of schemas.
        from interlock.workers.gateways.capabilities.registry import open_registry  # noqa: PLC0415

        return open_registry(self.settings)

    def registry_or_none(self) -> Registry | None:
        """Return the capabilities, or None where this process cannot load them."""
        try:
            return self.registry
        except KernelError:
            return None

    @cached_property
    def listings(self) -> Listings:
        """Lists of records, page by page."""
        return Listings(self.client, self.keys)

    def create(
        self,
        machine: str,
        new_id: str,
        payload: Data,
        call: Call,
        *,
        priority: int = 5,
        countdown: str = "",
        bounds: Bounds = UNBOUND,
        initial_lease: InitialLease | None = None,
        begins: bool = False,
    ) -> Fired:
        """Create a record and publish its effects. If it `begins`, fire its first trigger too."""
        call = carried(call, self.settings)
        fired = self.lifecycle.create(
            machine,
            new_id,
            payload,
            call.cause,
            priority=priority,
            countdown=countdown,
            bounds=bounds,
            initial_lease=initial_lease,
            begins=begins,
        )
        self.publish(fired.owed)
        first = self.lifecycle.machine(machine).first_trigger
        if begins and first and fired.version == 1:
            with suppress(CallError):  # it may have begun already, by a timer or an earlier call
                self.fire(new_id, first, {}, Call(call.cause, f"begin:{new_id}"))
        return fired

    def fire(
        self,
        target: Record | str,
        trigger: str,
        payload: Data,
        call: Call,
        *,
        initial_lease: InitialLease | Offer | None = None,
    ) -> Fired:
        """Fire a trigger and publish the effects of the transition.

        What a part of Interlock reports of files, programs and agents is made storable; from a
        person or a producer, text that cannot be stored is refused.
        """
        call = carried(call, self.settings)
        if call.warrant.kind in REPORTING:
            payload = storable(payload)
        fired = self.lifecycle.fire(target, trigger, payload, call, initial_lease=initial_lease)
        self.publish(fired.owed)
        if not fired.replayed:
            self._list_act(str(getattr(target, "id", target)), trigger, call.cause)
        return fired

    def was_created_with(self, record_id: str, machine: str, payload: Data) -> bool:
        """Return whether a record exists that was created with this payload."""
        created = digest(machine, encode(payload, "the payload"))
        return self.views.creation_digests([record_id]).get(record_id) == created

    def op_outcome(self, record_id: str, op_id: str) -> str:
        """Return the outcome of an earlier call by its op-id; '' if the store has it no more."""
        return self.lifecycle.store.load(record_id, op_id).op_outcome

    def note(
        self, record: Record, draft: NoteDraft, *, op_id: str = "", warrant: Warrant | None = None
    ) -> Answer:
        """Write a note to a record's log; its state does not change."""
        options = {"warrant": warrant} if warrant else {}
        draft = replace(draft, detail=storable(draft.detail))
        answer = self.lifecycle.note(record, draft, op_id=op_id, **options)
        self.publish(answer.owed)
        return answer

    def post(self, record_id: str, mail: Data, op_id: str) -> Answer:
        """Post mail to a record's inbox and publish the effects of that."""
        answer = self.lifecycle.post(record_id, mail, op_id)
        self.publish(answer.owed)
        return answer

    def remind(
        self, record: Record, timer: str, warrant: Warrant, fired: int, op_id: str
    ) -> Answer:
        """Write a reminder for a due timer that has no trigger, and set the timer anew."""
        answer = self.lifecycle.remind(record, timer, warrant, fired, op_id)
        self.publish(answer.owed)
        return answer

    def flag(self, name: str, record_id: str, call: Call, *, proposal: str = "") -> Answer:
        """Pause, resume or retry a record's effects."""
        answer = self.lifecycle.flag(
            name, record_id, op_id=call.op_id, cause=call.cause, proposal=proposal
        )
        self.publish(answer.owed)
        if answer.status in FLAGGED:
            self._list_act(record_id, name, call.cause)
        return answer

    def _list_act(self, record_id: str, what: str, cause: Cause) -> None:
        with suppress(StoreError):  # it is done, and the log of the record has it
            self.acts.add(record_id, what, cause)

    def leave_countdown(self, parent: Subscriber, member: str, outcome: str) -> Answer:
        """Take an ended record out of a countdown that waits for it."""
        answer = self.lifecycle.store.leave_countdown(parent, member, outcome, self.render)
        self.publish(answer.owed)
        return answer

    def wake(self, record_id: str, effect: Effect, why: Data, op_id: str) -> None:
        """Make an effect of a record due again, because a thing it waits for may have come."""
        record = self.views.record(record_id)
        self.note(record, NoteDraft(f"{effect}_owed", why, owes=(effect,)), op_id=op_id)

    def effect(self, machine: str, name: str) -> Effect:
        """Return an effect of a machine, with the lease that this deployment sets."""
        return with_lease(self.lifecycle.machine(machine).effects[name], self.settings)

    def render(self, message: EffectMessage) -> tuple[str, bytes] | None:
        """Render an effect's message for the commit to push; None if store and broker differ."""
        return self.publisher.render(message) if self.settings.fused else None

    def publish(self, messages: Sequence[EffectMessage]) -> int:
        """Publish messages and return how many the broker took; a sweep repeats the others."""
        return self.publisher.publish(messages) if messages else 0
