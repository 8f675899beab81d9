"""What happens is counted once, by the script that makes it happen."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from time import perf_counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from interlock.kernel.errors import StoreError
from interlock.kernel.record import partition_of
from interlock.kernel.store import call_times, scripts
from interlock.kernel.store.call_times import CALL_BOUNDS_MS, CallTimes
from interlock.kernel.store.commands import InitialLease
from interlock.kernel.store.leases import Lease, Order
from interlock.kernel.store.metrics import BOUNDS_MS, Metrics, MetricsReader
from interlock.kernel.store.scripts import count_call_times, source_of
from interlock.kernel.store.scripts import read as read_one
from tests.damage import chances, torn
from tests.kernel.store.kernel_at_a_fixed_time import World, token


def read(world: World) -> Metrics:
    return MetricsReader(world.client, world.keys).read()


def test_a_transition_is_counted_with_the_time_in_the_state_that_was_left(world: World) -> None:
    world.create("r")
    world.later(1_500)
    world.fire("r", "begin", op="b")
    world.later(59_000)
    world.fire("r", "done")
    found = read(world)

    assert found.transitions == {
        ("life", "-", "idle"): 1,
        ("life", "idle", "working"): 1,
        ("life", "working", "asking"): 1,
    }
    idle, working = found.dwell["life", "idle"], found.dwell["life", "working"]
    assert (idle.buckets, idle.sum_ms) == ([0, 0, 1, 0, 0, 0, 0, 0], 1_500)
    assert (working.buckets[3], working.sum_ms) == (1, 59_000)


def test_an_internal_row_is_counted_without_a_time(world: World) -> None:
    world.at("working")
    world.fire("r", "poke", {"value": 7})
    found = read(world)

    assert found.transitions["life", "working", "working"] == 1
    assert ("life", "working") not in found.dwell


def test_a_repeated_call_is_counted_as_such_only(world: World) -> None:
    world.create("r")
    world.create("r")
    for _ in range(2):
        world.fire("r", "begin", op="same")
    found = read(world)

    # The repeated call is answered when its record is read, and never comes to a commit.
    assert found.refused == {("life", "replayed"): 1}
    assert sum(found.transitions.values()) == 2


@pytest.mark.parametrize(("ms", "bucket"), [(100, 0), (101, 1), (86_400_000, 6), (86_400_001, 7)])
def test_a_duration_is_in_the_first_bucket_that_holds_it(
    world: World, ms: int, bucket: int
) -> None:
    world.create("r")
    world.later(ms)
    world.fire("r", "begin")

    buckets = read(world).dwell["life", "idle"].buckets
    assert [at for at, count in enumerate(buckets) if count] == [bucket]


def test_the_time_of_each_call_is_counted_and_added_to_the_counts_of_all_processes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create("r")
    begin_s = perf_counter()
    for module in (scripts, call_times):
        monkeypatch.setattr(module, "perf_counter", lambda: begin_s)
    # The client is shared with other tests: undoing this patch turns the counting off again.
    monkeypatch.setattr(scripts._state_of(world.client), "times", None)
    count_call_times(world.client, CallTimes(world.keys.metrics(0)))
    world.fire("r", "begin")
    read_one(world.client, "TIME")
    assert read(world).calls == {}, "they are added later"
    monkeypatch.setattr(scripts, "perf_counter", lambda: begin_s + call_times.ADD_S)
    with pytest.raises(StoreError):
        read_one(world.client, "NONSENSE")
    added: Any = world.client.hkeys(world.keys.metrics(0))
    assert not any(name.startswith(b"store") for name in added), "that call had no answer"
    world.client.set(world.keys.metrics(0), "the store refuses to add to this")
    read_one(world.client, "TIME")
    world.client.delete(world.keys.metrics(0))
    read_one(world.client, "TIME")
    calls = read(world).calls

    numbers = {kind: sum(durations.buckets) for kind, durations in calls.items()}
    assert numbers == {"script": 1, "commit": 1, "read": 4, "batch": 1}
    assert all(durations.sum_ms < 60_000 for durations in calls.values())


@pytest.mark.parametrize(("ms", "bucket"), [(0.2, 1), (0.5, 1), (0.6, 2), (5_000, 7), (6_000, 8)])
def test_a_call_is_in_the_first_bucket_that_holds_it(ms: float, bucket: int) -> None:
    times = CallTimes("counts")
    for _ in range(2):
        times.count("read", 0.0, ms / 1_000)

    sums = [("HINCRBY", "counts", "store read sum", round(2 * ms))] if ms >= 0.5 else []
    assert times.taken() == [("HINCRBY", "counts", f"store read {bucket}", 2), *sums]
    assert times.taken() == []
    (buckets, sum_ms) = times.totals()["read"]
    assert (buckets[bucket - 1], sum(buckets), sum_ms) == (2, 2, 2 * ms)


def test_the_bounds_are_those_of_the_script() -> None:
    assert len(CALL_BOUNDS_MS) == len(BOUNDS_MS)
    named = ", ".join(str(bound) for bound in BOUNDS_MS)
    assert f"BOUNDS_MS = {{{named}}}" in source_of("commit")


def test_the_time_in_a_state_is_not_below_zero_where_the_clock_was_set_back(world: World) -> None:
    world.create("r")
    world.later(-1_500)
    world.fire("r", "begin")
    idle = read(world).dwell["life", "idle"]

    assert (idle.buckets[0], idle.sum_ms) == (1, 0)


def test_a_claim_is_counted_with_the_time_since_its_state_was_entered(world: World) -> None:
    world.at("working")
    world.later(700)
    lease = world.claim("work")
    world.claim("work")
    world.leases.release(lease, counted=True)
    world.later(60_000)
    world.claim("work", "b")
    found = read(world)

    assert found.attempts == {("work", "first"): 1, ("work", "again"): 1}
    assert (found.lag["work"].sum_ms, sum(found.lag["work"].buckets)) == (700, 1)


def test_an_effect_that_is_leased_at_once_is_counted_as_one_that_did_not_wait(
    world: World,
) -> None:
    world.create("b/a", machine="ticket")
    world.later(700)
    world.fire("b/a", "take", initial_lease=InitialLease("mine", "fleet", 30_000))
    world.claim("handle", "mine", "b/a")
    found = read(world)

    assert found.attempts == {("handle", "first"): 1}
    assert (found.lag["handle"].sum_ms, sum(found.lag["handle"].buckets)) == (0, 1)


def test_only_an_effect_of_a_state_waits_since_the_state_began(world: World) -> None:
    world.at("asking")
    world.later(700)
    world.claim("notify")

    assert "notify" not in read(world).lag


def test_a_fenced_commit_is_counted(world: World) -> None:
    world.at("working")
    late = world.claim("work")
    world.leases.release(late, counted=True)
    world.later(60_000)
    world.claim("work", "b")
    world.fails("done", token(late))

    assert read(world).refused == {("life", "fenced"): 1}


def test_what_is_used_is_added_up_for_a_machine(world: World) -> None:
    world.at("working")
    world.fire("r", "done", deltas={"spent": 5, "tokens_in": 7})
    world.note("r", deltas={"spent": 2}, op="n")

    assert read(world).sums == {("life", "spent"): 7, ("life", "tokens_in"): 7}


def test_a_reservation_that_a_cap_forbids_is_counted(world: World) -> None:
    world.create("r", cap=10)
    world.fire("r", "begin")
    lease = world.claim("work")
    assert world.reserve(lease, 10) == "reserved"
    assert world.reserve(lease, 11) == "over"

    assert read(world).over == {"work": 1}


def test_what_sweeps_did_is_added_up(world: World) -> None:
    for results in ({"publish": 2}, {"publish": 1, "out of time": 1}, {}):
        world.indexes.count_sweep("orphans", results)

    assert read(world).sweeps == {("orphans", "publish"): 3, ("orphans", "out of time"): 1}


def test_a_run_is_counted_by_what_came_of_it(world: World) -> None:
    world.at("working")
    for counted in (True, False):
        lease = world.claim("work")
        world.leases.release(lease, counted=counted)
        world.later(60_000)
    world.claim("work", "lost")
    world.later(60_000)
    world.poll()
    world.at("working", "well")
    world.fire("well", "done", warrant=token(world.claim("work", of="well")))

    assert read(world).runs == {
        ("work", "failed"): 1,
        ("work", "released"): 1,
        ("work", "lost"): 1,
        ("work", "done"): 1,
    }


def test_a_run_that_is_stopped_is_counted_as_such(world: World) -> None:
    for record, end in (("a", world.settle), ("b", give_back(world))):
        world.at("working", record)
        lease = world.claim("work", of=record)
        world.fire(record, "fail")
        end(lease)
    world.at("working", "c")
    world.claim("work", of="c")
    world.fire("c", "fail")
    world.later(100_000)
    world.poll("c")

    assert read(world).runs == {("work", "stopped"): 2, ("work", "lost"): 1}


def give_back(world: World) -> Callable[[Lease], object]:
    return lambda lease: world.leases.release(lease, counted=False)


def test_a_refused_claim_is_counted_with_its_status(world: World) -> None:
    world.at("working")
    key = world.key("work")
    world.claim("work")
    assert [world.refused(key), world.refused(key)] == ["held", "held"]
    world.fire("r", "done", warrant=token(world.claim("work")))
    assert world.refused(key) == "gone"

    assert read(world).unclaimed == {("work", "held"): 2, ("work", "gone"): 1}


@pytest.mark.parametrize(("ms", "late"), [(10_000, {}), (10_001, {"work": 1})])
def test_a_renewal_of_a_lease_that_has_run_out_is_counted(
    world: World, ms: int, late: dict[str, int]
) -> None:
    world.at("working")
    lease = world.claim("work")
    world.renew(lease)
    world.later(ms)
    assert world.renew(lease) is Order.GO

    assert read(world).late == late


def test_the_last_end_of_a_machine_is_known(world: World) -> None:
    world.at("asking")
    assert read(world).ends == {}
    for record in ("x", "y"):
        world.at("asking", record)
        world.later(1_000)
        world.fire(record, "approve")

    assert partition_of("x") != partition_of("y"), "each partition has a time of its own"
    assert read(world).ends == {"life": world.now}


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chance=chances)
def test_a_damaged_count_hides_no_other(world: World, chance: Random) -> None:
    key, other = world.keys.metrics(0), world.keys.metrics(1)
    world.client.hset(other, "late notify", "7")
    name = chance.choice(["transition a b c", "dwell a b 3", "lag a sum", "end a", "attempt a b"])
    damaged = torn(name.encode(), chance), torn(b"12", chance)
    world.client.hset(key, mapping={damaged[0]: b"1", name: damaged[1]})
    world.client.hset(world.keys.sweep_results(), damaged[0], damaged[1])

    assert read(world).late["notify"] == 7
    world.client.unlink(key)
