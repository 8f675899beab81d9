"""Measures the HTTP API: creations a second beside the client, and reads of 1,000,000 records."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

from bench.server import BenchServer
from interlock.kernel.errors import StoreDownError
from interlock.kernel.record import partition_of
from interlock.kernel.store.titles import names_of
from interlock.workers.client import Client
from interlock.workers.gateways.server import free_port
from interlock.workers.remote.client import HttpClient

RECORDS = 1_000_000
WAIT_EVERY = 100  # of so many records one waits for a person
RECORDS_PER_CALL = 2_000
SUBMISSIONS, READS = 1_000, 500
THREADS = 8
READY_S = 300.0
# Writes what a creation writes, for many records of a partition in one call. The values come from a
# record that was created in the usual way; only ids and titles differ.
LOAD = """
local fields, event, now = cjson.decode(ARGV[1]), ARGV[2], ARGV[3]
for number in string.gmatch(ARGV[4], '%d+') do
  local id = 'th-' .. number
  redis.call('HSET', KEYS[5] .. 'r:' .. id, unpack(fields))
  redis.call('HSET', KEYS[5] .. 'r:' .. id, 'title', 'Order ' .. number)
  redis.call('XADD', KEYS[5] .. 'log:' .. id, '1-0', 'event', event, 'at', now)
  redis.call('ZADD', KEYS[1], now + number, id)
  redis.call('ZADD', KEYS[2], now + number, id)
  redis.call('ZADD', KEYS[3], 0, '=' .. id, 0, 'order ' .. id, 0, number .. ' ' .. id)
  if tonumber(number) % tonumber(ARGV[5]) == 0 then
    redis.call('ZADD', KEYS[4], now + number, id)
  end
end
"""


def measure(server: BenchServer) -> dict[str, Any]:
    """Create records by both clients in turns, then read among many records over HTTP."""
    server.client.flushall()
    with serving(server) as (url, _):
        found = _creations(Client(server.settings()), HttpClient(url))
        load(server)
        return {"http": found | {"records": RECORDS, "reads_ms": _reads(HttpClient(url))}}


@contextmanager
def serving(server: BenchServer) -> Iterator[tuple[str, int]]:
    """Serve the API and the console until the block ends; give their address and the process."""
    port = free_port()
    settings = {"STORE_URL": server.url, "AUTH": "none", "API_RATE": "100000"}
    environment = os.environ | {f"INTERLOCK_{name}": value for name, value in settings.items()}
    command = [sys.executable, "-m", "interlock", "serve", "--port", str(port)]
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(command, env=environment, stdout=nowhere, stderr=nowhere) as serving:
        try:
            url = f"http://127.0.0.1:{port}"
            until = time.monotonic() + READY_S
            while time.monotonic() < until:
                with suppress(StoreDownError):
                    HttpClient(url).now_ms()
                    break
            yield url, serving.pid
        finally:
            serving.terminate()


def _creations(direct: Client, http: HttpClient) -> dict[str, Any]:
    payload = {"inciting": {"source": "bench", "title": "note the meeting", "text": "x" * 500}}
    numbers = count()

    def create(client: Client | HttpClient) -> None:
        client.submit(payload, machine="thread", id=f"c-{next(numbers)}")

    def rate(client: Client | HttpClient, threads: int) -> float:
        started = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(create, client) for _ in range(SUBMISSIONS)]:
                done.result()
        return SUBMISSIONS / (time.perf_counter() - started)

    rounds: dict[str, list[float]] = defaultdict(list)
    for _ in range(3):
        rounds["client_per_s"].append(rate(direct, 1))
        rounds["per_s"].append(rate(http, 1))
        rounds["per_s_of_many"].append(rate(http, THREADS))
    return {name: round(statistics.median(rates)) for name, rates in rounds.items()}


def load(server: BenchServer) -> None:
    """Leave a million threads in the store, unless another part has left them there."""
    client, dispatch = server.client, server.dispatch()
    keys = dispatch.keys
    if client.exists(keys.record(f"th-{RECORDS - 1}")):
        return
    client.flushall()
    one = Client(server.settings())
    one.submit({"inciting": {"title": "Order 1"}, "hold": True}, machine="thread", id="th-0")
    record = one.show("th-0")
    assert set(names_of(record)) == {"=th-0", "order th-0", "1 th-0"}, "as the script writes them"
    stored: dict[Any, Any] = client.hgetall(keys.record("th-0"))
    fields = json.dumps([part.decode() for pair in stored.items() for part in pair])
    lines: Any = client.xrange(keys.log("th-0"))
    event, now = lines[0][1][b"event"], server.now_ms()
    client.flushall()
    load = client.register_script(LOAD)
    rows: dict[int, list[str]] = defaultdict(list)

    def send(partition: int) -> None:
        names = [
            keys.state_index_of(partition, "thread", record.state),
            *keys.list_indexes(partition, "thread"),
            keys.waits(partition),
            keys.tag(partition),
        ]
        load(keys=names, args=[fields, event, now, ",".join(rows.pop(partition)), WAIT_EVERY])

    for number in range(RECORDS):
        partition = partition_of(f"th-{number}")
        rows[partition].append(str(number))
        if len(rows[partition]) >= RECORDS_PER_CALL:
            send(partition)
    for partition in tuple(rows):
        send(partition)


def _reads(http: HttpClient) -> dict[str, dict[str, float]]:
    numbers = count(1, 7_919)
    reads: dict[str, Callable[[], Any]] = {
        "show": lambda: http.show(f"th-{next(numbers) % RECORDS}"),
        "list, the newest 100": lambda: http.page(limit=100),
        "list, 100 of one state": lambda: http.page(machine="thread", state="proposed", limit=100),
        "search by a word": lambda: http.page(text=str(next(numbers) % RECORDS)),
        "cards, 100": lambda: http.cards(limit=100),
        "counts": http.counts,
    }
    return {name: _percentiles(read) for name, read in reads.items()}


def _percentiles(read: Callable[[], Any]) -> dict[str, float]:
    read()
    took = []
    for _ in range(READS):
        started = time.perf_counter()
        read()
        took.append((time.perf_counter() - started) * 1e3)
    hundredths = statistics.quantiles(took, n=100)
    return {"p50": round(hundredths[49], 1), "p99": round(hundredths[98], 1)}
