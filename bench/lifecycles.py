"""Compares lifecycles of five empty effects with plain Celery's chains of five empty tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from statistics import median
from tempfile import mkdtemp
from typing import Any

from redis import Redis

from bench import plain
from bench.bodies import BodyTotals
from bench.machine import CHAIN, EFFECTS, State
from bench.server import BenchServer, create_records, environment_of
from bench.workers import WorkerProcesses
from interlock.kernel.record import PARTITIONS

ROUNDS = 5
PROCESSES = (1, 2)
CHAINS = 600
WARM = 20
POLL_S = 0.1
DRAIN_S_MAX = 120.0
# `python -m bench pools` compares the pools. An effect waits twice for the store, and threads
# use that time. Plain Celery is fastest with solo; tuned Celery gets the same threads.
THREADS_OURS = 20
THREADS: Mapping[str, Any] = {"pool": "threads", "concurrency": THREADS_OURS}
POOL_PLAIN = "solo"


@dataclass(frozen=True, slots=True)
class Side:
    """One side of the comparison: its worker, how to load it, and how to see that it is done."""

    app: str
    environment: dict[str, str]
    load: Callable[[int], object]
    done: Callable[[int], bool]


@dataclass(slots=True)
class Rates:
    """Chains a second of each side, round by round."""

    ours: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    tuned: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """The median of the rounds' ratios. In a round the sides run one after the other."""
        return median(a / b for a, b in zip(self.ours, self.plain, strict=True))

    @property
    def ratio_to_tuned(self) -> float:
        """The same ratio to Celery with the tuning of `engine/affinity.py`."""
        return median(a / b for a, b in zip(self.ours, self.tuned, strict=True))


def our_side(server: BenchServer) -> Side:
    """Return Interlock's side: the default settings, without events for Flower."""
    settings = server.settings(concurrency=THREADS_OURS)
    dispatch = server.dispatch()

    def done(chains: int) -> bool:
        pipe = server.client.pipeline(transaction=False)
        for partition in range(PARTITIONS):
            pipe.zcard(dispatch.keys.state_index_of(partition, CHAIN.name, State.DONE))
        return bool(sum(pipe.execute()) == chains)

    load = lambda chains: create_records(dispatch, chains)  # noqa: E731 - one line, as on the other side
    return Side("bench.ours", environment_of(settings), load, done)


def plain_side(server: BenchServer, *, tuned: bool = False, results: bool = False) -> Side:
    """Return plain Celery's side; with `tuned`, tuned by `engine/affinity.py`."""
    app = plain.make(server.url, results=results)
    is_idle = plain.idle_check(server.client)
    load = lambda chains: plain.submit(app, chains)  # noqa: E731 - one line, as on our side
    options = {plain.TUNED: tuned, plain.RESULTS: results}
    environment = {plain.BROKER: server.url} | {name: "1" for name, on in options.items() if on}
    return Side("bench.plain", environment, load, lambda _: is_idle())


@dataclass(frozen=True, slots=True)
class Drained:
    """A full queue that was worked off: chains a second, and what the workers have counted."""

    per_s: float
    totals: BodyTotals


def drain(side: Side, client: Redis, chains: int, **workers: Any) -> float:
    """Return chains a second, from when warm workers get a full queue to the last body."""
    return run_down(side, client, chains, **workers).per_s


def run_down(
    side: Side, client: Redis, chains: int, *, processes: int, pool: str, concurrency: int = 1
) -> Drained:
    """Give warm workers a full queue, and wait until it is empty."""
    client.flushall()
    side.load(chains)
    held = list(client.scan_iter(_type="list", count=10_000))
    for name in held:
        client.rename(name, name + b":held")
    workers = WorkerProcesses(
        side.app,
        Path(mkdtemp(prefix="interlock-bench-")),
        side.environment,
        processes=processes,
        pool=pool,
        concurrency=concurrency,
    )
    with workers:
        side.load(WARM)
        _until_done(side, WARM)
        started_s = time.time()
        for name in held:
            client.rename(name + b":held", name)
        _until_done(side, chains + WARM)
    totals = workers.totals()
    if totals.bodies != EFFECTS * (chains + WARM):
        wanted = EFFECTS * (chains + WARM)
        raise RuntimeError(
            f"{side.app}: {totals.bodies} bodies, not {wanted}; see {workers.folder}"
        )
    rmtree(workers.folder)
    return Drained(chains / (totals.last_s - started_s), totals)


def measure(server: BenchServer, *, rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure the sides alternately, with one worker process and with two."""
    ours, other, tuned = our_side(server), plain_side(server), plain_side(server, tuned=True)
    rates = {str(processes): Rates() for processes in PROCESSES}
    for _ in range(rounds):
        for processes in PROCESSES:
            found, client, chains = rates[str(processes)], server.client, CHAINS * processes
            found.plain.append(drain(other, client, chains, processes=processes, pool=POOL_PLAIN))
            found.ours.append(drain(ours, client, chains, processes=processes, **THREADS))
            found.tuned.append(drain(tuned, client, chains, processes=processes, **THREADS))
    return {
        "lifecycles_per_s": {n: round(median(rate.ours), 1) for n, rate in rates.items()},
        "celery_chains_per_s": {n: round(median(rate.plain), 1) for n, rate in rates.items()},
        "ratio": {n: round(rate.ratio, 2) for n, rate in rates.items()},
        "celery_tuned_chains_per_s": {n: round(median(rate.tuned), 1) for n, rate in rates.items()},
        "ratio_to_tuned": {n: round(rate.ratio_to_tuned, 2) for n, rate in rates.items()},
        "rounds": {
            n: [
                {"ours": round(a, 1), "celery": round(b, 1), "celery_tuned": round(c, 1)}
                for a, b, c in zip(rate.ours, rate.plain, rate.tuned, strict=True)
            ]
            for n, rate in rates.items()
        },
    }


def pools(server: BenchServer) -> dict[str, Any]:
    """Measure every pool on both sides, to choose the best of each."""
    sides = {
        "ours": our_side(server),
        "celery": plain_side(server),
    }
    kinds = (("solo", 1), ("threads", 4), ("threads", THREADS_OURS), ("prefork", 1))
    found: dict[str, Any] = {}
    for processes in PROCESSES:
        for pool, concurrency in kinds:
            for name, side in sides.items():
                rate = drain(
                    side,
                    server.client,
                    CHAINS * processes // 2,
                    processes=processes,
                    pool=pool,
                    concurrency=concurrency,
                )
                found[f"{name} {pool} -c {concurrency}, {processes} up"] = round(rate, 1)
    return {"pools": found}


def _until_done(side: Side, chains: int) -> None:
    until = time.monotonic() + DRAIN_S_MAX
    while not side.done(chains):
        if time.monotonic() > until:
            raise RuntimeError(f"{side.app}: {chains} chains are not done in {DRAIN_S_MAX:g} s")
        time.sleep(POLL_S)
