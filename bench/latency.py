"""How long after its commit an effect starts, at half of what one process can do."""

from __future__ import annotations

import time
from pathlib import Path
from shutil import rmtree
from statistics import quantiles
from tempfile import mkdtemp
from typing import Any

from bench.fleet import Fleet
from bench.lifecycles import THREADS, drain, our_side
from bench.machine import EFFECTS, State
from bench.place import Place, born
from interlock.kernel.event import Event, Note
from interlock.kernel.record import Record

LOAD_S = 6.0
PROBE = 300
WARM = 20


def measure(place: Place, *, full_per_s: float | None = None) -> dict[str, Any]:
    """Submit at half load for some seconds and read from the logs when each effect was claimed."""
    side, client = our_side(place), place.client
    full_per_s = full_per_s or drain(side, client, PROBE, processes=1, **THREADS)
    client.flushall()
    fleet = Fleet(
        side.app,
        Path(mkdtemp(prefix="interlock-bench-")),
        side.environment,
        processes=1,
        **THREADS,
    )
    with fleet:
        side.load(WARM)
        _wait(side.done, WARM)
        records = _paced(place, full_per_s / 2)
        _wait(side.done, WARM + 1 + len(records))
    rmtree(fleet.folder)
    waits = sorted(wait for record in records for wait in _waits(place, record))
    assert len(waits) == EFFECTS * len(records), "every effect was claimed once"
    cuts = quantiles(waits, n=100)
    return {
        "start_latency_ms": {"p50": round(cuts[49], 1), "p99": round(cuts[98], 1)},
        "start_latency_load_per_s": round(full_per_s / 2, 1),
    }


def _paced(place: Place, per_s: float) -> list[Record]:
    dispatch = place.door()
    born(dispatch, 1)
    records: list[Record] = []
    started = time.monotonic()
    while (gone := time.monotonic() - started) < LOAD_S:
        if len(records) < gone * per_s:
            records += born(dispatch, 1)
        else:
            time.sleep(0.001)
    return records


def _waits(place: Place, record: Record) -> list[int]:
    """Return, for each effect, the ms from the event that owed it to the note of its claim."""
    history = place.door().views.history(record.id)
    owed = {
        int(e.version): e.at_ms for e in history if isinstance(e, Event) and e.target != State.DONE
    }
    claims = [note for note in history if isinstance(note, Note) and note.kind == "claim"]
    # Both times are the store's.
    return [note.at_ms - owed[int(note.position.split("-")[0])] for note in claims]


def _wait(done: Any, count: int) -> None:
    while not done(count):
        time.sleep(0.1)
