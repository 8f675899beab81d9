"""The kernel without Celery: transitions, submissions, and what records weigh."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from unittest.mock import patch
from uuid import uuid4

from redis import Redis

from bench.machine import CHAIN, STEP, Trigger
from bench.place import CAUSE, Place, born, first_key
from kernel.record import Record
from kernel.store.leases import Lease
from kernel.store.line import Line
from kernel.store.plan import Call
from kernel.store.scripts import call
from workers.client import Client

TRANSITIONS = 1_500
SUBMISSIONS = 600
WEIGHED = 4_000
TURNS = 3
BARE = "return {'committed', '2', '0', '', ''}"


def transitions(place: Place) -> dict[str, Any]:
    """Fire on one connection, beside a script of the same keys and values that returns at once."""
    place.client.flushall()
    dispatch = place.door()
    keys, args = _commit_of(place)
    sha = place.client.script_load(BARE)
    assert isinstance(dispatch.client, Redis), "the server is one"
    line = Line(dispatch.client.connection_pool)
    fired_s, bare_s, server_s = [], [], []
    for _ in range(TURNS):
        records = born(dispatch, TRANSITIONS // TURNS)
        before_s = place.cpu_s()
        fired_s.append(
            _each(
                records, lambda one: dispatch.lifecycle.fire(one, Trigger.STEPPED, {}, Call(CAUSE))
            )
        )
        server_s.append((place.cpu_s() - before_s) / len(records))
        bare_s.append(
            _each(records, lambda _: line.exchange("EVALSHA", sha, len(keys), *keys, *args))
        )
    return {
        "transitions_per_s": round(1 / min(fired_s)),
        "bare_evalsha_per_s": round(1 / min(bare_s)),
        "transition_share_of_bare": round(min(bare_s) / min(fired_s), 2),
        "transition_server_us": round(min(server_s) * 1e6),
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
    client.submit(payload)
    submit_s = _each(range(SUBMISSIONS), lambda _: client.submit(payload))
    return {"creates_per_s": round(1 / create_s), "submits_per_s": round(1 / submit_s)}


def memory(place: Place) -> dict[str, Any]:
    """Weigh live records, and what each transition and each claim adds to one."""
    place.client.flushall()
    # Without messages: those are the broker's, and gone when they are taken.
    dispatch = place.door(enqueue="plain")

    def weigh(act: Callable[[], Any]) -> tuple[int, Any]:
        before = place.memory()
        done = act()
        return place.memory() - before, done

    def bear() -> list[Record]:
        lifecycle = dispatch.lifecycle
        made = (
            lifecycle.create(CHAIN.name, f"ch-{uuid4().hex[:10]}", {}, CAUSE)
            for _ in range(WEIGHED)
        )
        return [fired.record for fired in made if fired.record is not None]

    def claim() -> list[Any]:
        take = partial(
            dispatch.leases.claim, nonce="bench000", holder=dispatch.holder, schema=CHAIN.schema
        )
        return [take(first_key(one), STEP) for one in records]

    def fire(found: Sequence[Record]) -> list[Record | None]:
        lifecycle = dispatch.lifecycle
        return [lifecycle.fire(one, Trigger.STEPPED, {}, Call(CAUSE)).record for one in found]

    bear_warm = dispatch.lifecycle.create(CHAIN.name, "warm", {}, CAUSE).record
    assert bear_warm is not None, "it is new"
    records_bytes, records = weigh(bear)
    claims_bytes, leases = weigh(claim)
    assert all(isinstance(one, Lease) for one in leases), "every effect was free"
    events = 0
    events_bytes = 0
    moved = records
    for _ in range(3):
        grown, moved = weigh(partial(fire, moved))
        events, events_bytes = events + WEIGHED, events_bytes + grown
    return {
        "bytes_per_record": round(records_bytes / WEIGHED),
        "bytes_per_event": round(events_bytes / events),
        "bytes_per_claim": round(claims_bytes / WEIGHED),
        "bytes_of_log_per_event": _log_bytes(place, moved),
    }


def _log_bytes(place: Place, records: Sequence[Record]) -> int:
    keys = place.door().keys
    sizes = [place.client.memory_usage(keys.log(one.id), samples=0) or 0 for one in records[:200]]
    lines = [place.client.xlen(keys.log(one.id)) for one in records[:200]]
    return round(sum(sizes) / sum(lines))


def _commit_of(place: Place) -> tuple[list[str], list[Any]]:
    """Return the keys and values of one real commit."""
    seen: list[tuple[list[str], list[Any]]] = []

    def note(client: Any, name: str, keys: list[str], args: list[Any]) -> Any:
        seen.append((keys, args))
        return call(client, name, keys, args)

    dispatch = place.door()
    record = born(dispatch, 1)[0]
    with patch("kernel.store.redis.call", note):
        dispatch.lifecycle.fire(record, Trigger.STEPPED, {}, Call(CAUSE))
    return seen[-1]


def _each(items: Sequence[Any], act: Callable[[Any], Any]) -> float:
    started = time.perf_counter()
    for item in items:
        act(item)
    return (time.perf_counter() - started) / len(items)
