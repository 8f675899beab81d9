"""Exports what happened as lifecycle events, in order per record; it writes nothing to the store.

Each event is told once, however often it is looked for. What is remembered for that is what lives
or has just ended, so the memory that it takes grows with what is alive and not with what ever was.
"""

from __future__ import annotations

import json
import math
import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO

from interlock.kernel.errors import CallError, InvalidPayloadError, UnknownRecordError
from interlock.kernel.event import Event
from interlock.kernel.published_event import LifecycleEvent, exported
from interlock.kernel.record import PARTITIONS, RecordId, partition_of, record_id
from interlock.kernel.store.views import RecordInState, StateKey
from interlock.kernel.table import Mode, Terminal
from interlock.workers.engine.dispatch import Dispatch

POLL_S = 0.5
# A look at a large store takes long: most of the time nobody looks.
REST_SHARE = 4
# How far apart the clocks of a cluster's nodes may be.
OVERLAP_MS = 10_000
PASSES_MAX = 5


class EventExport:
    """What of a store, or of some of its records, was told already, and what is new.

    `scopes` are ids, each with all that is below it: a backlog, a task, a thread's family.
    """

    def __init__(
        self, dispatch: Dispatch, scopes: Sequence[str] = (), *, since_ms: int = 0
    ) -> None:
        self.views, self.machines = dispatch.views, dispatch.machines
        self.scopes = tuple(record_id(scope) for scope in scopes)
        self.since_ms = since_ms
        self.told = 0  # how many events
        self._seen: set[RecordId] = set()
        self._floor_ms = since_ms
        # How far a record is told, and when it ended where it did.
        self._known: dict[RecordId, tuple[int, int | None]] = {}
        self._restless = {
            (machine.name, str(row.source))
            for machine in self.machines.values()
            for row in machine.transitions
            if row.mode is Mode.INTERNAL
        }

    @property
    def unseen(self) -> list[RecordId]:
        """The scopes in which no record was met. Under a time limit that says nothing."""
        return [scope for scope in self.scopes if scope not in self._seen and not self.since_ms]

    def all(self) -> Iterator[LifecycleEvent]:
        """Yield what happened until now."""
        for _ in range(PASSES_MAX):
            # A record that moved while it was looked for is found by looking again.
            found = False
            for event in self.new():
                found = True
                yield event
            if not found:
                return

    def new(self) -> Iterator[LifecycleEvent]:
        """Look once, and yield what was not told yet."""
        next_floor_ms = self.views.now_ms() - OVERLAP_MS
        mine = {partition_of(scope) for scope in self.scopes}
        for partition in sorted(mine) or range(PARTITIONS):
            since = self._places(partition)
            for place in self.views.states_in_use(since):
                for standing in self.views.list_in_state_since(place, since[place]):
                    if self._covers(standing.id):
                        yield from self._news_of(standing, next_floor_ms)
        self._floor_ms = max(self.since_ms, next_floor_ms)
        self._known = {
            one: (version, ended_ms)
            for one, (version, ended_ms) in self._known.items()
            if ended_ms is None or ended_ms >= self._floor_ms
        }

    def _places(self, partition: int) -> dict[StateKey, int]:
        """Return where to look, and from when on who came there is looked at.

        A row that stays in its state leaves no mark in the lists: there all are looked at.
        """
        return {
            StateKey(machine.name, str(stage.state), partition): (
                0 if (machine.name, str(stage.state)) in self._restless else self._floor_ms
            )
            for machine in self.machines.values()
            for stage in machine.stages
        }

    def _covers(self, one: RecordId) -> bool:
        for scope in self.scopes:
            if one == scope or one.startswith(f"{scope}/"):
                self._seen.add(scope)
                return True
        return not self.scopes

    def _news_of(self, standing: RecordInState, remember_from_ms: int) -> Iterator[LifecycleEvent]:
        version, _ = self._known.get(standing.id, (0, None))
        # It may have moved on since it was listed.
        state, moved_ms = standing.state, standing.since_ms
        for line in self.views.log(standing.id, after=version):
            if not isinstance(line, Event):
                continue
            version, state, moved_ms = line.version, line.target, line.at_ms
            if line.at_ms >= self.since_ms:
                self.told += 1
                yield exported(line, standing.machine)
        ended = isinstance(self.machines[standing.machine].stage(state), Terminal)
        if ended and moved_ms < remember_from_ms:
            # It is over for good, and stands where nobody looks again.
            self._known.pop(standing.id, None)
        else:
            self._known[standing.id] = (version, moved_ms if ended else None)


def export_to(file: Path | None, export: EventExport, *, follow: bool) -> None:
    """Write to a file, or to the standard output. Ctrl-C and the end of whoever reads end it well.

    Raises CallError for a file that cannot be written, UnknownRecordError where a scope has no
    record, which is told last: the others are written all the same.
    """
    try:
        with file.open("wb") if file else nullcontext(sys.stdout.buffer) as out:
            write_events(export, out, follow=follow, goes_on=partial(reader_stays, out))
    except BrokenPipeError:
        # What is left in the buffer has no reader; the interpreter would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as refusal:
        raise CallError(f"the events cannot be written: {refusal}") from None
    except KeyboardInterrupt:
        return
    for scope in () if follow else export.unseen:
        raise UnknownRecordError(scope)


def write_events(
    export: EventExport, out: BinaryIO, *, follow: bool, goes_on: Callable[[float], bool]
) -> None:
    """Write events as JSON lines. Raises BrokenPipeError where whoever reads has gone.

    With `follow` it goes on with new ones as long as `goes_on`, called with the seconds to rest,
    says so.
    """
    _write(export.all(), out)
    rest_s = POLL_S
    while follow and goes_on(rest_s):
        began = time.monotonic()
        _write(export.new(), out)
        rest_s = max(POLL_S, REST_SHARE * (time.monotonic() - began))


def _write(events: Iterator[LifecycleEvent], out: BinaryIO) -> None:
    out.writelines(line_of(event) for event in events)
    out.flush()


def line_of(event: LifecycleEvent) -> bytes:
    """Return an event as one line of JSON, its fields in the published order."""
    return json.dumps(asdict(event), ensure_ascii=False).encode() + b"\n"


def reader_stays(out: BinaryIO, rest_s: float) -> bool:
    """Rest so long; False at once when whoever reads has gone."""
    watch = select.poll()
    # Asked for nothing, it tells the end of the other side alone.
    watch.register(out.fileno(), 0)
    return not watch.poll(rest_s * 1_000)


def instant_ms(text: str) -> int:
    """Return a time in ms since the epoch. Raises InvalidPayloadError for what is none.

    It is Unix seconds, as the events have them, or ISO 8601, in UTC where it names no zone.
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = _iso_seconds(text)
    if not math.isfinite(seconds):
        raise InvalidPayloadError("the time", [f"{text!r} is no time"])
    return math.floor(seconds * 1_000)


def _iso_seconds(text: str) -> float:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        problem = f"{text!r} is neither Unix seconds nor ISO 8601, as 2026-01-31T12:00:00Z"
        raise InvalidPayloadError("the time", [problem]) from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
