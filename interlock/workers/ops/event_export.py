"""Exports lifecycle events from the logs, or over the API, in the order of each record's versions.

Each event is exported once, however often the store is read. The export remembers only records
that have not ended, or have just ended, so its memory does not grow with the age of the store.
"""

from __future__ import annotations

import math
import os
import select
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol

from interlock.kernel.errors import CallError, InvalidPayloadError, UnknownRecordError
from interlock.kernel.event import Event
from interlock.kernel.exported_event import LifecycleEvent, LifecycleEvents
from interlock.kernel.machines import LISTED
from interlock.kernel.record import PARTITIONS, RecordId, partition_of, record_id
from interlock.kernel.shown_stage import shown_stage
from interlock.kernel.store.state_reads import RecordInState, StateKey
from interlock.kernel.table import Mode, Terminal
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.remote.client import HttpClient
from interlock.workers.text import visible_json

POLL_S = 0.5
# After each read the export rests for this many times as long as the read took.
REST_SHARE = 4
# The clocks of a cluster's nodes may differ by this much.
OVERLAP_MS = 10_000
PASSES_MAX = 5
GoesOn = Callable[[float], bool]


class Scopes:
    """Ids, each with all records below it: a backlog, a task, a thread's family.

    Without ids, all records belong to them.
    """

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = tuple(record_id(one) for one in ids)
        self._found: set[RecordId] = set()

    def cover(self, found_id: str) -> bool:
        """Return whether a record belongs to one of them, and remember to which."""
        for scope in self.ids:
            if found_id == scope or found_id.startswith(f"{scope}/"):
                self._found.add(scope)
                return True
        return not self.ids

    @property
    def without_records(self) -> list[RecordId]:
        """Those to which no record belonged until now."""
        return [scope for scope in self.ids if scope not in self._found]


class Export(Protocol):
    """The events of a deployment, or of some records, each once: from its store or from its API."""

    scopes: Scopes
    since_ms: int
    count: int

    def all(self) -> Iterator[LifecycleEvent]:
        """Yield all events that were logged until now."""

    def following(self, goes_on: GoesOn) -> Iterator[Iterable[LifecycleEvent]]:
        """Yield new events, some at a time, as long as `goes_on` returns true."""


class EventExport:
    """The events of a store, or of the records of some scopes, that were not exported yet.

    With `machines`, those of the records of other machines are left out.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        scopes: Sequence[str] = (),
        *,
        since_ms: int = 0,
        machines: Collection[str] | None = None,
    ) -> None:
        self.views, every = dispatch.views, dispatch.machines
        wanted = every.keys() & LISTED.keys() if machines is None else machines
        self.machines = {name: one for name, one in every.items() if name in wanted}
        self.events = LifecycleEvents(every)
        self.scopes = Scopes(scopes)
        self.since_ms = since_ms
        self.count = 0  # how many events were exported
        self._is_stopped = False
        self._floor_ms = since_ms
        # By record: its last exported version, and when it ended (None: it has not).
        self._exported: dict[RecordId, tuple[int, int | None]] = {}
        self._changing_in_place = {
            (machine.name, str(row.source))
            for machine in self.machines.values()
            for row in machine.transitions
            if row.mode is Mode.INTERNAL
        }

    def stop(self) -> None:
        """End what reads events in another thread, even if it finds none. It reads no more."""
        self._is_stopped = True

    def all(self) -> Iterator[LifecycleEvent]:
        """Yield all events that were logged until now."""
        for _ in range(PASSES_MAX):
            # A record that changes its state during a pass may be missed by it: read again.
            found = False
            for event in self.new():
                found = True
                yield event
            if not found:
                return

    def new(self) -> Iterator[LifecycleEvent]:
        """Read the store once, and yield the events that were not exported yet."""
        next_floor_ms = self.views.now_ms() - OVERLAP_MS
        partitions = {partition_of(scope) for scope in self.scopes.ids}
        for partition in sorted(partitions) or range(PARTITIONS):
            since_ms = self._since_by_state(partition)
            for key in self.views.states_in_use(since_ms):
                for row in self.views.list_in_state_since(key, since_ms[key]):
                    if self._is_stopped:
                        return
                    if self.scopes.cover(row.id):
                        yield from self._events_of(row, next_floor_ms)
        self._floor_ms = max(self.since_ms, next_floor_ms)
        self._exported = {
            found_id: (version, ended_ms)
            for found_id, (version, ended_ms) in self._exported.items()
            if ended_ms is None or ended_ms >= self._floor_ms
        }

    def following(self, goes_on: GoesOn) -> Iterator[Iterable[LifecycleEvent]]:
        """Yield what each further look at the store finds, as long as `goes_on` returns true.

        `goes_on` gets the seconds to rest, and waits for them.
        """
        rest_s = POLL_S
        while goes_on(rest_s):
            began_at = time.monotonic()
            yield self.new()
            rest_s = max(POLL_S, REST_SHARE * (time.monotonic() - began_at))

    def _since_by_state(self, partition: int) -> dict[StateKey, int]:
        """Return the states to read, each with the time from which on records in it are read.

        A transition within a state does not change the record's place in the index: where a
        machine has such a row, all records of the state are read.
        """
        return {
            StateKey(machine.name, str(stage.state), partition): (
                0 if (machine.name, str(stage.state)) in self._changing_in_place else self._floor_ms
            )
            for machine in self.machines.values()
            for stage in machine.stages
        }

    def _events_of(self, row: RecordInState, remember_from_ms: int) -> Iterator[LifecycleEvent]:
        version, _ = self._exported.get(row.id, (0, None))
        # The record may have left this state since it was listed.
        state, moved_ms = row.state, row.since_ms
        for line in self.views.log(row.id, after=f"{version}-0"):
            if not isinstance(line, Event):
                continue
            version, state, moved_ms = line.version, line.target, line.at_ms
            if line.at_ms >= self.since_ms:
                self.count += 1
                yield self.events.published(line, row.machine)
        ended = isinstance(shown_stage(self.machines[row.machine], state), Terminal)
        if ended and moved_ms < remember_from_ms:
            # The record cannot change any more, and no later pass reads it.
            self._exported.pop(row.id, None)
        else:
            self._exported[row.id] = (version, moved_ms if ended else None)


def export_to(file: Path | None, export: Export, *, follow: bool) -> None:
    """Write the events to a file or to stdout, until Ctrl-C or until the reader of stdout is gone.

    Raises CallError for a file that cannot be written. Raises UnknownRecordError, after writing
    everything else, for a scope without records.
    """
    try:
        with file.open("wb") if file else nullcontext(sys.stdout.buffer) as out:
            write_events(export, out, follow=follow, goes_on=partial(has_reader, out))
    except BrokenPipeError:
        # The rest of the buffer has no reader; without this the interpreter reports it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as refusal:
        raise CallError(f"the events cannot be written: {refusal}") from None
    except KeyboardInterrupt:
        return
    # With a time, records that changed before it were not read.
    for scope in () if follow or export.since_ms else export.scopes.without_records:
        raise UnknownRecordError(scope)


def write_events(export: Export, out: BinaryIO, *, follow: bool, goes_on: GoesOn) -> None:
    """Write events as JSON lines. Raises BrokenPipeError if the reader is gone.

    With `follow` it then writes new events as long as `goes_on` returns true.
    """
    _write(export.all(), out)
    for events in export.following(goes_on) if follow else ():
        _write(events, out)


def _write(events: Iterable[LifecycleEvent], out: BinaryIO) -> None:
    out.writelines(line_of(event) for event in events)
    out.flush()


def line_of(event: LifecycleEvent) -> bytes:
    """Return an event as one line of JSON, its fields in the published order."""
    return visible_json(asdict(event)).encode() + b"\n"


def has_reader(out: BinaryIO, rest_s: float) -> bool:
    """Rest for `rest_s` seconds, then return True. Return False as soon as the reader is gone."""
    poll = select.poll()
    # Registered for no event, the descriptor only reports that its other end was closed.
    poll.register(out.fileno(), 0)
    return not poll.poll(rest_s * 1_000)


def instant_ms(text: str) -> int:
    """Return a time in ms since the epoch. Raises InvalidPayloadError.

    The text is Unix seconds, as the events have them, or ISO 8601, in UTC if it names no zone.
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = _iso_seconds(text)
    if not math.isfinite(seconds):
        raise InvalidPayloadError("the time", [f"{text!r} is not a time"])
    return math.floor(seconds * 1_000)


def _iso_seconds(text: str) -> float:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        problem = f"{text!r} is neither Unix seconds nor ISO 8601, like 2026-01-31T12:00:00Z"
        raise InvalidPayloadError("the time", [problem]) from None
    return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()


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
