"""The workers' one door to the kernel: fire, render, publish. It decides nothing."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from uuid import uuid4

from celery import Celery
from kombu.exceptions import OperationalError

from interlock.kernel.effect import Effect
from interlock.kernel.errors import StoreDownError
from interlock.kernel.lifecycle import Fired, Lifecycle
from interlock.kernel.machine import Machine
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import Record
from interlock.kernel.store.commands import (
    Answer,
    Call,
    Doorbell,
    InitialLease,
    Jot,
    Limits,
    Warrant,
)
from interlock.kernel.store.connect import open_store, refuse_unsafe
from interlock.kernel.store.inboxes import Inboxes
from interlock.kernel.store.indexes import Indexes, Meeting
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.leases import Leases
from interlock.kernel.store.redis import Store
from interlock.kernel.store.rejected import Aside
from interlock.kernel.store.scripts import Client
from interlock.kernel.store.slots import Slots
from interlock.kernel.store.subscriptions import Dependent, Tells
from interlock.kernel.store.views import Views
from interlock.kernel.table import Data
from interlock.workers.config import Settings
from interlock.workers.engine.app import broker_priority, make_app, queue_at, queue_of
from interlock.workers.engine.messages import MessageTemplates

log = logging.getLogger(__name__)

SHOWN_MAX = 120
LEASE_S = 30.0
WAITING_S = 1.0


class Dispatch:
    """One process's way to the kernel, the store and the broker."""

    def __init__(self, settings: Settings, machines: Mapping[str, Machine], app: Celery) -> None:
        self.settings, self.machines, self.app = settings, machines, app
        self.templates = MessageTemplates(app)
        self._waiting: dict[str, tuple[float, int]] = {}
        self.holder = f"{settings.host}:{os.getpid()}:{uuid4().hex[:6]}"

    @cached_property
    def client(self) -> Client:
        """The store's client; a store that could drop data silently is refused here."""
        client = open_store(self.settings.store_url, connections_max=self.settings.concurrency + 50)
        refuse_unsafe(client)
        return client

    @cached_property
    def keys(self) -> Keys:
        """The names in the store."""
        return Keys(self.settings.prefix)

    @cached_property
    def limits(self) -> Limits:
        """The store's windows, from the settings."""
        return Limits(
            op_window_ms=ms(self.settings.op_window_s),
            look_ms=ms(self.settings.look_s),
            remind_ms=ms(self.settings.remind_s),
            tombstone_ms=ms(self.settings.tombstone_s),
        )

    @cached_property
    def lifecycle(self) -> Lifecycle:
        """Create and fire."""
        store = Store(self.client, self.keys, self.limits)
        return Lifecycle(store, self.machines, self.render)

    @cached_property
    def leases(self) -> Leases:
        """Claim, renew, settle, release."""
        return Leases(self.client, self.keys, self.limits)

    @cached_property
    def tells(self) -> Tells:
        """Who is told of whose end."""
        return Tells(self.client, self.keys)

    @property
    def inboxes(self) -> Inboxes:
        """Mail to records."""
        return self.lifecycle.inboxes

    @cached_property
    def slots(self) -> Slots:
        """What only so many may have at once."""
        return Slots(self.client, self.keys)

    @cached_property
    def indexes(self) -> Indexes:
        """What sweeps do."""
        return Indexes(self.client, self.keys, self.limits)

    @cached_property
    def aside(self) -> Aside:
        """Messages that nobody can act on."""
        return Aside(self.client, self.keys)

    @cached_property
    def views(self) -> Views:
        """What people read."""
        return Views(self.client, self.keys)

    def create(
        self,
        machine: str,
        new_id: str,
        payload: Data,
        call: Call,
        *,
        priority: int = 5,
        countdown: str = "",
        cap: int | None = None,
        initial_lease: InitialLease | None = None,
    ) -> Fired:
        """Bear a record and publish what it owes."""
        fired = self.lifecycle.create(
            machine,
            new_id,
            payload,
            call.cause,
            priority=priority,
            countdown=countdown,
            cap=cap,
            initial_lease=initial_lease,
        )
        self.publish(fired.owed)
        return fired

    def fire(
        self,
        target: Record | str,
        trigger: str,
        payload: Data,
        call: Call,
        *,
        initial_lease: InitialLease | None = None,
    ) -> Fired:
        """Fire a trigger and publish what the transition owes."""
        fired = self.lifecycle.fire(target, trigger, payload, call, initial_lease=initial_lease)
        self.publish(fired.owed)
        return fired

    def outcome(self, of: str, op_id: str) -> str:
        """Return what is kept of a call, by its op-id: '' where it was never made, or long ago."""
        return self.lifecycle.store.load(of, op_id).op_outcome

    def note(
        self, record: Record, jot: Jot, *, op_id: str = "", warrant: Warrant | None = None
    ) -> Answer:
        """Write a line that changes no state."""
        given = {"warrant": warrant} if warrant else {}
        answer = self.lifecycle.note(record, jot, op_id=op_id, **given)
        self.publish(answer.owed)
        return answer

    def post(self, of: str, mail: Data, op_id: str) -> Answer:
        """Post a message to a record's inbox, and publish what that owes."""
        answer = self.lifecycle.post(of, mail, op_id)
        self.publish(answer.owed)
        return answer

    def remind(
        self, record: Record, timer: str, warrant: Warrant, fired: int, op_id: str
    ) -> Answer:
        """Answer a due timer that has no trigger."""
        answer = self.lifecycle.remind(record, timer, warrant, fired, op_id)
        self.publish(answer.owed)
        return answer

    def flag(self, name: str, record_id: str, call: Call) -> Answer:
        """Pause, resume or retry."""
        answer = self.lifecycle.flag(name, record_id, op_id=call.op_id, cause=call.cause)
        self.publish(answer.owed)
        return answer

    def depart(self, parent: Dependent, member: str, outcome: str) -> Answer:
        """Take an ended member out of a countdown."""
        answer = self.lifecycle.store.depart(parent, member, outcome, self.render)
        self.publish(answer.owed)
        return answer

    def owe(self, record_id: str, effect: Effect, why: Data, op_id: str) -> None:
        """Owe an effect of a record anew: what it waits for may have come."""
        record = self.views.record(record_id)
        self.note(record, Jot(f"{effect}_owed", why, owes=(effect,)), op_id=op_id)

    def set_aside(self, kind: str, reason: str, body: object) -> int:
        """Keep and count a message that nobody can ever act on."""
        return self.aside.put(kind, reason, body)

    def effect(self, machine: str, name: str) -> Effect:
        """Return an effect of a machine, with the limits that this deployment sets."""
        effect = self.lifecycle.machine(machine).effects[name]
        if self.settings.lease_s is not None:
            effect = replace(effect, lease_ms=ms(self.settings.lease_s))
        return effect

    def meet(self, partition: int, *, passing: bool) -> Meeting:
        """Meet a partition's server."""
        lease_s = self.settings.lease_s or LEASE_S
        return self.indexes.meet(
            partition,
            passing=passing,
            # A pass that is late by less than half a lease hides no holder that renews in time.
            period_ms=ms(max(self.settings.sweep_period_s, lease_s / 4)),
            lease_ms=ms(lease_s),
        )

    def render(self, bell: Doorbell) -> tuple[str, bytes] | None:
        """Render an effect's message where the commit can push it; None where it cannot."""
        if not self.settings.fused:
            return None
        task, queue, priority, shown = self._address(bell)
        try:
            return self.templates.render(task, queue, priority, bell.key, shown)
        except OperationalError as refusal:
            # Broker and store are one server here: nothing is written either.
            raise StoreDownError(f"the store does not answer: {refusal}") from refusal

    def waiting(self, name: str) -> int:
        """Return how many messages wait in an effect's queue, as of at most a second ago.

        0 where the broker does not say.
        """
        asked_at, length = self._waiting.get(name, (-math.inf, 0))
        if time.monotonic() - asked_at > WAITING_S:
            length = self._counted(name)
            self._waiting[name] = (time.monotonic(), length)
        return length

    def publish(self, bells: Sequence[Doorbell]) -> int:
        """Publish messages. The broker is a doorbell: what does not ring, the sweep repeats."""
        published = 0
        for bell in bells:
            task, queue, priority, shown = self._address(bell)
            try:
                self.app.send_task(
                    task,
                    args=[bell.key],
                    task_id=bell.key,
                    queue=queue,
                    priority=priority,
                    argsrepr=shown,
                    kwargsrepr="",
                    ignore_result=True,
                )
            except OperationalError as refusal:
                log.warning(
                    "the broker did not take %s: %s; a sweep will repeat it", bell.key, refusal
                )
                continue
            published += 1
        return published

    def send_on(self, bell: Doorbell, host: str) -> None:
        """Publish a message to one machine. Raises OperationalError where the broker is away."""
        task, _, priority, shown = self._address(bell)
        self.app.send_task(
            task,
            args=[bell.key],
            task_id=bell.key,
            queue=queue_at(self.settings, host),
            priority=priority,
            argsrepr=shown,
            kwargsrepr="",
            ignore_result=True,
        )

    def _counted(self, name: str) -> int:
        queue = queue_of(self.settings, name)
        # A connection of its own: a refusal ends the channel on some brokers.
        with self.app.connection_for_read() as connection:
            try:
                with connection.channel() as channel:
                    declared = channel.queue_declare(queue=queue, passive=True)
            except (*connection.connection_errors, *connection.channel_errors, OperationalError):
                return 0
        return int(declared.message_count)

    def _address(self, bell: Doorbell) -> tuple[str, str, int, str]:
        task = f"{bell.machine}.{bell.name}"
        queue = queue_of(self.settings, bell.name)
        priority = broker_priority(self.settings, bell.priority)
        record_id, _, suffix = bell.key.partition(":")
        return task, queue, priority, f"{record_id} v{suffix.partition('.')[0]}"[:SHOWN_MAX]


def assembled(settings: Settings) -> Dispatch:
    """Return a process's own door to store and broker, where it is neither worker nor client."""
    names = {name for machine in MACHINES.values() for name in machine.effects}
    return Dispatch(settings, MACHINES, make_app(settings, tuple(sorted(names))))


def ms(seconds: float) -> int:
    """Return whole milliseconds."""
    return int(seconds * 1_000)
