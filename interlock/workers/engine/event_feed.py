"""Follows the events of all records: what the feed of the store lists, read from the logs."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from interlock.kernel.errors import MissedError, UnknownMachineError
from interlock.kernel.event import Event
from interlock.kernel.exported_event import LifecycleEvent, LifecycleEvents
from interlock.kernel.record import RecordId, Version
from interlock.kernel.store.codec import UNREADABLE
from interlock.kernel.store.feed import PAGE, Committed, position_of, text_of
from interlock.workers.engine.cloud_event import cloud_event
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.polling import Intervals

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FollowedEvent:
    """An event, and the position from which its reader goes on after it."""

    event: LifecycleEvent
    position: str


class WantedEvents(NamedTuple):
    """The events of some machines that follow a position.

    The position is a text, because thousands of listeners are compared, and Python keeps its hash.
    """

    position: str
    machines: frozenset[str]


@dataclass(frozen=True, slots=True)
class Following:
    """What follows a position, the position after it, and whether there may be more at once.

    The position may lie behind that of the last event: what came between is not wanted.
    """

    events: tuple[FollowedEvent, ...]
    position: str
    more: bool


class EventFeed:
    """The events of a store. An event of a record that was pruned meanwhile is left out."""

    def __init__(self, dispatch: Dispatch) -> None:
        self.feed, self.views = dispatch.feed, dispatch.views
        self._published = LifecycleEvents(dispatch.machines).published

    def begin(self, after: str, machines: Collection[str], known: Collection[str]) -> WantedEvents:
        """Return what a reader wants: from now or after a position, of all known machines or some.

        Raises UnknownMachineError, InvalidPayloadError for a position that is none, and MissedError
        for one that is no longer kept.
        """
        if unknown := [name for name in machines if name not in known]:
            raise UnknownMachineError(unknown[0], sorted(known))
        wanted = frozenset(machines or known)
        if not after:
            return WantedEvents(text_of(self.feed.newest()), wanted)
        begin = WantedEvents(after, wanted)
        found = self.after([begin])[begin]
        if isinstance(found, MissedError):
            raise found
        return begin

    def follow(
        self, after: str, machines: Collection[str], known: Collection[str]
    ) -> Iterator[FollowedEvent]:
        """Yield what a reader wants as it comes; it does not end. Raises as `begin` does."""
        return self._follow(self.begin(after, machines, known))

    def _follow(self, wanted: WantedEvents) -> Iterator[FollowedEvent]:
        intervals = Intervals()
        while True:
            found = self.after([wanted])[wanted]
            if isinstance(found, MissedError):
                raise found
            yield from found.events
            if found.position == wanted.position:
                intervals.sleep()
            else:
                intervals.reset()
            wanted = wanted._replace(position=found.position)

    def after(self, asked: Collection[WantedEvents]) -> dict[WantedEvents, Following | MissedError]:
        """Return what each of several readers gets next, in two round trips for all of them.

        Raises InvalidPayloadError for a position that is none.
        """
        positions = {text: position_of(text) for text in {wanted.position for wanted in asked}}
        found = self.feed.after(positions.values())
        committed = {text: found[position] for text, position in positions.items()}
        needed = {
            (one.record_id, one.version): one.machine
            for wanted in asked
            for one in _chosen(wanted, committed[wanted.position])
        }
        events = {
            key: self._published(event, needed[key])
            for event in self._events(needed)
            if (key := (event.record_id, event.version))
        }
        return {wanted: _following(wanted, committed[wanted.position], events) for wanted in asked}

    def _events(self, needed: Collection[tuple[RecordId, Version]]) -> list[Event]:
        try:
            return self.views.events(needed)
        except UNREADABLE:
            return [event for one in needed for event in self._readable(one)]

    def _readable(self, one: tuple[RecordId, Version]) -> list[Event]:
        try:
            return self.views.events([one])
        except UNREADABLE:
            log.exception("event %d of %s cannot be read, and is left out", one[1], one[0])
            return []


def _chosen(wanted: WantedEvents, found: list[Committed] | MissedError) -> list[Committed]:
    if isinstance(found, MissedError):
        return []
    return [one for one in found if one.machine in wanted.machines]


def _following(
    wanted: WantedEvents,
    found: list[Committed] | MissedError,
    events: Mapping[tuple[RecordId, Version], LifecycleEvent],
) -> Following | MissedError:
    if isinstance(found, MissedError):
        return found
    followed = tuple(
        FollowedEvent(event, text_of(one.position))
        for one in _chosen(wanted, found)
        if (event := events.get((one.record_id, one.version)))
    )
    after = text_of(found[-1].position) if found else wanted.position
    return Following(followed, after, len(found) == PAGE)


def enveloped(event: LifecycleEvent, namespace: str) -> dict[str, Any]:
    """Return an event in the envelope of CloudEvents."""
    return cloud_event(
        id=f"{event.entity_id}:{event.version}",
        kind="event",
        namespace=namespace,
        subject=event.entity_id,
        at_ms=round(event.timestamp * 1_000),
        data=asdict(event),
    )
