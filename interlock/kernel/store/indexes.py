"""The indexes of effects, timers, waits and ended families, and the scripts of sweeps over them.

Sweeps poll due effects and timers, compare the server, and prune.

An index only says when to read a record again; the record says what is due.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from uuid import uuid4

from interlock.kernel.record import PARTITIONS, Record, RecordId, partition_of, split_key
from interlock.kernel.store import codec
from interlock.kernel.store.clocks import Pass
from interlock.kernel.store.commands import EffectMessage, Limits
from interlock.kernel.store.format import FORMAT, refuse_format, release
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call, call_all, read, read_all
from interlock.kernel.store.titles import names_of

BUSY_MS = 600_000  # until a family that could not be pruned is tried again
SOON_MS = 500  # until a sweep polls again what this process could not act on


@dataclass(frozen=True, slots=True)
class DueEffect:
    """The answer of a poll to one effect.

    Its status is publish, crash, exhausted, quarantined, gone or later.
    """

    key: str
    status: str
    detail: str

    @property
    def message(self) -> EffectMessage:
        """The message to publish, where the status is publish."""
        name, machine, priority, _ = self.detail.split(" ")
        return EffectMessage(self.key, machine, name, int(priority))

    @property
    def since_ms(self) -> int:
        """The ms since which the record has been in its state, where the status is publish."""
        return int(self.detail.rpartition(" ")[2])


@dataclass(frozen=True, slots=True)
class DueTimer:
    """The answer of a poll to one timer. Its status is due, later, gone or taken."""

    record_id: RecordId
    name: str
    status: str
    due_at: int
    set_at_version: int
    fired: int


@dataclass(frozen=True, slots=True)
class ServerCheck:
    """The server that a partition is on. `gate_open`: a sweep may call old holders lost."""

    incarnation: str
    gate_open: bool
    changed: bool
    server: str


class Indexes:
    """The reads of these indexes and the scripts of sweeps, over one client."""

    def __init__(self, client: Client, keys: Keys, limits: Limits) -> None:
        self.client, self.keys, self.limits = client, keys, limits

    def due_effects(self, partition: int, limit: int) -> list[str]:
        """Return the ids of effects to poll now."""
        return self._due(self.keys.effects(partition), limit)

    def due_timers(self, partition: int, limit: int) -> list[str]:
        """Return the timers to poll now, as <record>:<name>."""
        return self._due(self.keys.timers(partition), limit)

    def _due(self, index: str, limit: int) -> list[str]:
        reply = call(self.client, "list_due", {"index": index}, {"limit": limit})
        return [member.decode() for member in reply]

    def poll_effects(
        self, partition: int, members: Sequence[str], *, gate_open: bool, server: str = ""
    ) -> list[DueEffect]:
        """Poll due effects of one partition, and set the time of their next poll in the same step.

        With `server` the gate is open only as long as the server is still the one it was open for.
        """
        keys = self.keys
        polls: list[dict[str, Any]] = []
        chains: list[str] = []
        for member in members:
            record_id, suffix = split_key(member)
            chains += (chain := keys.chain(record_id))
            poll = {"id": record_id, "suffix": suffix, "chain_length": len(chain)}
            polls.append(poll | {"jitter": _jitter()})
        plan = {
            "polls": polls,
            "poll_ms": self.limits.poll_ms,
            "gate_open": gate_open,
            "server": server,
            "remind_ms": self.limits.remind_ms,
            "losses_max": self.limits.losses_max,
        }
        named = keys.in_partition(
            partition,
            records=[keys.record(poll["id"]) for poll in polls],
            logs=[keys.log(poll["id"]) for poll in polls],
            chains=chains,
        )
        reply = [part.decode() for part in call(self.client, "poll_effects", named, plan)]
        answers = zip(members, reply[::2], reply[1::2], strict=True)
        return [DueEffect(*answer) for answer in answers]

    def poll_timers(self, partition: int, members: Sequence[str]) -> list[DueTimer]:
        """Poll due timers of one partition, and set the time of their next poll as well."""
        polls: list[dict[str, Any]] = []
        for member in members:
            record_id, _, name = member.partition(":")
            polls.append({"id": record_id, "name": name, "jitter": _jitter()})
        plan = {"polls": polls, "poll_ms": self.limits.poll_ms}
        records = [self.keys.record(poll["id"]) for poll in polls]
        named = self.keys.in_partition(partition, records=records)
        reply = call(self.client, "poll_timers", named, plan)
        rows = [reply[at : at + 4] for at in range(0, len(reply), 4)]
        return [
            DueTimer(
                record_id=RecordId(poll["id"]),
                name=poll["name"],
                status=row[0].decode(),
                due_at=int(row[1]),
                set_at_version=int(row[2]),
                fired=int(row[3]),
            )
            for poll, row in zip(polls, rows, strict=True)
        ]

    def poll_soon(self, index: Callable[[int], str], member: str) -> None:
        """Let a sweep poll an effect or a timer again soon, which only another process can act on.

        `index` gives the key of a partition's index, such as `keys.effects`.
        """
        key = index(partition_of(member.partition(":")[0]))
        call(self.client, "postpone", {"index": key}, {"member": member, "delay_ms": SOON_MS})

    def begin_sweep(self, name: str, period_ms: int) -> bool:
        """Note that a sweep begins now; False if one of its name began within half a period."""
        named, plan = {"sweeps": self.keys.sweeps()}, {"sweep": name, "period_ms": period_ms}
        status: bytes = call(self.client, "begin_sweep", named, plan)[0]
        return status == b"begun"

    def last_sweeps(self) -> dict[str, int]:
        """Return when each sweep ended last (ms, by the store), but for one that never did.

        A run that was given up has not ended.
        """
        return codec.counts(read(self.client, "HGETALL", self.keys.ended_sweeps()))

    def count_sweep(self, name: str, results: Mapping[str, int]) -> None:
        """Note that a run of a sweep has ended, and count how many items had each status."""
        named = {"ended": self.keys.ended_sweeps(), "results": self.keys.sweep_results()}
        call(self.client, "count_sweep", named, {"sweep": name, "counts": dict(results)})

    def identify_server(
        self, partition: int, *, passing: bool, period_ms: int, lease_ms: int, run_id: str = ""
    ) -> ServerCheck:
        """Compare the server of a partition with the one before, and note a changed one once.

        The script itself reads the run id of the server, so that it cannot be that of an earlier
        run or of another node.
        """
        plan = _check_plan(period_ms, lease_ms, passing=passing, run_id=run_id)
        reply = call(self.client, "identify_server", self.keys.in_partition(partition), plan)
        return _server_check(self.keys.prefix, reply)

    def note_pass(self, *, period_ms: int, lease_ms: int) -> list[Pass]:
        """Compare the server of every partition as a sweep passes, in one round trip."""
        plan = _check_plan(period_ms, lease_ms, passing=True)
        calls = [(self.keys.in_partition(partition), plan) for partition in range(PARTITIONS)]
        replies = call_all(self.client, "identify_server", calls)
        for reply in replies:
            _server_check(self.keys.prefix, reply)
        return [Pass(*map(int, reply[7:])) for reply in replies]

    def ended(self, partition: int, before_ms: int, limit: int) -> list[RecordId]:
        """Return roots of a partition that ended before a time, oldest first."""
        key = self.keys.ended_index(partition)
        rows = read(self.client, "ZRANGE", key, "-inf", before_ms, "BYSCORE", "LIMIT", 0, limit)
        return [RecordId(member.decode()) for member in rows]

    def partitions_with(self, index: Callable[[int], str], before_ms: int) -> list[int]:
        """Return the partitions whose index has a member before a time, in one round trip.

        `index` gives the key of a partition's index, such as `keys.effects`.
        """
        partitions = range(PARTITIONS)
        commands = [("ZCOUNT", index(partition), "-inf", before_ms) for partition in partitions]
        found = read_all(self.client, commands)
        return [partition for partition, n in zip(partitions, found, strict=True) if n]

    def waits(
        self, partitions: Collection[int], limit: int
    ) -> tuple[int, list[tuple[RecordId, int]]]:
        """Return how many records wait for a person, and up to `limit` of each partition.

        Each comes with since when it waits, the longest first.
        """
        keys = [self.keys.waits(partition) for partition in partitions]
        counts = read_all(self.client, [("ZCARD", key) for key in keys])
        within = ("-inf", "+inf", "BYSCORE", "LIMIT", 0, limit, "WITHSCORES")
        pages = read_all(self.client, [("ZRANGE", key, *within) for key in keys])
        found = [(RecordId(member.decode()), int(at)) for page in pages for member, at in page]
        return sum(map(int, counts)), sorted(found, key=lambda row: (row[1], row[0]))

    def depths(self) -> dict[str, int]:
        """Return how many effects and timers are in the indexes, and how many records wait."""
        keys = {"effects": self.keys.effects, "timers": self.keys.timers, "waits": self.keys.waits}
        commands = [("ZCARD", key(p)) for key in keys.values() for p in range(PARTITIONS)]
        found = iter(read_all(self.client, commands))
        return {name: sum(map(int, islice(found, PARTITIONS))) for name in keys}

    def oldest_ms(self) -> dict[str, int]:
        """Return since when the oldest timer is due, and the oldest record waits.

        One that is due later has a time to come; what is empty is left out.
        """
        keys = {"timers": self.keys.timers, "waits": self.keys.waits}
        commands = [
            ("ZRANGE", key(at), 0, 0, "WITHSCORES")
            for key in keys.values()
            for at in range(PARTITIONS)
        ]
        found = iter(read_all(self.client, commands))
        scores = {
            name: [int(at) for page in islice(found, PARTITIONS) for _, at in page] for name in keys
        }
        return {name: min(times) for name, times in scores.items() if times}

    def postpone(self, root: RecordId, age_ms: int) -> None:
        """Try to prune an ended family again later, as if it were `age_ms` older then."""
        named = {"index": self.keys.ended_index(partition_of(root))}
        plan = {"member": root, "delay_ms": -age_ms + BUSY_MS}
        call(self.client, "postpone", named, plan)

    def prune(
        self, record: Record, countdowns: Sequence[str], *, age_ms: int, last: bool = False
    ) -> str:
        """Prune one record that has ended. Returns pruned, early, busy or missing.

        The `last` record of those that share an inbox takes it along, unless another was created
        meanwhile.
        """
        keys = self.keys
        own = [
            keys.counters(record.id),
            keys.log(record.id),
            keys.ops(record.id),
            keys.op_times(record.id),
            keys.children(record.id),
            keys.subscribers(record.id),
            *(keys.members(record.id, countdown) for countdown in countdowns),
            *(keys.tally(record.id, countdown) for countdown in countdowns),
        ]
        named = keys.of(
            record.id,
            state_index=keys.state_index(record.id, record.machine, record.state),
            creation_index=keys.creation_index(partition_of(record.id), record.machine),
            own=own,
            shared=self._shared(record) if last else [],
        )
        plan = {
            "id": record.id,
            "age_ms": age_ms,
            "tombstone_ms": self.limits.tombstone_ms,
            "names": names_of(record),
        }
        status: bytes = call(self.client, "prune", named, plan)[0]
        return status.decode()

    def _shared(self, record: Record) -> tuple[str, ...]:
        """Return the keys that a record shares with the others of its family."""
        keys, member_id = self.keys, record.id
        return (
            keys.holds(member_id),
            keys.inbox(member_id),
            keys.posts(member_id),
            keys.post_times(member_id),
            keys.family_log(member_id),
        )


def _check_plan(
    period_ms: int, lease_ms: int, *, passing: bool, run_id: str = ""
) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "format": str(FORMAT),
        "partitions": str(PARTITIONS),
        "incarnation": uuid4().hex[:8],
        "passing": passing,
        "period_ms": period_ms,
        "lease_ms": lease_ms,
        "version": release(),
    }


def _server_check(prefix: str, reply: Sequence[bytes]) -> ServerCheck:
    """Read the answer of identify_server. Raises StoreFormatError for another format."""
    incarnation, written, partitions, version, gate, changed, server = reply[:7]
    refuse_format(prefix, written, partitions, version)
    return ServerCheck(incarnation.decode(), gate == b"open", changed == b"1", server.decode())


def _jitter() -> float:
    """Return a factor for the time until the next poll, which spreads the polls."""
    return random.uniform(0.8, 1.2)  # noqa: S311 - no secret
