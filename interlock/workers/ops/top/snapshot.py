"""Reads the state of records, queues and what each system adds at one moment, as plain data.

A snapshot reads a bounded part of the store. Records beyond the limits are only counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter

from interlock.kernel.machines import effect_queue
from interlock.kernel.record import PARTITIONS, partition_of, root_of
from interlock.kernel.shown_stage import shown_stage
from interlock.kernel.store.owed import OwedEffect
from interlock.kernel.table import Active
from interlock.workers.client import Client
from interlock.workers.engine.slot_waits import busy_slots
from interlock.workers.engine.sweeper import late_sweeps
from interlock.workers.ops.effect_problems import endangered, waits_of
from interlock.workers.systems import sweeps, systems, top_parts
from interlock.workers.terminal.top_part import AgedRecord

ASKED_MAX = 5
SCANNED_MAX = 2_000  # records that wait for a person that are read, for one backlog
PARTS = "parts"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a deployment at one moment of the store's clock, in ms.

    `parts` has what each system adds, by the name of the system.
    """

    at_ms: int
    backlog: str
    queues: Mapping[str, int]
    asks: int
    asked: tuple[AgedRecord, ...]
    others: Mapping[str, Mapping[str, int]]
    others_at_work: int
    working: Sequence[OwedEffect]  # effects of these that are at work, the longest owed first
    late_sweeps: Mapping[str, int | None]
    problems: Sequence[str]  # of effects that do not go on as they should
    slots: Sequence[str]  # what is said of slots that effects wait for
    parts: Mapping[str, Any]


def snapshot_fields(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot as JSON has it: the fields of each system's part beside its own."""
    found = asdict(snapshot)
    parts: Mapping[str, Mapping[str, Any]] = found.pop(PARTS)
    return {**{name: one for part in parts.values() for name, one in part.items()}, **found}


def snapshot_of(found: Mapping[str, Any]) -> Snapshot:
    """Return the snapshot with these fields. Raises pydantic's ValidationError if one is wrong."""
    parts = {
        name: TypeAdapter(part.shape).validate_python(found) for name, part in top_parts().items()
    }
    return TypeAdapter(Snapshot).validate_python({**found, PARTS: parts})


class SnapshotReader:
    """Reads snapshots of a whole deployment, or of one backlog.

    Raises CallError if there is no such backlog.
    """

    def __init__(self, client: Client, *, backlog: str = "") -> None:
        self.client, self.backlog, self.dispatch = client, backlog, client.dispatch
        self.parts = {name: part.reader(client, backlog) for name, part in top_parts().items()}
        self.partitions = [partition_of(backlog)] if backlog else list(range(PARTITIONS))
        self.queues = sorted(
            {
                effect_queue(machine.name, effect)
                for machine in client.machines.values()
                for effect in machine.effects.values()
                if not effect.kept
            }
        )
        self.sweeps = sweeps()

    def read(self) -> Snapshot:
        """Return a snapshot. Raises StoreError if the store is away."""
        at_ms = self.dispatch.views.now_ms()
        parts = {name: read() for name, read in self.parts.items()}
        asks, asked = self._asked(at_ms)
        others = {} if self.backlog else self._others()
        at_work = self.dispatch.owed.at_work()
        return Snapshot(
            at_ms=at_ms,
            backlog=self.backlog,
            queues=self.dispatch.publisher.queue_lengths(self.queues),
            asks=asks,
            asked=asked,
            others=others,
            others_at_work=self._at_work(others),
            working=[one for one in at_work if one.machine in others],
            late_sweeps=late_sweeps(self.dispatch, self.sweeps),
            problems=self._problems(at_work),
            slots=() if self.backlog else busy_slots(self.dispatch),
            parts=parts,
        )

    def _problems(self, at_work: Sequence[OwedEffect]) -> list[str]:
        """Return a sentence about each kind of effect that does not go on as it should."""
        owed, chosen = self.dispatch.owed.oldest(), self.backlog
        owed = [one for one in owed if not chosen or root_of(one.record_id) == chosen]
        held = [one for one in at_work if not chosen or root_of(one.record_id) == chosen]
        return [*waits_of(self.dispatch, owed), *endangered(self.dispatch, [*owed, *held])]

    def _others(self) -> dict[str, dict[str, int]]:
        """Return how many records of each counted machine are in each state."""
        # Each of them has a list command of its own: here they are only counted by state.
        counted = [name for system in systems() for name in system.counted]
        machines = [self.client.machines[name] for name in counted]
        found = self.dispatch.views.counts(machines, self.partitions)
        return {name: dict(counts) for name, counts in found.items() if counts}

    def _at_work(self, others: Mapping[str, Mapping[str, int]]) -> int:
        """Return how many of these records are in a state with a running effect."""
        return sum(
            number
            for name, counts in others.items()
            for state, number in counts.items()
            if isinstance(shown_stage(self.client.machines[name], state), Active)
        )

    def _asked(self, now_ms: int) -> tuple[int, tuple[AgedRecord, ...]]:
        """Return how many records wait for a person, and the first of them."""
        views = self.dispatch.views
        limit = SCANNED_MAX if self.backlog else ASKED_MAX
        number, found = self.dispatch.indexes.waits(self.partitions, limit)
        if self.backlog:
            found = [row for row in found if root_of(row[0]) == self.backlog]
            number = len(found)
        first = found[:ASKED_MAX]
        ids = [record_id for record_id, _ in first]
        records = views.records(ids, readable_by=self.client.dispatch.machines)
        pairs = [(records[one], since_ms) for one, since_ms in first if one in records]
        return number, tuple(
            AgedRecord(one.id, one.machine, one.state, max(now_ms - since_ms, 0) / 1_000)
            for one, since_ms in pairs
        )
