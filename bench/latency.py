"""Measures how long after its commit an effect starts, at half of one process's maximum load."""

from __future__ import annotations

import time
from pathlib import Path
from shutil import rmtree
from statistics import quantiles
from tempfile import mkdtemp
from typing import Any

from bench.lifecycles import THREADS, drain, our_side
from bench.machine import EFFECTS, State
from bench.server import BenchServer, create_records
from bench.workers import WorkerProcesses
from interlock.kernel.event import Event, Note
from interlock.kernel.record import Record

LOAD_S = 6.0
PROBE = 300
WARM = 20


def measure(server: BenchServer, *, full_per_s: float | None = None) -> dict[str, Any]:
    """Submit at half load for some seconds, and read from the logs when each effect was claimed."""
    side, client = our_side(server), server.client
    full_per_s = full_per_s or drain(side, client, PROBE, processes=1, **THREADS)
    client.flushall()
    workers = WorkerProcesses(
        side.app,
        Path(mkdtemp(prefix="interlock-bench-")),
        side.environment,
        processes=1,
        **THREADS,
    )
    with workers:
        side.load(WARM)
        _wait(side.done, WARM)
        records = _paced(server, full_per_s / 2)
        _wait(side.done, WARM + 1 + len(records))
    rmtree(workers.folder)
    waits = sorted(wait for record in records for wait in _waits(server, record))
    assert len(waits) == EFFECTS * len(records), "every effect was claimed once"
    cuts = quantiles(waits, n=100)
    return {
        "start_latency_ms": {"p50": round(cuts[49], 1), "p99": round(cuts[98], 1)},
        "start_latency_load_per_s": round(full_per_s / 2, 1),
    }


def _paced(server: BenchServer, per_s: float) -> list[Record]:
    dispatch = server.dispatch()
    create_records(dispatch, 1)
    records: list[Record] = []
    started = time.monotonic()
    while (passed_s := time.monotonic() - started) < LOAD_S:
        if len(records) < passed_s * per_s:
            records += create_records(dispatch, 1)
        else:
            time.sleep(0.001)
    return records


def _waits(server: BenchServer, record: Record) -> list[int]:
    """Return for each effect the ms from the event that made it due to the note of its claim."""
    history = server.dispatch().views.history(record.id)
    due_ms = {
        int(e.version): e.at_ms for e in history if isinstance(e, Event) and e.target != State.DONE
    }
    claims = [note for note in history if isinstance(note, Note) and note.kind == "claim"]
    # Both times are from the store's clock.
    return [note.at_ms - due_ms[int(note.position.split("-")[0])] for note in claims]


def _wait(done: Any, count: int) -> None:
    while not done(count):
        time.sleep(0.1)
