"""What the orphan sweep notes as it passes: the servers of the store, and clocks that were set.

A clock that was set ahead would make timers due too early, and one that was set back would let lost
work be found too late. The clock of this computer that nobody sets shows a jump, where this process
has passed before; a clock that is behind the last pass shows it to every process.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from interlock.kernel.effect import Effect
from interlock.kernel.machine import Machine
from interlock.kernel.record import split_key
from interlock.kernel.store.clocks import Clocks, Jump, LeasedFor, Pass
from interlock.kernel.store.indexes import Indexes, ServerCheck
from interlock.kernel.store.views import Views
from interlock.workers.config import Settings, ms
from interlock.workers.processes.clock import clock

log = logging.getLogger(__name__)

LEASE_S = 30.0


@dataclass(frozen=True, slots=True)
class Seen:
    """A pass of this process, between two times of the clock that nobody sets, in ms."""

    read: Pass
    before_ms: int
    after_ms: int


class Passes:
    """The passes of one process over the partitions of a store."""

    def __init__(
        self,
        settings: Settings,
        machines: Mapping[str, Machine],
        indexes: Indexes,
        clocks: Clocks,
        views: Views,
    ) -> None:
        self._settings, self._machines = settings, machines
        self._indexes, self._clocks, self._views = indexes, clocks, views
        lease_s = settings.lease_s or LEASE_S
        self._lease_ms = ms(lease_s)
        # A sweep that is late by less than half a lease still takes no live holder for lost.
        self._period_ms = ms(max(settings.sweep_period_s, lease_s / 4))
        self._seen: dict[int, Seen] = {}

    def check_server(self, partition: int, *, passing: bool) -> ServerCheck:
        """Note a changed server of a partition; return whether sweeps may act on its leases."""
        return self._indexes.identify_server(
            partition, passing=passing, period_ms=self._period_ms, lease_ms=self._lease_ms
        )

    def note(self) -> None:
        """Note that the sweep passes all partitions now; move due times where a clock was set."""
        before_ms = ms(clock())
        found = self._indexes.note_pass(period_ms=self._period_ms, lease_ms=self._lease_ms)
        after_ms = ms(clock())
        for partition, read in enumerate(found):
            now = Seen(read, before_ms, after_ms)
            if jump := jump_between(self._seen.get(partition), now, self._lease_ms // 2):
                self._move(partition, jump)
            self._seen[partition] = now

    def _move(self, partition: int, jump: Jump) -> None:
        effects = self._effects(partition)
        if self._clocks.move(partition, jump, self._clocks.timers(partition), effects):
            direction = "ahead" if jump.ms > 0 else "back"
            log.warning(
                "the clock of the store was set %s by %.1f s: due times of partition %s were moved",
                direction,
                abs(jump.ms) / 1_000,
                partition,
            )

    def _effects(self, partition: int) -> list[LeasedFor]:
        """Return the effects of a partition with their leases, but for those nobody can read."""
        keys = [split_key(member) for member in self._clocks.effects(partition)]
        ids = dict.fromkeys(record_id for record_id, _ in keys)
        records = self._views.records(ids, readable_by=self._machines)
        effects = {
            (record.id, entry.suffix): effect
            for record in records.values()
            for entry in record.entries
            if (effect := self._machines[record.machine].effects.get(entry.name))
        }
        leases = {key: with_lease(effect, self._settings) for key, effect in effects.items()}
        return [LeasedFor(*key, leases[key].lease_ms) for key in keys if key in leases]


def jump_between(last: Seen | None, now: Seen, tolerance_ms: int) -> Jump | None:
    """Return by how much the clock of a partition was set between two passes of a process.

    None: by less than the tolerance and by what the two replies leave open, or nothing is known.
    """
    if last is None:
        behind_ms = now.read.last_ms - now.read.now_ms
        found = Jump(-behind_ms, now.read.last_ms, now.read.moves)
        return found if behind_ms > tolerance_ms else None
    if last.read.moves != now.read.moves:
        return None  # another process has moved the times since
    passed_ms = now.read.now_ms - last.read.now_ms
    least = passed_ms - (now.after_ms - last.before_ms)
    most = passed_ms - (now.before_ms - last.after_ms)
    old_until = last.read.now_ms + max(now.before_ms - last.after_ms, 0)
    if least > tolerance_ms:
        return Jump(least, old_until, now.read.moves)
    return Jump(most, old_until, now.read.moves) if most < -tolerance_ms else None


def with_lease(effect: Effect, settings: Settings) -> Effect:
    """Return an effect with the lease that this deployment sets, if it sets one."""
    if settings.lease_s is None:
        return effect
    return replace(effect, lease_ms=ms(settings.lease_s))
