"""Measures the orphan sweep over many records, few of them due. Only these should cost time."""

from __future__ import annotations

import json
import logging
import time
from collections import defaultdict
from typing import Any

from bench.machine import CHAIN, STEP, State
from bench.server import BenchServer, create_records, first_key
from interlock.kernel.record import partition_of
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.sweeper import sweep_all
from interlock.workers.engine.sweeps import orphans

FEW, MANY = 10_000, 1_000_000
DUE = 1_000
RECORDS_PER_CALL = 2_000
LATER_MS = 3_600_000
# Writes the same keys and fields as a creation, for many records of a partition in one call. The
# values come from a record that was created in the usual way.
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


def measure(server: BenchServer) -> dict[str, Any]:
    """Sweep a small and a large store with the same number of due effects, and with none."""
    logging.getLogger("interlock.workers").setLevel(logging.ERROR)
    few, many = _swept(server, FEW), _swept(server, MANY)
    return {
        "sweep_us_per_due": many["us"],
        "sweep_us_per_due_of_10000": few["us"],
        "sweep_idle_ms": many["idle_ms"],
        "sweep_idle_ms_of_10000": few["idle_ms"],
        "sweep_records": MANY,
        "sweep_due": DUE,
    }


def _swept(server: BenchServer, records: int) -> dict[str, float]:
    server.client.flushall()
    dispatch = server.dispatch(sweep_budget_s=60.0)
    _load(server, dispatch, records)
    started = time.perf_counter()
    counts = sweep_all(dispatch, orphans.SWEEP)
    due_s = time.perf_counter() - started
    if counts["published"] != DUE:
        raise RuntimeError(f"the sweep published other than {DUE} due effects: {dict(counts)}")
    started = time.perf_counter()
    sweep_all(dispatch, orphans.SWEEP)
    idle_s = time.perf_counter() - started
    return {"us": round((due_s - idle_s) / DUE * 1e6), "idle_ms": round(idle_s * 1e3, 1)}


def _load(server: BenchServer, dispatch: Dispatch, records: int) -> None:
    client, keys = server.client, dispatch.keys
    sample = create_records(dispatch, 1)[0]
    stored: dict[Any, Any] = client.hgetall(keys.record(sample.id))
    fields = [part.decode() for pair in stored.items() for part in pair]
    lines: Any = client.xrange(keys.log(sample.id))
    event = lines[0][1][b"event"]
    suffix = first_key(sample).partition(":")[2]
    client.flushall()
    load = client.register_script(LOAD)
    now, every = server.now_ms(), records // DUE
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
        key = (partition, now - 1 if number % every == 0 else now + LATER_MS)
        rows[key].append(str(number))
        if len(rows[key]) >= RECORDS_PER_CALL:
            send(*key)
    for key in tuple(rows):
        send(*key)
    assert STEP.name.encode() in stored[f"e:{suffix}".encode()], "the effect of the sample is due"
