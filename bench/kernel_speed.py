"""The kernel without Celery: transitions, submissions, and what records weigh."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any
from unittest.mock import patch
from uuid import uuid4

from redis import Redis

from bench.machine import CHAIN, STEP, Trigger
from bench.place import CAUSE, Place, born, first_key
from interlock.kernel.store.commands import Call
from interlock.kernel.store.connections import Line
from interlock.kernel.store.leases import Lease
from interlock.kernel.store.scripts import call
from interlock.workers.client import Client

TRANSITIONS = 1_500
SUBMISSIONS = 600
WEIGHED = 4_000
SAMPLES = 200
LONG = 5_000
OPS = 5
BARE = "return {'committed', '2', '0', '', ''}"


def transitions(place: Place) -> dict[str, Any]:
    """Fire on one connection, each time beside a script of a commit's keys that returns at once."""
    place.client.flushall()
    dispatch = place.door()
    keys, args = _commit_of(place)
    sha = place.client.script_load(BARE)
    assert isinstance(dispatch.client, Redis), "the server is one"
    line = Line(dispatch.client.connection_pool)
    fired_s, bare_s = [], []
    # One of each in turn and medians, so that a busy moment falls on both or counts for neither.
    for record in born(dispatch, TRANSITIONS):
        fire = partial(dispatch.lifecycle.fire, record, Trigger.STEPPED, {}, Call(CAUSE))
        fired_s.append(_timed(fire))
        bare_s.append(_timed(partial(line.exchange, "EVALSHA", sha, len(keys), *keys, *args)))
    fired, bare = median(fired_s), median(bare_s)
    return {
        "transitions_per_s": round(1 / fired),
        "bare_evalsha_per_s": round(1 / bare),
        "transition_share_of_bare": round(bare / fired, 2),
    }


def submissions(place: Place) -> dict[str, Any]:
    """Hand in, one after the other: records alone, and whole threads through the client."""
    place.client.flushall()
    dispatch = place.door()
    born(dispatch, 20)
    create_s = _each(range(SUBMISSIONS), lambda _: born(dispatch, 1))
    client = Client(place.settings())
    inciting = {"source": "bench", "title": "note the meeting", "text": "x" * 500, "fields": {}}
    payload = {"inciting": inciting}
    client.submit(payload, machine="thread")
    submit_s = _each(range(SUBMISSIONS), lambda _: client.submit(payload, machine="thread"))
    return {"creates_per_s": round(1 / create_s), "submits_per_s": round(1 / submit_s)}


def memory(place: Place) -> dict[str, Any]:
    """Weigh live records, and the lines and op-ids that their transitions add."""
    place.client.flushall()
    # Without messages: those are the broker's, and gone when they are taken.
    dispatch = place.door(enqueue="plain")
    keys, lifecycle = dispatch.keys, dispatch.lifecycle
    assert lifecycle.create(CHAIN.name, "warm", {}, CAUSE).record, "the scripts are loaded"
    before = place.memory()
    made = (
        lifecycle.create(CHAIN.name, f"ch-{uuid4().hex[:10]}", {}, CAUSE) for _ in range(WEIGHED)
    )
    records = [fired.record for fired in made if fired.record is not None]
    live = (place.memory() - before) / WEIGHED
    claim = partial(
        dispatch.leases.claim, nonce="bench000", holder=dispatch.holder, schema=CHAIN.schema
    )
    for record in records[:SAMPLES]:
        assert isinstance(claim(first_key(record), STEP), Lease), "the effect was free"
        lifecycle.fire(record, Trigger.STEPPED, {}, Call(CAUSE))
    # A log's first block is whole from its birth on, so what a line adds shows in a long log only.
    note = _line_bytes(place, [keys.log(one.id) for one in records[:SAMPLES]], b"note")
    event = _line_bytes(place, [keys.log(one.id) for one in records[:SAMPLES]], b"event")
    sizes = (place.client.memory_usage(keys.log(one.id), samples=0) for one in records[-SAMPLES:])
    return {
        "bytes_per_record": round(live),
        "bytes_per_record_of_log": round(sum(size or 0 for size in sizes) / SAMPLES),
        "bytes_per_event": round(event + _op_bytes(place)),
        "bytes_per_claim": round(note),
    }


def _line_bytes(place: Place, logs: Sequence[str], kind: bytes) -> float:
    """Return what a line of a kind takes in a log that is long enough to be full."""
    client: Any = place.client
    lines = [pairs for log in logs for _, pairs in client.xrange(log) if kind in pairs]
    for number in range(LONG):
        client.xadd("long", lines[number % len(lines)], id=f"{number + 1}-0")
    size = client.memory_usage("long", samples=0)
    client.delete("long")
    return float(size / LONG)


def _op_bytes(place: Place) -> float:
    """Return what an op-id takes in the hash and in the set that trims it, as one of five."""
    client: Any = place.client
    for number in range(OPS):
        op = uuid4().hex
        client.hset("ops", op, f"{op[:16]} {number} {place.now_ms()}")
        client.zadd("times", {op: place.now_ms()})
    size = client.memory_usage("ops", samples=0) + client.memory_usage("times", samples=0)
    client.delete("ops", "times")
    return float(size / OPS)


def _commit_of(place: Place) -> tuple[list[str], list[Any]]:
    """Return the keys and values of one real commit."""
    seen: list[tuple[list[str], list[Any]]] = []

    def note(client: Any, name: str, keys: list[str], args: list[Any]) -> Any:
        seen.append((keys, args))
        return call(client, name, keys, args)

    dispatch = place.door()
    record = born(dispatch, 1)[0]
    with patch("interlock.kernel.store.redis.call", note):
        dispatch.lifecycle.fire(record, Trigger.STEPPED, {}, Call(CAUSE))
    return seen[-1]


def _timed(act: Callable[[], Any]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def _each(items: Sequence[Any], act: Callable[[Any], Any]) -> float:
    started = time.perf_counter()
    for item in items:
        act(item)
    return (time.perf_counter() - started) / len(items)
