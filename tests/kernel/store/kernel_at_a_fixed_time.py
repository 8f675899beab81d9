"""The kernel on a real server, with a clock that only the test moves."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import redis

from interlock.kernel.decision import Decision
from interlock.kernel.effect import Effect
from interlock.kernel.errors import KernelError
from interlock.kernel.event import Cause, Event, Note
from interlock.kernel.fired import Fired
from interlock.kernel.lifecycle import Lifecycle
from interlock.kernel.record import Entry, Record, RecordId, TimerEntry, partition_of
from interlock.kernel.store import scripts
from interlock.kernel.store.commands import (
    NO_WARRANT,
    Answer,
    Call,
    InitialLease,
    Limits,
    NoteDraft,
    Render,
    Spender,
    Warrant,
)
from interlock.kernel.store.hosts import Hosts
from interlock.kernel.store.indexes import DueEffect, DueTimer, Indexes
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.leases import Lease, Leases, Order, Refused
from interlock.kernel.store.listings import Listings
from interlock.kernel.store.redis import Store
from interlock.kernel.store.scripts import Client
from interlock.kernel.store.slots import Slots
from interlock.kernel.store.subscriptions import Subscriptions
from interlock.kernel.store.tables import Tables
from interlock.kernel.store.views import Views
from interlock.systems.loops.machines.loop.table import LOOP
from interlock.systems.runs.machines.codon.table import CODON
from interlock.systems.runs.machines.run.table import RUN
from interlock.systems.runs.machines.workspace.table import WORKSPACE
from tests.kernel.store.machines_families import ORDER, PART
from tests.kernel.store.machines_following import FOLLOWING
from tests.kernel.store.machines_limited import LIMITED
from tests.kernel.store.machines_nodes import NODE, ROOT
from tests.kernel.store.machines_tickets import SESSION, TICKET
from tests.kernel.store.machines_timed import TIMED
from tests.kernel.store.tables import LEASE_MS, LIFE

MACHINES = (
    LIFE,
    TIMED,
    TICKET,
    SESSION,
    NODE,
    ROOT,
    ORDER,
    PART,
    LIMITED,
    FOLLOWING,
    LOOP,
    WORKSPACE,
    RUN,
    CODON,
)
EFFECTS = {name: effect for machine in MACHINES for name, effect in machine.effects.items()}
START_US = 1_800_000_000_000_000
CLOCK = "local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])"
LOSSES_FREE = 5  # so often an effect may be lost without using up an attempt
LIMITS = Limits(op_window_ms=100_000, poll_ms=1_000, remind_ms=50_000, tombstone_ms=60_000)
ACTOR = Cause("test")

ORIGINAL = scripts.source_of


@lru_cache(maxsize=4_096)
def _sha(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()  # noqa: S324 - the server's own name for it


@dataclass
class Text:
    """The text of the scripts in a test: with a fixed time, and perhaps without a guard."""

    now_us: int | None = START_US
    changes: list[tuple[str, str, str]] = field(default_factory=list)

    def source_of(self, name: str) -> str:
        text = ORIGINAL(name)
        for script, old, new in self.changes:
            if script == name:
                text = text.replace(old, new)
        if self.now_us is not None:
            text = text.replace(CLOCK, f"local now_us = {self.now_us}")
        return text

    def sha_of(self, name: str) -> str:
        return _sha(self.source_of(name))

    def change(self, script: str, old: str, new: str) -> None:
        found = ORIGINAL(script).count(old)
        assert found == 1, f"{script} has {old!r} {found} times"
        self.changes.append((script, old, new))


class World:
    """The calls that tests make, and what they read of the records."""

    def __init__(
        self, client: Client, prefix: str, text: Text, *, render: Render | None = None
    ) -> None:
        self.client, self.text, self.keys = client, text, Keys(prefix)
        self.lifecycle = Lifecycle(
            Store(client, self.keys, LIMITS),
            {machine.name: machine for machine in MACHINES},
            render or (lambda _: None),
            lambda _: None,
        )
        self.leases = Leases(client, self.keys, LIMITS)
        self.indexes = Indexes(client, self.keys, LIMITS)
        self.views = Views(client, self.keys)
        self.listings = Listings(client, self.keys)
        self.subscriptions, self.slots = Subscriptions(client, self.keys), Slots(client, self.keys)
        self.hosts = Hosts(client, self.keys)
        self.tables = Tables(client, self.keys)
        self._ops = 0

    @property
    def now(self) -> int:
        assert self.text.now_us is not None, "this world's clock runs by itself"
        return self.text.now_us // 1_000

    def later(self, ms: int) -> None:
        assert self.text.now_us is not None, "this world's clock runs by itself"
        self.text.now_us += ms * 1_000

    def op(self) -> str:
        self._ops += 1
        return f"op-{self._ops}"

    def create(
        self,
        new_id: str = "r",
        payload: Mapping[str, Any] | None = None,
        *,
        countdown: str = "",
        cap: int | None = None,
        bounds: Mapping[str, int] | None = None,
        machine: str = "life",
        priority: int = 5,
        initial_lease: InitialLease | None = None,
    ) -> Fired:
        return self.lifecycle.create(
            machine,
            new_id,
            payload or {},
            ACTOR,
            priority=priority,
            countdown=countdown,
            bounds=bounds or ({} if cap is None else {"spent": cap}),
            initial_lease=initial_lease,
        )

    def fire(
        self,
        of: Record | str,
        trigger: str,
        payload: Mapping[str, Any] | None = None,
        *,
        warrant: Warrant = NO_WARRANT,
        op: str = "",
        deltas: Mapping[str, int] | None = None,
        initial_lease: InitialLease | None = None,
    ) -> Fired:
        call = Call(ACTOR, op or self.op(), warrant, deltas or {})
        return self.lifecycle.fire(of, trigger, payload or {}, call, initial_lease=initial_lease)

    def at(self, state: str, of: str = "r", payload: Mapping[str, Any] | None = None) -> Record:
        """Create a record and bring it to a state by the shortest way."""
        self.create(of, payload)
        ways = {
            "idle": (),
            "working": ("begin",),
            "asking": ("begin", "done"),
            "polishing": ("begin", "done", "polish"),
            "grouping": ("split",),
            "building": ("build",),
            "failed": ("begin", "fail"),
        }
        for trigger in ways[state]:
            self.fire(of, trigger)
        return self.record(of)

    def record(self, of: str = "r") -> Record:
        return self.views.record(of)

    def entry(self, name: str = "work", of: str = "r") -> Entry:
        found = [entry for entry in self.record(of).entries if entry.name == name]
        assert len(found) == 1, f"{of} has {len(found)} entries of {name}"
        return found[0]

    def entry_of_key(self, key: str) -> Entry:
        of, _, suffix = key.partition(":")
        return next(entry for entry in self.record(of).entries if entry.suffix == suffix)

    def state_of(self, name: str = "work", of: str = "r") -> str:
        states = [entry.state for entry in self.record(of).entries if entry.name == name]
        return ",".join(states) or "gone"

    def timer(self, name: str, of: str = "r") -> TimerEntry | None:
        return next((timer for timer in self.record(of).timers if timer.name == name), None)

    def key(self, name: str = "work", of: str = "r") -> str:
        return self.entry(name, of).key(of)

    def ask(
        self, key: str, nonce: str = "a", *, schema: int = 1, lease_ms: int | None = None
    ) -> Lease | Refused:
        """Claim an effect by its key, with the name that its message would carry."""
        of, _, suffix = key.partition(":")
        named = {entry.suffix: entry.name for entry in self.record(of).entries}
        effect = EFFECTS[named.get(suffix, "work")]
        if lease_ms is not None:
            effect = Effect(effect.name, lease_ms=lease_ms)
        return self.leases.claim(key, effect, nonce=nonce, holder="here", schema=schema)

    def claim(self, name: str = "work", nonce: str = "a", of: str = "r") -> Lease:
        lease = self.ask(self.key(name, of), nonce)
        assert isinstance(lease, Lease), lease
        return lease

    def let_losses_count(self, name: str = "work", of: str = "r") -> None:
        """Use up what an effect may be lost without using up attempts that may fail."""
        for turn in range(LOSSES_FREE):
            self.claim(name, f"spare{turn}", of)
            self.later(LEASE_MS * 4)
            self.poll(of)

    def claim_key(self, key: str) -> Lease:
        """Claim an effect by its key. The claim must be granted."""
        lease = self.ask(key)
        assert isinstance(lease, Lease), lease
        return lease

    def refused(self, key: str, nonce: str = "z") -> str:
        answer = self.ask(key, nonce)
        assert isinstance(answer, Refused), answer
        return answer.status

    def renew(self, lease: Lease, acknowledged: int = 0) -> Order:
        return self.leases.renew({lease.key: (lease.token, 10_000, acknowledged)})[lease.key][0]

    def settle(self, lease: Lease) -> Answer:
        return self.leases.settle(lease, self.lifecycle.render)

    def poll(self, of: str = "r", *, gate_open: bool = True) -> dict[str, DueEffect]:
        """Poll every effect that is due in the record's partition."""
        partition = partition_of(of)
        due = self.indexes.due_effects(partition, 100)
        if not due:
            return {}
        polls = self.indexes.poll_effects(partition, due, gate_open=gate_open)
        return {polled.key: polled for polled in polls}

    def poll_status(self, key: str, *, gate_open: bool = True) -> str:
        polls = self.poll(key.partition(":")[0], gate_open=gate_open)
        return polls[key].status if key in polls else "not due"

    def poll_timers(self, of: str = "r") -> dict[str, DueTimer]:
        partition = partition_of(of)
        due = self.indexes.due_timers(partition, 100)
        if not due:
            return {}
        return {polled.name: polled for polled in self.indexes.poll_timers(partition, due)}

    def score(self, key: str) -> int | None:
        """Return when an effect is polled next, or None where it is not in the index."""
        index = self.keys.effects(partition_of(key.partition(":")[0]))
        found: Any = scripts.read(self.client, "ZSCORE", index, key)
        return None if found is None else int(float(found))

    def waits(self, of: str = "r") -> bool:
        return of in {str(found) for found, _ in self.indexes.waits([partition_of(of)], 1_000)[1]}

    def flag(self, name: str, of: str = "r", op: str = "") -> Answer:
        return self.lifecycle.flag(name, of, Call(ACTOR, op or self.op()))

    def note(
        self,
        of: str = "r",
        kind: str = "cost",
        *,
        deltas: Mapping[str, int] | None = None,
        op: str = "",
        warrant: Warrant = NO_WARRANT,
        timers: tuple[tuple[str, int, int], ...] = (),
        spender: Spender | None = None,
    ) -> Answer:
        draft = NoteDraft(kind, {}, deltas or {}, spender, timers)
        return self.lifecycle.note(self.record(of), draft, op_id=op, warrant=warrant)

    def reserve(self, lease: Lease, spent: int = 0, **amounts: int) -> str:
        """Reserve money and other amounts: `reserved`, or why not."""
        wanted = amounts | ({"spent": spent} if spent else {})
        shortage = self.leases.reserve(lease, wanted)
        if shortage is None:
            return "reserved"
        return "waits" if shortage.may_pass else "over"

    def report(self, lease: Lease, *, has_ended: bool = False, op: str = "", **used: int) -> Answer:
        """Count what a holder has used."""
        spender = Spender(lease.suffix, lease.token, has_ended)
        return self.note(lease.record.id, deltas=used, op=op or self.op(), spender=spender)

    def counter(self, name: str, of: str = "r") -> int:
        return int(self.record(of).counters.get(name, 0))

    def events(self, of: str = "r") -> list[Event]:
        return [line for line in self.views.history(of) if isinstance(line, Event)]

    def notes(self, of: str = "r") -> list[Note]:
        return [line for line in self.views.history(of) if isinstance(line, Note)]

    def dump(self) -> dict[bytes, bytes]:
        """Return every key of this test, as the server would save it, but not what is counted."""
        client = self.client
        assert isinstance(client, redis.Redis)
        names: Any = client.keys(f"{self.keys.prefix}:*")
        found = sorted(key for key in names if not key.endswith(b":metrics"))
        with client.pipeline(transaction=False) as pipeline:
            for key in found:
                pipeline.dump(key)
            return dict(zip(found, pipeline.execute(), strict=True))

    def make_due(self, key: str) -> None:
        """Make an effect due now."""
        index = self.keys.effects(partition_of(key.partition(":")[0]))
        scripts.read(self.client, "ZADD", index, self.now, key)

    def fails(self, trigger: str, warrant: Warrant = NO_WARRANT, *, op: str = "") -> str:
        """Fire, expect a refusal that changed nothing, and return the error's name."""
        before = self.dump()
        try:
            self.fire("r", trigger, warrant=warrant, op=op)
        except KernelError as refusal:
            assert self.dump() == before, "a refusal changed something"
            return type(refusal).__name__
        raise AssertionError(f"{trigger} was accepted")

    def due(self, polled: DueTimer) -> Warrant:
        return Warrant.due(polled.name, polled.due_at, polled.set_at_version)

    def spend(self, name: str) -> None:
        """Use up an effect's attempts, and poll it."""
        for nonce in ("s1", "s2"):
            self.leases.release(self.claim(name, nonce), counted=True)
        self.later(LIMITS.poll_ms)
        self.poll()

    def commit(self, decision: Decision, warrant: Warrant = NO_WARRANT) -> Answer:
        """Commit a decision, without deciding again."""
        return self.lifecycle.store.commit(
            self.lifecycle.machine(decision.after.machine),
            decision,
            op_id=self.op(),
            digest="0",
            warrant=warrant,
            cause=ACTOR,
            deltas=[{}],
            render=self.lifecycle.render,
        )

    def partition(self, of: str = "r") -> int:
        return partition_of(of)

    def size(self, key: str) -> int:
        word = {b"hash": "HLEN", b"zset": "ZCARD", b"set": "SCARD"}
        kind: Any = scripts.read(self.client, "TYPE", key)
        kind = kind if isinstance(kind, bytes) else str(kind).encode()
        return 0 if kind == b"none" else int(scripts.read(self.client, word[kind], key))

    def list_of(self, key: str) -> list[bytes]:
        found: list[bytes] = scripts.read(self.client, "LRANGE", key, 0, -1)
        return found

    def split(self, of: str = "r") -> Lease:
        """Bring a record into the state in which it counts its children, and claim the spawn."""
        self.at("grouping", of)
        return self.claim("spawn", of=of)

    def create_child(self, parent: str, name: str, *, generation: int = 2) -> Fired:
        return self.create(f"{parent}/{name}", countdown=f"children:{generation}")

    def counted(self, of: str = "r", generation: int = 2) -> set[str]:
        return self.views.counted(of, f"children:{generation}")


def token(lease: Lease) -> Warrant:
    return Warrant.token(lease.suffix, lease.token)


def children(*names: str) -> list[RecordId]:
    return [RecordId(name) for name in names]
