"""Reads which effects nobody has at work, and since when each is owed.

The index of effects says when to poll an effect next, and each poll moves that. So the age of an
effect is read from its record and its log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from interlock.kernel.effect import Kind
from interlock.kernel.record import PARTITIONS, Entry, RecordId, split_key
from interlock.kernel.store import codec
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, read_all

READ_MAX = 32  # effects of each partition, those that are polled next


@dataclass(frozen=True, slots=True)
class OwedEffect:
    """An effect, since when it is owed (ms, by the store), and how often it began and may begin.

    `not_before` is when it is tried again, `lease_until` when its holder counts as lost; without a
    holder that is 0. `has_lapsed`: its holder is lost. With `no_restart` a lost one is not started
    again. `losses`: how often its holder was lost.
    """

    key: str
    machine: str
    name: str
    since_ms: int
    attempts: int
    attempts_max: int
    not_before: int
    lease_until: int
    no_restart: bool
    has_lapsed: bool
    losses: int

    @property
    def record_id(self) -> RecordId:
        """The record that owes it."""
        return split_key(self.key)[0]


class OwedReader:
    """Finds the effects that are owed longest, over one client."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def oldest(self) -> list[OwedEffect]:
        """Return the effects that nobody has at work, the one that is owed longest first.

        Of each partition READ_MAX are read. Left out are those that wait for a name that another
        record holds, for another effect of their record, for a slot, or for a person, and those of
        paused records: each says so elsewhere.
        """
        found = list(self._read(("owed", "lapsed")))
        occupied = self._occupied([one for one, entry in found if entry.exclusive])
        noted = self._noted_ms([one for one, entry in found if entry.kind is not Kind.STATE])
        aged = [
            replace(one, since_ms=noted.get(one.key, one.since_ms))
            for one, _ in found
            if one.key not in occupied
        ]
        return sorted(aged, key=lambda one: one.since_ms)

    def at_work(self) -> list[OwedEffect]:
        """Return the effects that somebody has at work, the one that is owed longest first.

        Of each partition READ_MAX effects are looked at, those whose leases end first.
        """
        return sorted((one for one, _ in self._read(("leased",))), key=lambda one: one.since_ms)

    def _read(self, states: Collection[str]) -> Iterator[tuple[OwedEffect, Entry]]:
        """Yield each effect in these states that waits for nobody, and its entry."""
        indexes = [self.keys.effects(partition) for partition in range(PARTITIONS)]
        pages = read_all(self.client, [("ZRANGE", name, 0, READ_MAX - 1) for name in indexes])
        keys = [member.decode() for page in pages for member in page]
        commands: list[tuple[str, ...]] = []
        for key in keys:
            record_id, suffix = split_key(key)
            record = self.keys.record(record_id)
            commands.append(("HMGET", record, f"e:{suffix}", "machine", "since", "paused"))
            commands.append(("HEXISTS", self.keys.hold_queue(record_id), key))
        replies = read_all(self.client, commands)
        for key, fields, waits in zip(keys, replies[::2], replies[1::2], strict=True):
            line, machine, since, paused = fields
            if line is None or waits or paused == b"1":
                continue
            entry = codec.entry_of(split_key(key)[1], line.decode())
            if entry.awaits_slot or entry.asks_person:
                continue
            if entry.state in states:
                owed = OwedEffect(
                    key=key,
                    machine=machine.decode(),
                    name=entry.name,
                    since_ms=int(since),
                    attempts=entry.attempts,
                    attempts_max=entry.attempts_max,
                    not_before=entry.not_before if entry.state == "owed" else 0,
                    lease_until=entry.lease_until if entry.state == "leased" else 0,
                    no_restart=entry.no_restart,
                    has_lapsed=entry.state == "lapsed",
                    losses=entry.losses,
                )
                yield owed, entry

    def _occupied(self, effects: Sequence[OwedEffect]) -> set[str]:
        """Return the exclusive effects whose record has another of them at work."""
        commands = [("HGETALL", self.keys.record(one.record_id)) for one in effects]
        return {
            one.key
            for one, fields in zip(effects, read_all(self.client, commands), strict=True)
            for name, line in dict(fields).items()
            if name.startswith(b"e:")
            for entry in [codec.entry_of(name[2:].decode(), line.decode())]
            if entry.exclusive and entry.state in ("leased", "draining")
        }

    def _noted_ms(self, effects: Sequence[OwedEffect]) -> Mapping[str, int]:
        """Return when the commits were made by which these effects became owed."""
        commands = []
        for one in effects:
            record_id, suffix = split_key(one.key)
            position = f"{suffix.partition('.')[0]}-0"
            commands.append(("XRANGE", self.keys.log(record_id), position, position))
        pages = zip(effects, read_all(self.client, commands), strict=True)
        return {one.key: int(dict(page[0][1])[b"at"]) for one, page in pages if page}
