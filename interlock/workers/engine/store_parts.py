"""What a process reads and writes in the store, by its subject. Each part is opened when asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property

from interlock.kernel.machine import Machine
from interlock.kernel.store.card_reads import CardReads
from interlock.kernel.store.commands import Limits
from interlock.kernel.store.feed import Feed
from interlock.kernel.store.hosts import Hosts
from interlock.kernel.store.indexes import Indexes
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.leases import Leases
from interlock.kernel.store.listings import Listings
from interlock.kernel.store.metrics import MetricsReader
from interlock.kernel.store.news import Newsreader
from interlock.kernel.store.older_records import OlderRecords
from interlock.kernel.store.overdue import OverdueReader
from interlock.kernel.store.owed import OwedReader
from interlock.kernel.store.people import AccessTokens, PersonActs, SavedViews, link_key
from interlock.kernel.store.rejected import RejectedMessages
from interlock.kernel.store.scripts import Client
from interlock.kernel.store.slots import Slots
from interlock.kernel.store.subscriptions import Subscriptions
from interlock.kernel.store.tables import Tables
from interlock.kernel.store.views import Views


class StoreParts(ABC):
    """The parts of the store, over the client of one process."""

    machines: Mapping[str, Machine]  # whose tables the process knows

    @property
    @abstractmethod
    def client(self) -> Client:
        """The store's client."""

    @property
    @abstractmethod
    def keys(self) -> Keys:
        """The keys of this deployment in the store."""

    @property
    @abstractmethod
    def limits(self) -> Limits:
        """The periods that the store's scripts use."""

    @cached_property
    def leases(self) -> Leases:
        """The leases of effects: claim, renew, settle, release."""
        return Leases(self.client, self.keys, self.limits)

    @cached_property
    def subscriptions(self) -> Subscriptions:
        """Subscriptions to the end of other records."""
        return Subscriptions(self.client, self.keys)

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
    def tables(self) -> Tables:
        """The tables by which the deployment works, and its processes with theirs."""
        return Tables(self.client, self.keys)

    @cached_property
    def older_records(self) -> OlderRecords:
        """The records that an older version of their table has left."""
        return OlderRecords(self.client, self.keys)

    @cached_property
    def views(self) -> Views:
        """Reads of records, logs and counts."""
        return Views(self.client, self.keys, self.machines)

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
    def listings(self) -> Listings:
        """Lists of records, page by page."""
        return Listings(self.client, self.keys, self.machines)
