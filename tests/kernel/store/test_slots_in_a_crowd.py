"""Whatever workers, sweeps and people do, no more effects are at work than have a slot."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from interlock.kernel.errors import KernelError
from interlock.kernel.store import scripts
from interlock.kernel.store.leases import Lease
from interlock.kernel.store.slots import OFFERED, Needed
from tests.kernel.store.kernel_at_a_fixed_time import World, token
from tests.kernel.store.slot_users import (
    ACME,
    acquire,
    check,
    owing,
    release,
    show,
)
from tests.kernel.store.tables import GRACE_MS, LEASE_MS


@dataclass
class Holder:
    """A worker's thread: what it claims, how far it is, and what it has."""

    key: str
    nonce: str
    needed: Needed | None = None
    stamp: str = ""
    lease: Lease | None = None


class Crowd:
    """Workers, a sweep and people that act on records in an order that a seed decides."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.dice = world, random.Random(seed)
        self.holders: list[Holder] = []
        self.freed: list[tuple[str, str]] = []  # found to be free by a sweep, and not yet released
        self.keys = [owing(world, f"r{n}") for n in range(4)]
        self.all_keys = [*self.keys]
        self.turn = 0

    def step(self) -> None:
        self.turn += 1
        steps = (self.ask, self.acquire, self.show, self.show, self.end, self.forget, self.renew)
        self.dice.choice((*steps, self.check, self.free, self.pause, self.poll))()

    def ask(self) -> None:
        at = self.dice.randrange(len(self.keys))
        holder = Holder(self.keys[at], f"n{self.turn}")
        answer = self.world.ask(holder.key, holder.nonce) if self.is_owed(holder.key) else None
        assert not isinstance(answer, Lease)
        if answer is None or answer.status in ("exhausted", "quarantined"):
            self.keys[at] = owing(self.world, f"s{self.turn}")
            self.all_keys.append(self.keys[at])
        elif answer.status == "slot":
            slots, number, priority, since = answer.detail.split(" ")
            holder.needed = Needed(slots, number, int(priority), int(since))
            self.holders.append(holder)

    def acquire(self) -> None:
        for holder in self.some(lambda one: not one.stamp):
            assert holder.needed
            holder.stamp = acquire(self.world, holder.key, holder.needed).stamp

    def show(self) -> None:
        for holder in self.some(lambda one: bool(one.stamp) and one.lease is None):
            assert holder.needed
            if not self.is_owed(holder.key):
                self.give_up(holder)
                continue
            answer = show(self.world, holder.key, holder.needed.number, holder.nonce)
            holder.lease = answer if isinstance(answer, Lease) else None
            if holder.lease is None:
                self.give_up(holder)

    def give_up(self, holder: Holder) -> None:
        self.holders.remove(holder)
        if check(self.world, holder.key, too_long=True) == "free":
            self.freed.append((holder.key, holder.stamp))

    def end(self) -> None:
        for holder in self.some(lambda one: one.lease is not None):
            assert holder.lease
            if self.dice.random() < 0.5:
                self.world.leases.release(holder.lease, counted=False)
            else:
                try:
                    of = holder.lease.record.id
                    self.world.fire(of, "paid", warrant=token(holder.lease))
                except KernelError:
                    self.world.settle(holder.lease)
            if self.dice.random() < 0.7:
                release(self.world, holder.key, holder.stamp)
            self.holders.remove(holder)

    def forget(self) -> None:
        """A worker is killed."""
        for holder in self.some(lambda _: self.dice.random() < 0.1):
            self.holders.remove(holder)

    def renew(self) -> None:
        for holder in self.some(lambda one: one.lease is not None):
            assert holder.lease
            self.world.renew(holder.lease)

    def check(self) -> None:
        reports = self.world.keys.effect_slots(ACME)["reports"]
        for key, score in self.holders_by_score():
            report = scripts.read(self.world.client, "HGET", reports, key) or b""
            stamp = report.decode().removeprefix("taken ") if score > 0 else OFFERED
            if check(self.world, key, too_long=self.dice.random() < 0.5) == "free":
                self.freed.append((key, stamp))

    def holders_by_score(self) -> list[tuple[str, int]]:
        holders = self.world.keys.effect_slots(ACME)["holders"]
        found = scripts.read(self.world.client, "ZRANGE", holders, 0, -1, "WITHSCORES")
        return [(key.decode(), int(score)) for key, score in found]

    def free(self) -> None:
        if self.freed:
            release(self.world, *self.freed.pop(self.dice.randrange(len(self.freed))))

    def pause(self) -> None:
        of = self.dice.choice(self.keys).partition(":")[0]
        self.world.flag(self.dice.choice(("pause", "resume")), of)

    def poll(self) -> None:
        self.world.later(self.dice.choice((1, GRACE_MS, LEASE_MS, LEASE_MS + GRACE_MS)))
        for of in sorted({key.partition(":")[0] for key in self.all_keys}):
            self.world.poll(of)

    def some(self, agrees: object) -> list[Holder]:
        found = [one for one in self.holders if agrees(one)]  # type: ignore[operator]
        return [self.dice.choice(found)] if found else []

    def is_owed(self, key: str) -> bool:
        record = self.world.record(key.partition(":")[0])
        return any(entry.key(record.id) == key for entry in record.entries)

    def at_work(self) -> set[str]:
        """Return the effects that somebody may be at work on."""
        found = set()
        for key in self.all_keys:
            for entry in self.world.record(key.partition(":")[0]).entries:
                stopped = entry.state in ("lapsed", "draining") and self.world.now >= entry.kill_by
                if entry.state in ("leased", "lapsed", "draining") and not stopped:
                    found.add(key)
        return found


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_no_more_are_at_work_than_have_a_slot(world: World, seed: int) -> None:
    crowd = Crowd(world, seed)
    for _ in range(120):
        crowd.step()
        holders = {key for key, _ in crowd.holders_by_score()}
        assert len(holders) <= 2
        at_work = crowd.at_work()
        assert at_work <= holders, f"step {crowd.turn}: {at_work - holders} has no slot"
