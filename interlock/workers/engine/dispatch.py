"""Opens what one process uses of the kernel, the store and the broker, when it is asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from threading import BoundedSemaphore
from typing import TYPE_CHECKING
from uuid import uuid4

from interlock.kernel.effect import Effect
from interlock.kernel.errors import (
    KernelError,
    StoreDeniedError,
    StoreReadOnlyError,
    UnknownStateError,
)
from interlock.kernel.lifecycle import Lifecycle
from interlock.kernel.machine import Machine
from interlock.kernel.store.call_times import CallTimes
from interlock.kernel.store.clocks import Clocks
from interlock.kernel.store.commands import EffectMessage, Limits
from interlock.kernel.store.inboxes import Inboxes
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.leases import Lease
from interlock.kernel.store.redis import Store
from interlock.kernel.store.scripts import Client, count_call_times
from interlock.workers.config import Settings, ms
from interlock.workers.engine.applied_tables import CallerTables, TablesElsewhere
from interlock.workers.engine.passes import Passes, with_lease
from interlock.workers.engine.quota import RecordQuota
from interlock.workers.engine.refusals import repeat_while_refused
from interlock.workers.engine.store_client import greet_store, open_safe_store
from interlock.workers.engine.store_parts import StoreParts
from interlock.workers.engine.tracing import carried

if TYPE_CHECKING:  # imported where they are opened
    from interlock.workers.engine.publisher import Publisher
    from interlock.workers.gateways.capabilities.registry import Registry

COMPARISONS_MAX = 4  # of one process at once: each takes a thread and git for up to 10 s


class Dispatch(StoreParts):
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
        # Workers decide by the table with which they have begun, until they are started anew.
        check = bool if self._patient else CallerTables(self.tables).check
        return Lifecycle(
            store,
            self.machines,
            self.render,
            self.publish,
            check=check,
            carry=partial(carried, self.settings),
        )

    @property
    def inboxes(self) -> Inboxes:
        """The inboxes of records."""
        return self.lifecycle.inboxes

    @cached_property
    def passes(self) -> Passes:
        """What the sweep of orphans notes as it passes."""
        clocks = Clocks(self.client, self.keys)
        return Passes(self.settings, self.machines, self.indexes, clocks, self.views)

    @cached_property
    def quota(self) -> RecordQuota:
        """How many records there may be."""
        return RecordQuota(self.views, self.machines, self.settings.records_max)

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

    def effect(self, machine: str, name: str) -> Effect:
        """Return an effect of a machine, with the lease that this deployment sets.

        Raises UnknownStateError.
        """
        effects = self.lifecycle.machine(machine).effects
        if name not in effects:
            raise UnknownStateError(machine, name, "effect")
        return with_lease(effects[name], self.settings)

    @cached_property
    def tables_elsewhere(self) -> TablesElsewhere:
        """The applied tables that this process does not have."""
        return TablesElsewhere(self.tables, self.machines)

    def render(self, message: EffectMessage) -> tuple[str, bytes] | None:
        """Render an effect's message for the commit to push; None if store and broker differ."""
        return self.publisher.render(message) if self.settings.fused else None

    def settle(self, lease: Lease) -> str:
        """End an effect without an outcome, and publish the effects that its end makes due.

        Return `settled`, `lost` if the lease is not valid any more, or `refused` if it is the
        effect of the record's present state, which only an outcome ends.
        """
        answer = self.leases.settle(lease, self.render)
        self.publish(answer.owed)
        return answer.status

    def publish(self, messages: Sequence[EffectMessage]) -> int:
        """Publish messages and return how many the broker took; a sweep repeats the others."""
        return self.publisher.publish(messages) if messages else 0
