"""The scripts that sweeps run on the indexes, and pruning. What is true is in the records."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from interlock.kernel.errors import StoreMisconfiguredError
from interlock.kernel.record import PARTITIONS, Record, RecordId, partition_of, split_key
from interlock.kernel.store.commands import EffectMessage, Limits
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call

FORMAT = 2
BUSY_MS = 600_000  # until a family that could not be forgotten is looked at again


@dataclass(frozen=True, slots=True)
class DueEffect:
    """What a take said of one due effect: publish, crash, exhausted, quarantined, gone, later."""

    key: str
    status: str
    detail: str

    @property
    def message(self) -> EffectMessage:
        """What to publish."""
        name, machine, priority, _ = self.detail.split(" ")
        return EffectMessage(self.key, machine, name, int(priority))

    @property
    def since_ms(self) -> int:
        """Since when the record of what is to be published has been in its state."""
        return int(self.detail.rpartition(" ")[2])


@dataclass(frozen=True, slots=True)
class DueTimer:
    """What a take said of one due timer: due, later, gone, taken."""

    record_id: RecordId
    name: str
    status: str
    due_at: int
    born: int
    fired: int


@dataclass(frozen=True, slots=True)
class ServerCheck:
    """What a partition knows of its server. `gate_open`: orphans of this life may be declared."""

    incarnation: str
    gate_open: bool
    changed: bool
    server: str


class Indexes:
    """The scripts of sweeps, over one client."""

    def __init__(self, client: Client, keys: Keys, limits: Limits) -> None:
        self.client, self.keys, self.limits = client, keys, limits

    def due_effects(self, partition: int, limit: int) -> list[str]:
        """Return effects to look at now, by id."""
        reply = call(self.client, "list_due", [self.keys.effects(partition)], [limit])
        return [member.decode() for member in reply]

    def due_timers(self, partition: int, limit: int) -> list[str]:
        """Return timers to look at now, as <record>:<name>."""
        reply = call(self.client, "list_due", [self.keys.timers(partition)], [limit])
        return [member.decode() for member in reply]

    def poll_effects(
        self, partition: int, members: Sequence[str], *, gate_open: bool, server: str = ""
    ) -> list[DueEffect]:
        """Look at due effects of one partition; each one's score moves in the same step.

        With the `server` of the meeting, an open gate counts in that life of the server alone.
        """
        names = [
            self.keys.effects(partition),
            self.keys.waits(partition),
            self.keys.timers(partition),
        ]
        polls: list[dict[str, Any]] = []
        for member in members:
            record_id, suffix = split_key(member)
            chain = self.keys.chain(record_id)
            names += [self.keys.record(record_id), self.keys.log(record_id), *chain]
            poll = {"id": record_id, "suffix": suffix, "chain_length": len(chain)}
            polls.append(poll | {"jitter": _jitter()})
        plan = {
            "polls": polls,
            "poll_ms": self.limits.poll_ms,
            "gate_open": gate_open,
            "server": server,
            "remind_ms": self.limits.remind_ms,
        }
        reply = [
            part.decode() for part in call(self.client, "poll_effects", names, [json.dumps(plan)])
        ]
        answers = zip(members, reply[::2], reply[1::2], strict=True)
        return [DueEffect(*answer) for answer in answers]

    def poll_timers(self, partition: int, members: Sequence[str]) -> list[DueTimer]:
        """Look at due timers of one partition; each one's score moves in the same step."""
        names = [self.keys.timers(partition)]
        polls: list[dict[str, Any]] = []
        for member in members:
            record_id, _, name = member.partition(":")
            names.append(self.keys.record(record_id))
            polls.append({"id": record_id, "name": name, "jitter": _jitter()})
        plan = {"polls": polls, "poll_ms": self.limits.poll_ms}
        reply = call(self.client, "poll_timers", names, [json.dumps(plan)])
        rows = [reply[at : at + 4] for at in range(0, len(reply), 4)]
        return [
            DueTimer(
                record_id=RecordId(poll["id"]),
                name=poll["name"],
                status=row[0].decode(),
                due_at=int(row[1]),
                born=int(row[2]),
                fired=int(row[3]),
            )
            for poll, row in zip(polls, rows, strict=True)
        ]

    def identify_server(
        self, partition: int, *, passing: bool, period_ms: int, lease_ms: int, run_id: str = ""
    ) -> ServerCheck:
        """Meet the server of a partition, and note a changed one once.

        Asked in the script, its run id cannot be that of an earlier life or of another node.
        """
        flag = "1" if passing else ""
        args = [run_id, FORMAT, PARTITIONS, uuid4().hex[:8], flag, period_ms, lease_ms]
        reply = call(self.client, "identify_server", [self.keys.meta(partition)], args)
        incarnation, written, partitions, gate, changed, server = (p.decode() for p in reply)
        if (int(written), int(partitions)) != (FORMAT, PARTITIONS):
            raise StoreMisconfiguredError(
                f"the store holds format {written} in {partitions} partitions, this process speaks "
                f"format {FORMAT} in {PARTITIONS}; use another prefix or the matching version"
            )
        return ServerCheck(incarnation, gate == "open", changed == "1", server)

    def postpone(self, root: RecordId, age_ms: int) -> None:
        """Look at an ended family again when it would be `age_ms` older."""
        call(
            self.client,
            "postpone",
            [self.keys.ended(partition_of(root))],
            [root, -age_ms + BUSY_MS],
        )

    def prune(
        self, record: Record, countdowns: Sequence[str], *, age_ms: int, last: bool = False
    ) -> str:
        """Forget one ended record: pruned, early, busy or missing.

        With the `last` of those that share an inbox that goes, too, unless another is born by now.
        """
        keys = self.keys
        names = [
            keys.record(record.id),
            keys.counters(record.id),
            keys.log(record.id),
            keys.ops(record.id),
            keys.op_times(record.id),
            keys.tombstone(record.id),
            keys.children(record.id),
            keys.state_index(record.id, record.machine, record.state),
            keys.ended(partition_of(record.id)),
            *(self._shared(record) if last else ()),
            keys.subscribers(record.id),
            *(keys.members(record.id, countdown) for countdown in countdowns),
            *(keys.tally(record.id, countdown) for countdown in countdowns),
        ]
        args = [record.id, age_ms, self.limits.tombstone_ms, "1" if last else ""]
        word: bytes = call(self.client, "prune", names, args)[0]
        return word.decode()

    def _shared(self, record: Record) -> tuple[str, ...]:
        """Return the keys of those that share an inbox with this record."""
        keys, of = self.keys, record.id
        return (
            keys.holds(of),
            keys.inbox(of),
            keys.posts(of),
            keys.post_times(of),
            keys.family_log(of),
        )


def _jitter() -> float:
    """Return by what to multiply the time to a next poll, so that polls spread."""
    return random.uniform(0.8, 1.2)  # noqa: S311 - no secret
