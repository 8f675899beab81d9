"""The kernel without Celery: transitions, submissions, and the memory of records."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any
from unittest.mock import patch
from uuid import uuid4

from redis import Redis

from bench.machine import CHAIN, STEP, Trigger
from bench.server import CAUSE, BenchServer, create_records, first_key
from interlock.kernel.store.commands import Call
from interlock.kernel.store.connections import ConnectionCache
from interlock.kernel.store.leases import Lease
from interlock.kernel.store.scripts import call, layout_of
from interlock.workers.client import Client

TRANSITIONS = 1_500
SUBMISSIONS = 600
RECORDS_MEASURED = 4_000
SAMPLES = 200
LONG_LOG_LINES = 5_000
OPS = 5
BARE_SCRIPT = "return {'committed', '2', '0', '', ''}"


@dataclass(frozen=True, slots=True)
class CallCosts:
    """What a transition takes, and a script with its keys and values that does nothing.

    Medians, in seconds: of the clock, and of this process's processor time.
    """

    fired_s: float
    bare_s: float
    fired_cpu_s: float
    bare_cpu_s: float


def transitions(server: BenchServer) -> dict[str, Any]:
    """Measure transitions on one connection."""
    costs = call_costs(server)
    return {
        "transitions_per_s": round(1 / costs.fired_s),
        "bare_evalsha_per_s": round(1 / costs.bare_s),
        "transition_share_of_bare": round(costs.bare_s / costs.fired_s, 2),
    }


def call_costs(server: BenchServer) -> CallCosts:
    """Fire transitions on one connection, alternating with an empty script with the same keys."""
    server.client.flushall()
    dispatch = server.dispatch()
    keys, args = _commit_of(server)
    sha = server.client.script_load(BARE_SCRIPT)
    client = dispatch.client
    assert isinstance(client, Redis), "the server is not a cluster"
    connections = ConnectionCache(client.connection_pool)
    bare = [("EVALSHA", sha, len(keys), *keys, *args)]
    [answer] = connections.exchange(client, bare) or [None]
    assert answer is not None, "the connection failed"
    assert not isinstance(answer, Exception), answer
    took = []
    # Alternately and with medians, so that a busy moment of the computer affects both or neither.
    for record in create_records(dispatch, TRANSITIONS):
        fire = partial(dispatch.lifecycle.fire, record, Trigger.STEPPED, {}, Call(CAUSE))
        took.append((*_timed(fire), *_timed(partial(connections.exchange, client, bare))))
    fired, fired_cpu, bare_call, bare_cpu = map(median, zip(*took, strict=True))
    return CallCosts(fired, bare_call, fired_cpu, bare_cpu)


def submissions(server: BenchServer) -> dict[str, Any]:
    """Create records one after the other, and submit whole threads through the client."""
    server.client.flushall()
    dispatch = server.dispatch()
    create_records(dispatch, 20)
    create_s = _each(range(SUBMISSIONS), lambda _: create_records(dispatch, 1))
    client = Client(server.settings())
    inciting = {"source": "bench", "title": "note the meeting", "text": "x" * 500, "fields": {}}
    payload = {"inciting": inciting}
    client.submit(payload, machine="thread")
    submit_s = _each(range(SUBMISSIONS), lambda _: client.submit(payload, machine="thread"))
    return {"creates_per_s": round(1 / create_s), "submits_per_s": round(1 / submit_s)}


def memory(server: BenchServer) -> dict[str, Any]:
    """Measure the memory of live records, and of the lines and op-ids that transitions add."""
    server.client.flushall()
    # Without messages, which belong to the broker and are gone when they are received.
    dispatch = server.dispatch(enqueue="plain")
    keys, lifecycle = dispatch.keys, dispatch.lifecycle
    assert lifecycle.create(CHAIN.name, "warm", {}, CAUSE).record, "the scripts are loaded"
    before = server.memory()
    created = (
        lifecycle.create(CHAIN.name, f"ch-{uuid4().hex[:10]}", {}, CAUSE)
        for _ in range(RECORDS_MEASURED)
    )
    records = [fired.record for fired in created if fired.record is not None]
    live = (server.memory() - before) / RECORDS_MEASURED
    claim = partial(
        dispatch.leases.claim, nonce="bench000", holder=dispatch.holder, schema=CHAIN.schema
    )
    for record in records[:SAMPLES]:
        assert isinstance(claim(first_key(record), STEP), Lease), "the effect was free"
        lifecycle.fire(record, Trigger.STEPPED, {}, Call(CAUSE))
    # The first block of a log is allocated as a whole, so only a long log shows what a line adds.
    note = _line_bytes(server, [keys.log(record.id) for record in records[:SAMPLES]], b"note")
    event = _line_bytes(server, [keys.log(record.id) for record in records[:SAMPLES]], b"event")
    sizes = (
        server.client.memory_usage(keys.log(record.id), samples=0) for record in records[-SAMPLES:]
    )
    return {
        "bytes_per_record": round(live),
        "bytes_per_record_of_log": round(sum(size or 0 for size in sizes) / SAMPLES),
        "bytes_per_event": round(event + _op_bytes(server)),
        "bytes_per_claim": round(note),
    }


def _line_bytes(server: BenchServer, logs: Sequence[str], kind: bytes) -> float:
    """Return the bytes that a line of one kind adds to a long log."""
    client: Any = server.client
    lines = [pairs for log in logs for _, pairs in client.xrange(log) if kind in pairs]
    for number in range(LONG_LOG_LINES):
        client.xadd("long", lines[number % len(lines)], id=f"{number + 1}-0")
    size = client.memory_usage("long", samples=0)
    client.delete("long")
    return float(size / LONG_LOG_LINES)


def _op_bytes(server: BenchServer) -> float:
    """Return the bytes of an op-id: in its hash, and in the set of times by which it is trimmed."""
    client: Any = server.client
    for number in range(OPS):
        op = uuid4().hex
        client.hset("ops", op, f"{op[:16]} {number} {server.now_ms()}")
        client.zadd("times", {op: server.now_ms()})
    size = client.memory_usage("ops", samples=0) + client.memory_usage("times", samples=0)
    client.delete("ops", "times")
    return float(size / OPS)


def _commit_of(server: BenchServer) -> tuple[list[str], list[Any]]:
    """Return the keys and values of one real commit."""
    commits: list[tuple[list[str], list[Any]]] = []

    def record_call(client: Any, name: str, keys: Any, plan: Any) -> Any:
        commits.append(layout_of(name).arranged(keys, plan))
        return call(client, name, keys, plan)

    dispatch = server.dispatch()
    record = create_records(dispatch, 1)[0]
    with patch("interlock.kernel.store.redis.call", record_call):
        dispatch.lifecycle.fire(record, Trigger.STEPPED, {}, Call(CAUSE))
    return commits[-1]


def _timed(action: Callable[[], Any]) -> tuple[float, float]:
    """Return the seconds of the clock, and of this thread's processor time."""
    started_s, started_cpu_s = time.perf_counter(), time.thread_time()
    action()
    return time.perf_counter() - started_s, time.thread_time() - started_cpu_s


def _each(items: Sequence[Any], action: Callable[[Any], Any]) -> float:
    started = time.perf_counter()
    for item in items:
        action(item)
    return (time.perf_counter() - started) / len(items)
