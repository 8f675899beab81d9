"""The same lifecycle on every kind of server: a cluster forbids what a single one lets pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest
import redis

from interlock.kernel.errors import HeldError
from interlock.kernel.store.commands import InitialLease, Warrant
from interlock.kernel.store.connect import open_store, refuse_unsafe
from interlock.kernel.store.feed import Position
from interlock.kernel.store.fold import fold
from interlock.kernel.store.listings import Filter
from interlock.kernel.store.slots import CHECK_MS, CHECK_SELDOM_MS
from interlock.kernel.store.subscriptions import MISSING, Subscriber
from interlock.workers.gateways.server import EmbeddedServer
from tests.kernel.store.kernel_at_a_fixed_time import LIMITS, Text, World, token
from tests.kernel.store.slot_users import ACME, begin, begun, check, owing, release
from tests.kernel.store.tables import LEASE_MS, LIFE
from tests.kernel.store.test_feed import every, feed_of, short


def whole_life(world: World) -> None:
    """Run every script at least once, a family included, and follow all commits."""
    begin = feed_of(world).newest()
    world.create("r", {"value": 1}, cap=1_000)
    world.fire("r", "split")
    spawn = world.claim("spawn")
    world.create_child("r", "a")
    world.create("r/b", countdown="children:2", cap=100)
    world.settle(spawn)

    world.fire("r/a", "begin")
    lease = world.claim(of="r/a")
    assert world.reserve(lease, 10) == "reserved"
    world.renew(lease)
    world.fire("r/a", "poke", warrant=token(lease), deltas={"spent": 1})
    world.later(LEASE_MS)
    assert world.poll_status(lease.key) == "publish"
    world.renew(lease)
    world.leases.release(lease, counted=True)
    lease = world.claim(nonce="b", of="r/a")
    world.fire("r/a", "go_on", warrant=token(lease))
    world.fire("r/a", "done", warrant=token(lease), deltas={"spent": 4})
    world.flag("pause", "r/a")
    world.flag("resume", "r/a")
    world.later(20_000)
    polled = world.poll_timers("r/a")["reminder"]
    world.lifecycle.remind(world.record("r/a"), "reminder", world.due(polled), 0, "due:1")
    world.note("r/a", deltas={"spent": 2}, op="bill")
    world.fire("r/a", "polish")
    for nonce in ("a", "b"):
        world.leases.release(world.claim("polish", nonce, "r/a"), counted=True)
    world.later(LIMITS.poll_ms)
    world.poll("r/a")
    assert world.state_of("polish", "r/a") == "quarantined"
    assert world.waits("r/a")
    world.flag("retry", "r/a")
    lease = world.claim("polish", "c", "r/a")
    world.fire("r/a", "done", warrant=token(lease))

    world.fire("r/b", "begin")
    facts = world.lifecycle.facts(world.record("r/b"), ["r"])
    assert facts["r"]["state"] == "grouping"
    world.fire("r/b", "rely")
    advance = world.claim("cascade")
    tally = world.views.tally("r", "children:2")
    assert tally == {"done": 2}
    world.fire("r", "children_done", {"tally": tally}, warrant=token(advance))
    counting = Subscriber.of(world.record(), "children:2")
    world.lifecycle.store.leave_countdown(counting, "r/z", "missing", world.lifecycle.render)
    all_there(world)
    all_gone(world)
    shared_life(world)
    told_life(world)
    followed_life(world, begin)


def shared_life(world: World) -> None:
    """Enter a family's queue, hold names, and adopt a lease."""
    world.create("b/one", {"files": ["x"]}, machine="ticket")
    world.create("b/two", {"files": ["x/y"]}, machine="ticket")
    assert world.views.queue("b", "any", 0, 10) == ["b/one", "b/two"]
    world.fire("b/one", "take", initial_lease=InitialLease("mine", "fleet", LEASE_MS))
    with pytest.raises(HeldError):
        world.fire("b/two", "take")
    former = world.claim("handle", "mine", "b/one")
    effect = world.lifecycle.machines["ticket"].effects["handle"]
    kept = world.leases.adopt(former.key, effect, former.token, nonce="k", holder="supervisor")
    world.fire("b/one", "finish", warrant=token(kept))
    world.fire("b/two", "take")
    assert world.views.holds("b") == {"x/y": "b/two"}


def told_life(world: World) -> None:
    """Wait for the end of a record in another partition, and for a slot."""
    world.create("g/a", machine="node")
    world.create("h/b", machine="node")
    world.fire("g/a", "activate")
    spawn, counting = (
        world.claim("register", of="g/a"),
        Subscriber.of(world.record("g/a"), "needs:2"),
    )
    assert world.subscriptions.join(counting, ["h/b", "h/z"])
    assert world.subscriptions.subscribe("h/z", counting) == MISSING
    assert world.subscriptions.subscribe("h/b", counting) == ""
    world.settle(spawn)
    world.fire("h/b", "cancel")
    assert world.subscriptions.subscribe("h/b", counting) == "canceled"
    assert list(world.subscriptions.subscribers("h/b")) == [counting]
    for member, outcome in (("h/z", MISSING), ("h/b", "canceled")):
        world.lifecycle.store.leave_countdown(counting, member, outcome, world.lifecycle.render)
    assert world.views.tally("g/a", "needs:2") == {MISSING: 1, "canceled": 1}
    world.fire("g/a", "met", warrant=token(world.claim("cascade", of="g/a")))

    for of, held in (("g/a", True), ("h/b", False)):
        assert world.slots.acquire("place", world.record(of), 1).held is held
    assert world.slots.release("place", "g/a", 1) == ("h/b",)
    limited_life(world)


def limited_life(world: World) -> None:
    """Let two of three effects be at work, in partitions of their own, and the third follow."""
    one, two, three = (owing(world, f"l{n}") for n in range(3))
    lease, stamp = begun(world, one)
    begun(world, two)
    assert begin(world, three) is None
    world.fire("l0", "paid", warrant=token(lease))
    assert check(world, one) == "free"
    assert release(world, one, stamp) == (three,)
    assert check(world, three) == "due"
    begun(world, three)
    slots = world.leases.slots
    world.later(CHECK_MS)
    assert [each.key for each in slots.poll(ACME) or ()] == [two, three]
    assert slots.names() == slots.contended(world.now + CHECK_SELDOM_MS) == [ACME]


def followed_life(world: World, begin: Position) -> None:
    """Read the feeds of all partitions: each version of each record, those pruned included."""
    versions = defaultdict(list)
    for one, version in short(every(world, begin)):
        versions[one].append(version)
    assert versions.keys() == {"r", "r/a", "r/b", "b/one", "b/two", "g/a", "h/b", "l0", "l1", "l2"}
    for one, found in versions.items():
        assert found == list(range(1, len(found) + 1)), one
    assert len(versions["g/a"]) == world.record("g/a").version


def all_there(world: World) -> None:
    """Read what the life left behind."""
    for of in ("r", "r/a", "r/b"):
        record, folded = world.record(of), fold(LIFE, world.views.history(of))
        assert (folded.state, folded.version) == (record.state, record.version) != ("", 0)
    assert world.counter("tree.spent") == 7
    assert world.counter("reserved.spent") == 0
    assert world.views.counts([LIFE])[LIFE.name]["done"] == 3
    assert [
        found.id
        for found in world.listings.page(Filter([LIFE.name], [(LIFE.name, "done")]), limit=1).rows
    ]
    assert world.indexes.depths()["waits"] == 0
    assert world.views.now_ms() > 0
    assert sorted(world.views.children("r")) == ["r/a", "r/b"]


def all_gone(world: World) -> None:
    """Settle what is still owed, and prune the family."""
    meeting = world.indexes.identify_server(
        1, run_id="x", passing=True, period_ms=1_000, lease_ms=1_000
    )
    assert meeting.gate_open
    for of in ("r/a", "r/b", "r"):
        for entry in world.record(of).entries:
            world.settle(world.claim_key(entry.key(of)))
        assert world.indexes.prune(world.record(of), ["children:2"], age_ms=0) == "pruned"
    assert world.create("r", {"value": 1}).replayed


@pytest.fixture
def clustered(cluster: EmbeddedServer, prefix: str, text: Text) -> Iterator[World]:
    client = open_store(f"redis+cluster://127.0.0.1:{cluster.port}")
    yield World(client, prefix, text)
    client.close()


def test_a_whole_life_on_the_shared_server(world: World) -> None:
    whole_life(world)


def test_a_whole_life_in_a_cluster_keeps_to_one_slot_a_script(clustered: World) -> None:
    refuse_unsafe(clustered.client)
    whole_life(clustered)


def test_a_whole_life_on_redis_7(redis_server: EmbeddedServer, prefix: str, text: Text) -> None:
    with redis.Redis.from_url(redis_server.url) as client:
        refuse_unsafe(client)
        whole_life(World(client, prefix, text))


def test_a_whole_life_on_the_servers_own_clock(world: World, text: Text) -> None:
    text.now_us = None
    world.at("working")
    lease = world.claim()
    fired = world.fire("r", "done", warrant=token(lease))
    timer = world.timer("expiry")

    assert fired.version == 3
    assert timer is not None
    assert 0 < timer.due_at - world.views.now_ms() <= 60_000
    assert lease.token_number >= lease.record.created_ms * 1_000
    stale = Warrant.due("expiry", timer.due_at, timer.set_at_version)
    assert world.fails("expire", stale) == "FencedError"
