"""Compares a workflow of five steps that do nothing with the same machine, written by hand."""

from __future__ import annotations

from statistics import median
from typing import Any
from uuid import uuid4

from bench.flow import flow
from bench.lifecycles import CHAINS, ROUNDS, THREADS, Side, drain, our_side
from bench.server import CAUSE, BenchServer
from interlock.kernel.record import PARTITIONS


def flow_side(server: BenchServer) -> Side:
    """Return the side of the workflow: the same worker as that of the machine."""
    by_hand = our_side(server)
    dispatch = server.dispatch()

    def load(records: int) -> None:
        for _ in range(records):
            dispatch.lifecycle.create(flow.name, f"fl-{uuid4().hex[:10]}", {}, CAUSE)

    def done(records: int) -> bool:
        pipe = server.client.pipeline(transaction=False)
        for partition in range(PARTITIONS):
            pipe.zcard(dispatch.keys.state_index_of(partition, flow.name, "done"))
        return bool(sum(pipe.execute()) == records)

    return Side(by_hand.app, by_hand.environment, load, done)


def measure(server: BenchServer, *, rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure both alternately, with one worker process."""
    sides = {"machine": our_side(server), "workflow": flow_side(server)}
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            rates[name].append(drain(side, server.client, CHAINS, processes=1, **THREADS))
    pairs = zip(rates["workflow"], rates["machine"], strict=True)
    return {
        "workflows_per_s": {name: round(median(found), 1) for name, found in rates.items()},
        "workflow_to_machine": round(median(a / b for a, b in pairs), 3),
    }
