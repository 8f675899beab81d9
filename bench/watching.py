"""Measures what metrics and traces cost: lifecycles with and without them, in one run."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import median
from threading import Thread
from typing import Any

from bench.app import UNCOUNTED
from bench.lifecycles import CHAINS, ROUNDS, THREADS, Side, drain, our_side
from bench.server import BenchServer, create_records
from interlock.kernel.event import Cause
from interlock.workers.engine.trace_context import Tracing, sent_traceparent
from interlock.workers.engine.tracing import carried, note_outcome, traced
from interlock.workers.ops.metrics import Exposition

CALLS = 100_000
READS = 50
SHIPPED, TRACED, BARE = "shipped", "traced", "uncounted"


def measure(server: BenchServer) -> dict[str, Any]:
    """Measure lifecycles in turns: as shipped, with traces that are sent, and without counting."""
    shipped = our_side(server)
    rates: dict[str, list[float]] = defaultdict(list)
    with _collector() as (url, sent):
        traces = {"INTERLOCK_TRACES": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": url}
        sides = {
            SHIPPED: shipped,
            TRACED: _with(shipped, **traces),
            BARE: _with(shipped, **{UNCOUNTED: "1"}),
        }
        for _ in range(ROUNDS):
            for name, side in sides.items():
                rates[name].append(drain(side, server.client, CHAINS, processes=1, **THREADS))
    if not sent:
        raise RuntimeError("no traces were sent")
    return {
        "watching": {
            "traced_ratio": _ratio(rates[TRACED], rates[SHIPPED]),
            "counted_ratio": _ratio(rates[SHIPPED], rates[BARE]),
            "shipped_per_s": round(median(rates[SHIPPED]), 1),
            "off_ns": _off_ns(server),
            "read_ms": _read_ms(server),
            "rounds": {name: [round(rate, 1) for rate in found] for name, found in rates.items()},
        }
    }


def _with(side: Side, **environment: str) -> Side:
    return replace(side, environment={**side.environment, **environment})


def _ratio(rates: list[float], others: list[float]) -> float:
    """Return the median of the rounds' ratios."""
    return round(median(a / b for a, b in zip(rates, others, strict=True)), 3)


@contextmanager
def _collector() -> Iterator[tuple[str, list[int]]]:
    """Take the spans that workers send, and count the bytes of each message."""
    sent: list[int] = []

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.append(len(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Taking) as collector:
        thread = Thread(target=collector.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{collector.server_port}", sent
        finally:
            collector.shutdown()
            thread.join()


def _off_ns(server: BenchServer) -> int:
    """Return the time that the calls for traces take in each effect while traces are off."""
    assert Tracing.tracer is None
    dispatch, cause = server.dispatch(), Cause("bench")
    (record,) = create_records(dispatch, 1)
    lease: Any = None  # nothing reads it while traces are off
    started = time.perf_counter_ns()
    for _ in range(CALLS):
        with traced(dispatch.views, record, lease):
            carried(dispatch.settings, cause)
            sent_traceparent(dispatch.settings)
            note_outcome("")
    return (time.perf_counter_ns() - started) // CALLS


def _read_ms(server: BenchServer) -> float:
    """Return how long one answer of /metrics takes."""
    exposition = Exposition(server.dispatch())
    took = []
    for _ in range(READS):
        started = time.perf_counter()
        exposition.read()
        took.append((time.perf_counter() - started) * 1e3)
    return round(median(took), 1)
