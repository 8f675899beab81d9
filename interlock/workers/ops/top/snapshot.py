"""Reads the state of agents, tasks and queues at one moment, as plain data.

A snapshot reads a bounded part of the store. Records beyond the limits are only counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from interlock.kernel.machines import effect_queue
from interlock.kernel.record import root_of
from interlock.kernel.shown_stage import shown_stage
from interlock.kernel.store.owed import OwedEffect
from interlock.kernel.table import Active
from interlock.systems.tasks.claim_row import age_s
from interlock.systems.tasks.client import Tasks
from interlock.systems.tasks.overview import SCANNED_MAX, AgedRecord, TasksOverview, TasksReader
from interlock.systems.tasks.starved import find_starved
from interlock.workers.client import Client
from interlock.workers.engine.slot_waits import busy_slots
from interlock.workers.engine.sweeper import late_sweeps
from interlock.workers.ops.effect_problems import endangered, waits_of
from interlock.workers.systems import sweeps, systems

ASKED_MAX = 5


@dataclass(frozen=True, slots=True)
class Snapshot(TasksOverview):
    """The state of a deployment at one moment: its tasks and agents, and what else waits.

    `starved_partial`: not all open tasks were looked at, so that more may be starved.
    """

    starved: tuple[AgedRecord, ...]
    starved_partial: bool
    queues: Mapping[str, int]
    asks: int
    asked: tuple[AgedRecord, ...]
    others: Mapping[str, Mapping[str, int]]
    others_at_work: int
    working: Sequence[OwedEffect]  # effects of these that are at work, the longest owed first
    late_sweeps: Mapping[str, int | None]
    problems: Sequence[str]  # of effects that do not go on as they should
    slots: Sequence[str]  # what is said of slots that effects wait for


class SnapshotReader:
    """Reads snapshots of a whole deployment, or of one backlog.

    Raises CallError if there is no such backlog.
    """

    def __init__(self, client: Client, *, backlog: str = "") -> None:
        self.client, self.backlog = client, backlog
        if backlog:
            Tasks(client).ids_of(backlog)
        self.dispatch, self.tasks = client.dispatch, TasksReader(client, backlog=backlog)
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
        found = self.tasks.read()
        asks, asked = self._asked(found.at_ms)
        others = {} if self.backlog else self._others()
        starved = find_starved(self.dispatch, self.backlog)
        at_work = self.dispatch.owed.at_work()
        return Snapshot(
            **{field.name: getattr(found, field.name) for field in fields(found)},
            starved=starved.tasks,
            starved_partial=starved.is_partial,
            queues=self.dispatch.publisher.queue_lengths(self.queues),
            asks=asks,
            asked=asked,
            others=others,
            others_at_work=self._at_work(others),
            working=[one for one in at_work if one.machine in others],
            late_sweeps=late_sweeps(self.dispatch, self.sweeps),
            problems=self._problems(at_work),
            slots=() if self.backlog else busy_slots(self.dispatch),
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
        found = self.dispatch.views.counts(machines, self.tasks.partitions)
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
        number, found = self.dispatch.indexes.waits(self.tasks.partitions, limit)
        if self.backlog:
            found = [row for row in found if root_of(row[0]) == self.backlog]
            number = len(found)
        first = found[:ASKED_MAX]
        ids = [record_id for record_id, _ in first]
        records = views.records(ids, readable_by=self.client.dispatch.machines)
        pairs = [(records[one], since_ms) for one, since_ms in first if one in records]
        return number, tuple(
            AgedRecord(one.id, one.machine, one.state, age_s(now_ms, since_ms))
            for one, since_ms in pairs
        )
