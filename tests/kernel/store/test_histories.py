"""Random histories: every invariant holds after every step, and a refusal changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any
from uuid import uuid4

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from interlock.kernel.effect import Kind
from interlock.kernel.errors import FencedError, IllegalTransitionError, KernelError
from interlock.kernel.record import Record
from interlock.kernel.store.commands import Warrant
from interlock.kernel.store.leases import Lease, Order
from interlock.kernel.table import Active, Terminal
from tests.kernel.store.invariants import holds
from tests.kernel.store.kernel_at_a_fixed_time import START_US, Text, World, token
from tests.kernel.store.tables import GRACE_MS, LEASE_MS, LIFE

pick = st.integers(min_value=0, max_value=1_000)
ENDS = {str(stage.state) for stage in LIFE.stages if isinstance(stage, Terminal)}
# The server makes one digest of the dumps of so many keys in a row: to send them takes longer.
DIGESTS = """
local digests, each = {}, tonumber(ARGV[1])
for first = 1, #KEYS, each do
  local dumps = {}
  for index = first, first + each - 1 do
    table.insert(dumps, redis.call('DUMP', KEYS[index]) or '')
  end
  table.insert(digests, redis.sha1hex(table.concat(dumps, '|')))
end
return digests
"""
MATTERS_MAX = 8
MATTERS = ("working", "asking", "polishing", "building")


def onward(state: str, *, ends: bool) -> list[str]:
    """Return the triggers that lead on from a state, or those that end the record."""
    rows = [row for row in LIFE.transitions if row.source == state]
    return sorted({str(row.trigger) for row in rows if (str(row.target) in ENDS) is ends})


class History(RuleBasedStateMachine):
    """Some records, one of them with children, and all calls that may change them."""

    def __init__(self, client: redis.Redis, text: Text) -> None:
        super().__init__()
        text.now_us = START_US
        self.world = World(client, f"h{uuid4().hex[:10]}", text)
        self.leases: list[Lease] = []
        self.fired: list[tuple[str, str, int]] = []
        self.ended: dict[str, Record] = {}
        self.tokens: dict[str, int] = {}
        self.current: dict[str, str] = {}
        self.places: dict[str, dict[str, int]] = {}
        self.focus = "r0"
        self.checked: dict[str, bytes] = {}
        self.nonces = self.matters = 0
        self.world.create("p", cap=1_000)
        self.fire("p", "split")
        for name in ("p/a", "p/b"):
            self.world.create(name, countdown="children:2")
        self.a_matter_comes("working")

    @property
    def records(self) -> tuple[str, ...]:
        return ("p", "p/a", "p/b", *(f"r{number}" for number in range(self.matters)))

    def named(self, number: int) -> str:
        """Return a record, mostly the same one: a deep state takes several steps of one record."""
        return self.records[number % len(self.records)] if number > 900 else self.focus

    def seen(self) -> dict[str, bytes]:
        """Return for each record a digest of the keys that a refusal may not change."""
        world, keys = self.world, self.world.keys
        assert isinstance(world.client, redis.Redis)
        of_record = (keys.record, keys.counters, keys.log, keys.ops)
        of_partition = (keys.effects, keys.timers, keys.waits)
        names: list[str] = []
        for of in self.records:
            names += [name(of) for name in of_record]
            names += [index(world.partition(of)) for index in of_partition]
        each = len(of_record) + len(of_partition)
        digests: Any = world.client.eval(DIGESTS, len(names), *names, each)
        return dict(zip(self.records, digests, strict=True))

    def fire(self, of: str, trigger: str, warrant: Warrant | None = None, spent: int = 0) -> bool:
        op = f"op-{len(self.fired)}-{trigger}"
        before = self.seen()
        try:
            fired = self.world.fire(
                of,
                trigger,
                warrant=warrant or Warrant(),
                op=op,
                deltas={"spent": spent} if spent else {},
            )
        except KernelError:
            assert self.seen() == before, f"{trigger} was refused and changed something"
            return False
        self.fired.append((of, op, fired.version))
        return True

    def lease(self, number: int) -> Lease:
        return self.leases[-1 - number % min(4, len(self.leases))]

    def begin_work(self) -> None:
        """Give the walk a lease to begin with."""
        self.a_worker_claims(0, 0, again=False)

    @rule(number=pick)
    def attention_turns(self, number: int) -> None:
        self.focus = self.records[number % len(self.records)]

    @precondition(lambda self: self.matters < MATTERS_MAX)
    @rule(state=st.sampled_from(MATTERS))
    def a_matter_comes(self, state: str) -> None:
        if self.matters >= MATTERS_MAX:
            return
        self.matters += 1
        once = {"once": True} if self.matters % 4 == 0 else {}
        self.focus = f"r{self.matters - 1}"
        self.world.at(state, self.focus, once)

    @rule(number=pick, choice=pick, ends=st.sampled_from((False, False, False, True)))
    def somebody_fires(self, number: int, choice: int, ends: bool) -> None:  # noqa: FBT001 - drawn
        of = self.named(number)
        state = self.world.record(of).state
        triggers = onward(state, ends=ends) or ["cancel"]
        self.fire(of, triggers[choice % len(triggers)])

    @rule(number=pick, trigger=st.sampled_from(LIFE.triggers))
    def somebody_fires_what_is_not_legal(self, number: int, trigger: str) -> None:
        of = self.named(number)
        if trigger not in LIFE.legal(self.world.record(of).state):
            assert not self.fire(of, trigger)

    @precondition(lambda self: self.fired)
    @rule(number=pick)
    def somebody_repeats(self, number: int) -> None:
        of, op, version = self.fired[number % len(self.fired)]
        before = self.seen()
        trigger = op.rpartition("-")[2]
        with suppress(KernelError):  # another digest, where the first carried something
            assert self.world.fire(of, trigger, op=op).version == version
        assert self.seen() == before

    @rule(number=pick, choice=pick, again=st.booleans())
    def a_worker_claims(self, number: int, choice: int, again: bool) -> None:  # noqa: FBT001 - drawn
        of = self.named(number)
        record = self.world.record(of)
        if not record.entries:
            return
        self.nonces += not again
        entry = record.entries[choice % len(record.entries)]
        lease = self.world.ask(entry.key(of), f"n{self.nonces}")
        if isinstance(lease, Lease) and entry.exclusive:
            self.enters(lease)
        if not isinstance(lease, Lease) or lease.token in {one.token for one in self.leases}:
            return
        assert lease.token_number > self.tokens.get(of, 0), "tokens rise"
        assert not record.paused, "nothing starts under pause"
        assert not entry.no_restart, "one with no_restart never starts again"
        assert entry.state in ("owed", "lapsed"), f"a {entry.state} effect was claimed"
        assert lease.attempt <= entry.attempts_max, "attempts are bounded"
        self.tokens[of], self.current[lease.key] = lease.token_number, lease.token
        self.leases.append(lease)

    @precondition(lambda self: self.leases)
    @rule(number=pick, trigger=st.sampled_from(("done", "go_on", "poke")), spent=pick)
    def a_worker_fires(self, number: int, trigger: str, spent: int) -> None:
        lease = self.lease(number)
        if lease.kind is Kind.STATE and self.fire(lease.record.id, trigger, token(lease), spent):
            assert self.current[lease.key] == lease.token, "a stale holder was believed"
            if trigger == "done":
                self.leaves(lease)

    @precondition(lambda self: self.leases)
    @rule(number=pick)
    def a_worker_renews(self, number: int) -> None:
        lease = self.lease(number)
        if self.world.renew(lease) is Order.GO and lease.token in self.place(lease):
            self.place(lease)[lease.token] = self.world.now + LEASE_MS + GRACE_MS

    @precondition(lambda self: self.leases)
    @rule(number=pick, again=st.booleans())
    def another_process_adopts(self, number: int, again: bool) -> None:  # noqa: FBT001 - drawn
        former = self.lease(number)
        self.nonces += not again
        effect = LIFE.effects[former.name]
        try:
            lease = self.world.leases.adopt(
                former.key, effect, former.token, nonce=f"n{self.nonces}", holder="supervisor"
            )
        except FencedError:
            return
        if lease.token in {one.token for one in self.leases}:
            return
        assert self.current[lease.key] == former.token, "a lease was adopted with a stale token"
        assert lease.attempt == former.attempt, "an adoption is no attempt"
        self.tokens[lease.record.id], self.current[lease.key] = lease.token_number, lease.token
        self.leases.append(lease)
        if former.token in self.place(former):
            self.leaves(former)
            self.enters(lease)

    @precondition(lambda self: self.leases)
    @rule(number=pick, counted=st.booleans())
    def a_worker_gives_back(self, number: int, counted: bool) -> None:  # noqa: FBT001 - drawn
        lease = self.lease(number)
        if self.world.leases.release(lease, counted=counted) != "lost":
            self.leaves(lease)

    @precondition(lambda self: self.leases)
    @rule(number=pick)
    def a_worker_settles_or_advances(self, number: int) -> None:
        lease = self.lease(number)
        if lease.kind is Kind.ADVANCE:
            self.fire(lease.record.id, "children_done", token(lease))
        elif self.world.settle(lease).status == "settled":
            self.leaves(lease)

    def place(self, lease: Lease) -> dict[str, int]:
        """Return the holders of a record's exclusive effects, and until when."""
        return self.places.setdefault(lease.record.id, {})

    def enters(self, lease: Lease) -> None:
        there = {one for one, until in self.place(lease).items() if until > self.world.now}
        assert there <= {lease.token}, "two are in one place"
        self.place(lease)[lease.token] = self.world.now + LEASE_MS + GRACE_MS

    def leaves(self, lease: Lease) -> None:
        self.place(lease).pop(lease.token, None)

    @precondition(lambda self: self.leases)
    @rule(number=pick, micro=pick)
    def a_worker_reserves(self, number: int, micro: int) -> None:
        with suppress(FencedError):
            self.world.reserve(self.lease(number), micro)

    @rule(name=st.sampled_from(("p/a", "p/b")))
    def a_birth_is_repeated(self, name: str) -> None:
        generation = self.world.record("p").entered
        with suppress(KernelError):
            self.world.create(name, countdown=f"children:{generation}")

    @rule(number=pick, spent=pick, op=st.sampled_from("abc"))
    def somebody_notes_a_cost(self, number: int, spent: int, op: str) -> None:
        with suppress(KernelError):
            self.world.note(self.named(number), deltas={"spent": spent}, op=op)

    @rule(number=pick, flag=st.sampled_from(("pause", "resume", "retry")))
    def a_person_flags(self, number: int, flag: str) -> None:
        self.world.flag(flag, self.named(number))

    @rule(ms=st.sampled_from((1, 900, 5_000, 10_000, 30_000)))
    def time_passes(self, ms: int) -> None:
        self.world.later(ms)

    @rule(number=pick, times=st.sampled_from((1, 2, 3)))
    def holder_after_holder_is_lost(self, number: int, times: int) -> None:
        for _ in range(times):
            self.a_worker_claims(number, number, again=False)
            self.every_holder_is_silent_for_too_long()

    @rule()
    def every_holder_is_silent_for_too_long(self) -> None:
        self.world.later(LEASE_MS)
        self.the_orphan_sweep_passes(gate_open=True)

    @rule(gate_open=st.booleans())
    def the_orphan_sweep_passes(self, gate_open: bool) -> None:  # noqa: FBT001 - drawn
        for of in {self.world.partition(of): of for of in self.records}.values():
            for polled in self.world.poll(of, gate_open=gate_open).values():
                found, _, suffix = polled.key.partition(":")
                stage = LIFE.stage(self.world.record(found).state)
                if not isinstance(stage, Active):
                    continue
                if polled.status == "crash":
                    assert stage.crash is not None
                    self.fire(found, str(stage.crash), Warrant.lapsed(suffix, polled.detail))
                elif polled.status == "exhausted":
                    assert stage.exhausted is not None
                    warrant = Warrant.exhausted(suffix, int(polled.detail))
                    self.fire(found, str(stage.exhausted), warrant)

    @rule()
    def the_stall_sweep_passes(self) -> None:
        for partition in {self.world.partition(of) for of in self.records}:
            due = self.world.indexes.due_timers(partition, 100)
            for polled in self.world.indexes.poll_timers(partition, due) if due else ():
                if polled.status != "due":
                    continue
                record = self.world.record(polled.record_id)
                timer = LIFE.stage(record.state).timer(polled.name)
                warrant = self.world.due(polled)
                if timer is not None and timer.trigger is not None:
                    self.fire(polled.record_id, str(timer.trigger), warrant)
                else:
                    op = f"due:{polled.name}:{polled.due_at}"
                    self.world.lifecycle.remind(record, polled.name, warrant, polled.fired, op)

    @invariant()
    def every_promise_holds(self) -> None:
        seen = self.seen()
        if seen == self.checked:
            return
        for of, digest in seen.items():
            if self.checked.get(of) == digest:
                continue
            record = holds(self.world, of)
            if of in self.ended:
                before = self.ended[of]
                assert (record.state, record.version, record.data) == (
                    before.state,
                    before.version,
                    before.data,
                ), "the end is final"
            elif isinstance(LIFE.stage(record.state), Terminal):
                self.ended[of] = record
                for trigger in LIFE.triggers:
                    try:
                        self.world.fire(of, trigger)
                    except IllegalTransitionError:
                        continue
                    raise AssertionError(f"{trigger} moved a record that has ended")
        self.checked = seen
        self.money_adds_up()

    def money_adds_up(self) -> None:
        found = self.world.views.records(self.records)
        counters = {of: record.counters for of, record in found.items()}
        for name in ("tree.spent", "reserved.spent", "residue.spent"):
            assert all(one.get(name, 0) >= 0 for one in counters.values()), name
        family = sum(one.get("spent", 0) for of, one in counters.items() if of[0] == "p")
        assert counters["p"].get("tree.spent", 0) == family


def run(make: Callable[[], History], *, examples: int, steps: int) -> None:
    machine: Any = make  # typed as a class, called as a function
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=list(HealthCheck),
            deadline=None,
        ),
    )


@pytest.mark.slow(minutes=1)
def test_every_promise_holds_after_every_step(client: redis.Redis, text: Text) -> None:
    run(lambda: History(client, text), examples=25, steps=30)


def walk(history: History, rng: Random, steps: int) -> None:
    """Take weighted steps: deep states need many of the right ones, which chance alone misses."""
    number = partial(rng.randrange, 1_001)
    acts: list[tuple[int, Callable[[], object]]] = [
        (3, lambda: history.a_matter_comes(rng.choice(MATTERS))),
        (1, lambda: history.attention_turns(number())),
        (6, lambda: history.somebody_fires(number(), number(), ends=rng.random() < 0.15)),
        (1, lambda: history.somebody_fires_what_is_not_legal(number(), rng.choice(LIFE.triggers))),
        (1, lambda: history.somebody_repeats(number())),
        (8, lambda: history.a_worker_claims(number(), number(), again=rng.random() < 0.2)),
        (8, lambda: history.a_worker_fires(number(), rng.choice(("done", "go_on", "poke")), 3)),
        (2, lambda: history.a_worker_renews(number())),
        (2, lambda: history.another_process_adopts(number(), again=rng.random() < 0.2)),
        (2, lambda: history.a_worker_gives_back(number(), counted=rng.random() < 0.5)),
        (2, lambda: history.a_worker_settles_or_advances(number())),
        (1, lambda: history.a_worker_reserves(number(), number())),
        (1, lambda: history.somebody_notes_a_cost(number(), number(), rng.choice("abc"))),
        (4, lambda: history.a_person_flags(number(), rng.choice(("pause", "resume", "retry")))),
        (2, lambda: history.time_passes(rng.choice((1, 900, 10_000, 30_000)))),
        (2, history.every_holder_is_silent_for_too_long),
        (3, lambda: history.holder_after_holder_is_lost(number(), rng.choice((1, 2, 3)))),
        (1, history.the_stall_sweep_passes),
    ]
    weights = [weight for weight, _ in acts]
    history.begin_work()
    for _ in range(steps):
        rng.choices(acts, weights)[0][1]()
        history.every_promise_holds()


@pytest.mark.parametrize("seed", range(6))
def test_every_promise_holds_on_a_long_walk(client: redis.Redis, text: Text, seed: int) -> None:
    walk(History(client, text), Random(seed), steps=120)
