"""Slots: a name has a limited number of them, and a queue of those that wait for one.

Slots are had by records, as their tables say, or by effects while they are at work.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import uuid4

from interlock.kernel.record import PARTITIONS, Record, RecordId, partition_of, split_key
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call, read_all

# The queue is in order of priority, then age, as the queues of families are. Both fit a double.
PRIORITY_SCALE = 10**13
# How often the slots of effects are checked, while an effect waits for one, and else.
CHECK_MS, CHECK_SELDOM_MS = 10_000, 900_000
OFFER_MS = 2_000  # then another effect, whose message is there, may take a slot that was offered
CONTENDED_MAX = 20  # names that are read of each partition
OFFERED = "offered"  # in the place of a stamp: nobody has come for the slot


@dataclass(frozen=True, slots=True)
class Occupied:
    """Whether a record has its slot, and the other records that were given one: wake them."""

    held: bool
    to_wake: tuple[RecordId, ...]


class Slots:
    """The scripts of slots, over one client. Every call may be repeated.

    `call` sends a script again by itself if its reply is lost. Both times the script gets the same
    id of the call, and so names the same records to wake.
    """

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def acquire(self, name: str, record: Record, limit: int) -> Occupied:
        """Take a slot, or enter the queue for one. A `limit` of 0 is none."""
        score = record.priority * PRIORITY_SCALE + record.created_ms
        plan = {"id": record.id, "limit": limit, "call_id": uuid4().hex, "score": score}
        status, *given = call(self.client, "acquire_slot", self._named(name), plan)
        return Occupied(status == b"held", tuple(RecordId(one.decode()) for one in given))

    def release(self, name: str, record_id: str, limit: int) -> tuple[RecordId, ...]:
        """Give back a record's slot, or its place in the queue, and give free slots to the next.

        With an empty id only the free slots are given. Returns the records to wake.
        """
        plan = {"id": record_id, "limit": limit, "call_id": uuid4().hex, "taken_by": "any"}
        _, *given = call(self.client, "release_slot", self._named(name), plan)
        return tuple(RecordId(one.decode()) for one in given)

    def _named(self, name: str) -> dict[str, str]:
        keys = self.keys
        return {
            "holders": keys.slots(name),
            "queue": keys.slots_queue(name),
            "reports": keys.slots_reports(name),
        }


@dataclass(frozen=True, slots=True)
class Needed:
    """What a claim is refused with that needs a slot; lua/claim.lua says what each is."""

    slots: str
    number: str
    priority: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class Taken:
    """The slot that an effect has, by a stamp that no other has; '' if it has none.

    And the effects that were offered a slot meanwhile.
    """

    stamp: str
    to_wake: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EffectSlot:
    """An effect that has a slot: by which stamp, for how long, and whether it has come for it."""

    key: str
    stamp: str
    age_ms: int


@dataclass(frozen=True, slots=True)
class SlotUse:
    """How many slots of one name effects have, and how many effects wait for one."""

    held: int
    waiting: int


class EffectSlots:
    """The scripts of the slots that effects need while they are at work, over one client.

    A slot is in the partition of its name, and an effect in that of its record, so no script does
    both. A slot is acquired first, and shown to the claim. It is given back when the effect has
    surely ended: by who did it, or by a sweep after `check` has answered `free`.
    """

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def acquire(self, key: str, needed: Needed, limit: int) -> Taken:
        """Take a slot for an effect, or enter the queue for one. A `limit` of 0 is none."""
        name = needed.slots
        checked = self.keys.checked_slots(partition_of(name))
        stamp = uuid4().hex
        plan = {
            "id": key,
            "limit": limit,
            "call_id": stamp,
            "score": needed.priority * PRIORITY_SCALE + needed.since_ms,
            "name": name,
            "check_ms": CHECK_MS,
            "check_seldom_ms": CHECK_SELDOM_MS,
            "offer_ms": OFFER_MS,
        }
        named = self.keys.effect_slots(name) | {"checked_slots": [checked]}
        status, *given = call(self.client, "acquire_slot", named, plan)
        return Taken(stamp if status == b"held" else "", tuple(one.decode() for one in given))

    def release(self, slots: str, limit: int, key: str = "", stamp: str = "") -> tuple[str, ...]:
        """Give back the slot that an effect has by this stamp, and give free slots to the next.

        Without a key only the free slots are given. Returns the effects to wake.
        """
        plan = {"id": key, "limit": limit, "call_id": uuid4().hex, "taken_by": stamp}
        _, *given = call(self.client, "release_slot", self.keys.effect_slots(slots), plan)
        return tuple(one.decode() for one in given)

    def check(
        self, slots: str, key: str, *, poll_ms: int, too_long: bool = False
    ) -> tuple[str, int]:
        """Return whether an effect is at `work`, `due`, or `free` of such a slot for good.

        One that is due is polled after `poll_ms`, if it does not begin before; its priority is
        returned with it. If it has had its slot for `too_long` without beginning, it is free of it.
        """
        record_id, suffix = split_key(key)
        named = self.keys.of(record_id, chain=self.keys.chain(record_id))
        plan = {
            "id": record_id,
            "suffix": suffix,
            "poll_ms": poll_ms,
            "too_long": too_long,
            "slots": slots,
        }
        status, priority = call(self.client, "check_slot", named, plan)
        return status.decode(), int(priority)

    def poll(self, slots: str) -> list[EffectSlot] | None:
        """Return the effects that have a slot of this name; None if they were polled just now."""
        checked = self.keys.checked_slots(partition_of(slots))
        named = self.keys.effect_slots(slots) | {"checked_slots": checked}
        plan = {"name": slots, "check_ms": CHECK_MS, "check_seldom_ms": CHECK_SELDOM_MS}
        reply = call(self.client, "poll_slots", named, plan)
        if not reply:
            return None
        now_ms, rows = int(reply[0]), zip(reply[1::3], reply[2::3], reply[3::3], strict=True)
        return [_slot(key.decode(), int(score), by.decode(), now_ms) for key, score, by in rows]

    def due(self, partition: int, limit: int) -> list[str]:
        """Return the names of slots to poll now."""
        named = {"index": self.keys.checked_slots(partition)}
        reply = call(self.client, "list_due", named, {"limit": limit})
        return [name.decode() for name in reply]

    def use(self, names: Iterable[str]) -> dict[str, SlotUse]:
        """Return for each name how many effects have a slot, and how many wait for one."""
        listed = list(dict.fromkeys(names))
        slots = map(self.keys.effect_slots, listed)
        keys = [each[name] for each in slots for name in ("holders", "queue")]
        counts = read_all(self.client, [("ZCARD", key) for key in keys])
        pairs = zip(listed, counts[::2], counts[1::2], strict=True)
        return {name: SlotUse(int(held), int(waiting)) for name, held, waiting in pairs}

    def names(self) -> list[str]:
        """Return the names of all slots that an effect has, or waits for."""
        return self._checked("+inf")

    def contended(self, now_ms: int) -> list[str]:
        """Return the names of slots that effects wait for, and perhaps of some that none does."""
        return self._checked(now_ms + CHECK_MS, "LIMIT", 0, CONTENDED_MAX)

    def _checked(self, until: int | str, *limit: int | str) -> list[str]:
        keys = [self.keys.checked_slots(partition) for partition in range(PARTITIONS)]
        commands = [("ZRANGE", key, "-inf", until, "BYSCORE", *limit) for key in keys]
        return sorted(name.decode() for page in read_all(self.client, commands) for name in page)


def _slot(key: str, score: int, stamp: str, now_ms: int) -> EffectSlot:
    """Read the score of a holder; part/slots.lua says what it means."""
    age_ms = max(now_ms - abs(score), 0) if score else 0
    return EffectSlot(key, OFFERED if score <= 0 else stamp, age_ms)
