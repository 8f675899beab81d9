"""The orphan sweep over many records of which few are due: its cost must follow the due."""

from __future__ import annotations

import json
import logging
import time
from collections import defaultdict
from typing import Any

from bench.machine import CHAIN, STEP, State
from bench.place import Place, born, first_key
from interlock.kernel.record import partition_of
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.sweeper import sweep_all
from interlock.workers.engine.sweeps import orphans

FEW, MANY = 10_000, 1_000_000
DUE = 1_000
LOADED_AT_ONCE = 2_000
LATER_MS = 3_600_000
# Writes what a creation writes, for many records of a partition at a time: the same keys, the same
# fields, taken from a record that was created the ordinary way.
LOAD = """
local fields, event, now, suffix, due = cjson.decode(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5]
for number in string.gmatch(ARGV[6], '%d+') do
  local id = 'ch-' .. number
  redis.call('HSET', KEYS[4] .. 'r:' .. id, unpack(fields))
  redis.call('XADD', KEYS[4] .. 'log:' .. id, '1-0', 'event', event, 'at', now)
  redis.call('ZADD', KEYS[1], due, id .. ':' .. suffix)
  redis.call('ZADD', KEYS[2], now + 3600000, id .. ':stall')
  redis.call('ZADD', KEYS[3], now, id)
end
"""


def measure(place: Place) -> dict[str, Any]:
    """Sweep a small store and a large one with as much due in each, and each with nothing due."""
    logging.getLogger("workers").setLevel(logging.ERROR)
    few, many = _swept(place, FEW), _swept(place, MANY)
    return {
        "sweep_us_per_due": many["us"],
        "sweep_us_per_due_of_10000": few["us"],
        "sweep_idle_ms": many["idle_ms"],
        "sweep_idle_ms_of_10000": few["idle_ms"],
        "sweep_records": MANY,
        "sweep_due": DUE,
    }


def _swept(place: Place, records: int) -> dict[str, float]:
    place.client.flushall()
    dispatch = place.door(sweep_budget_s=60.0)
    _load(place, dispatch, records)
    started = time.perf_counter()
    seen = sweep_all(dispatch, orphans.SWEEP)
    due_s = time.perf_counter() - started
    if seen["published"] != DUE:
        raise RuntimeError(f"{dict(seen)} of {DUE} due")
    started = time.perf_counter()
    sweep_all(dispatch, orphans.SWEEP)
    idle_s = time.perf_counter() - started
    return {"us": round((due_s - idle_s) / DUE * 1e6), "idle_ms": round(idle_s * 1e3, 1)}


def _load(place: Place, dispatch: Dispatch, records: int) -> None:
    client, keys = place.client, dispatch.keys
    sample = born(dispatch, 1)[0]
    kept: dict[Any, Any] = client.hgetall(keys.record(sample.id))
    fields = [part.decode() for pair in kept.items() for part in pair]
    lines: Any = client.xrange(keys.log(sample.id))
    event = lines[0][1][b"event"]
    suffix = first_key(sample).partition(":")[2]
    client.flushall()
    load = client.register_script(LOAD)
    now, every = place.now_ms(), records // DUE
    rows: dict[tuple[int, int], list[str]] = defaultdict(list)

    def send(partition: int, due: int) -> None:
        names = [
            keys.effects(partition),
            keys.timers(partition),
            keys.state_index_of(partition, CHAIN.name, State.FIRST),
            keys.tag(partition),
        ]
        numbers = ",".join(rows.pop((partition, due)))
        load(keys=names, args=[json.dumps(fields), event, now, suffix, due, numbers])

    for number in range(records):
        partition = partition_of(f"ch-{number}")
        place_of = (partition, now - 1 if number % every == 0 else now + LATER_MS)
        rows[place_of].append(str(number))
        if len(rows[place_of]) >= LOADED_AT_ONCE:
            send(*place_of)
    for place_of in tuple(rows):
        send(*place_of)
    assert STEP.name.encode() in kept[f"e:{suffix}".encode()], "the sample owes its effect"
