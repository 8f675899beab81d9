"""Exports the events of a deployment over its API: those until now, and then those that follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from interlock.kernel.exported_event import LifecycleEvent
from interlock.workers.ops.event_export import OVERLAP_MS, GoesOn, Scopes
from interlock.workers.remote.client import HttpClient


class RemoteExport:
    """The events that an API exports, or of these those of the records of some scopes."""

    def __init__(
        self, interlock: HttpClient, scopes: Sequence[str] = (), *, since_ms: int = 0
    ) -> None:
        self.interlock, self.since_ms = interlock, max(since_ms, 0)
        self.scopes = Scopes(scopes)
        self.count = 0  # how many events were exported
        self._position = ""
        # By record: the version of its last exported event, of those that may be followed again.
        self._exported: dict[str, int] = {}

    def all(self) -> Iterator[LifecycleEvent]:
        """Yield all events that were logged until now."""
        # First the position: what is committed meanwhile is followed from there.
        self._position = self.interlock.events_position()
        again_from_ms = self.interlock.now_ms() - OVERLAP_MS
        for event in self.interlock.past_events(self.scopes.ids, since_ms=self.since_ms):
            self.scopes.cover(event.entity_id)
            if event.timestamp * 1_000 >= again_from_ms:
                self._exported[event.entity_id] = event.version
            self.count += 1
            yield event

    def following(self, _: GoesOn) -> Iterator[Iterable[LifecycleEvent]]:
        """Yield each new event as it comes. That its reader has gone shows when it is written."""
        for followed in self.interlock.events(after=self._position):
            event = followed.event
            known = self._exported.get(event.entity_id, 0)
            is_wanted = event.timestamp * 1_000 >= self.since_ms
            if is_wanted and event.version > known and self.scopes.cover(event.entity_id):
                self.count += 1
                yield [event]
