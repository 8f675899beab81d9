"""Measures the cost of a job in small and large graphs of jobs, in layers and as one chain.

They are compared with plain Celery: chains of as many empty tasks as a job has effects. One long
Celery chain cannot replace a graph: each message carries all later steps, so a step costs more the
more steps follow.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from statistics import median
from tempfile import mkdtemp
from typing import Any

from celery import Celery, chain

from bench import plain
from bench.lifecycles import POOL_PLAIN, THREADS, THREADS_OURS
from bench.server import BenchServer, environment_of
from bench.workers import WorkerProcesses
from interlock.kernel.event import Note
from interlock.kernel.record import partition_of
from interlock.systems.jobs.client import Graphs
from interlock.systems.jobs.file.file import GraphFile, Step
from interlock.workers.client import Client

FEW = 1_000
WIDTH, NEEDS = 100, 3
ALONE, ROUNDS = 600, 3
LINKS_FEW, LINKS_MANY = 100, 1_000
WARM = 20
SAMPLES = 50
POLL_S = 0.2
RUN_S_MAX = 3_600.0
GRAPH, WARMING, LOADING = "measured", "warming", "loading"
# No model is called; loading the embedded one would only take time.
NO_MODEL: Mapping[str, Any] = {
    "model": "openai:gpt-4o-mini",
    "model_base_url": "http://127.0.0.1:9/v1",
    "model_api_key": "no-secret",
}
PAYLOAD: Mapping[str, Any] = {
    "phases": [{"worker": {"capability": "nothing"}}],
    "auto_approve": True,
}
Needs = Callable[[int], list[int]]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one job in a run of many jobs."""

    per_s: float
    submits_per_s: float
    workers_ms: float
    store_ms: float
    live_bytes: float
    ended_bytes: float
    effects: float
    scripts: float

    @property
    def processor_ms(self) -> float:
        """The processor time of a job, of workers and store together."""
        return self.workers_ms + self.store_ms


def measure(server: BenchServer) -> dict[str, Any]:
    """Measure both shapes at both sizes, and compare independent jobs with plain Celery."""
    found: dict[str, Any] = {}
    for shape, (needs, number) in SHAPES.items():
        # Few before and after many, so that other load on the computer affects both sizes.
        before, many, after = (_graph(server, size, needs) for size in (FEW, number, FEW))
        few_ms = (before.processor_ms + after.processor_ms) / 2
        found[shape] = {
            "jobs": number,
            "per_s": round(many.per_s, 1),
            "per_s_of_1000": round((before.per_s + after.per_s) / 2, 1),
            "submits_per_s": round(many.submits_per_s),
            "workers_ms": round(many.workers_ms, 2),
            "store_ms": round(many.store_ms, 2),
            "processor_ms_of_1000": round(few_ms, 2),
            "growth": round(many.processor_ms / few_ms, 2),
            "scripts": round(many.scripts, 1),
            "scripts_of_1000": round(after.scripts, 1),
            "live_bytes": round(many.live_bytes),
            "ended_bytes": round(many.ended_bytes),
            "effects": round(many.effects, 1),
        }
    return {"jobs": found | _compared_with_celery(server) | _links(server)}


def layers(number: int) -> list[int]:
    """Return the jobs that a job depends on: some of the layer before."""
    first = number // WIDTH * WIDTH - WIDTH
    draw = random.Random(number)
    return [] if first < 0 else sorted(draw.sample(range(first, first + WIDTH), NEEDS))


def one_chain(number: int) -> list[int]:
    """Return the jobs that a job depends on: the one before."""
    return [number - 1] if number else []


def alone(number: int) -> list[int]:
    """Return the jobs that a job depends on: none."""
    del number
    return []


# With the number of jobs that is compared with FEW.
SHAPES: Mapping[str, tuple[Needs, int]] = {"layers": (layers, 10_000), "chain": (one_chain, 3_000)}


def _graph(server: BenchServer, number: int, needs: Needs, *, processes: int = 1) -> Cost:
    """Submit a graph, give the full queue to warm workers, and wait until all jobs succeeded."""
    server.client.flushall()
    folder = Path(mkdtemp(prefix="interlock-bench-"))
    settings = server.settings(
        concurrency=THREADS_OURS, capabilities="bench.nothing", home=folder / "home", **NO_MODEL
    )
    client = Client(settings)
    graphs = Graphs(client)
    graphs.submit(_file(LOADING, 1, alone))  # scripts and connections
    before = server.memory()
    began_at = time.perf_counter()
    graphs.submit(_file(GRAPH, number, needs))
    submitted_s = time.perf_counter() - began_at
    live = server.memory() - before
    # Messages belong to the broker, and are gone when they are received.
    live -= sum(server.client.memory_usage(name, samples=0) or 0 for name in _lists(server))
    workers = WorkerProcesses(
        "bench.product", folder / "marks", environment_of(settings), processes=processes, **THREADS
    )
    _hold(server)
    with workers:
        graphs.submit(_file(WARMING, WARM, alone))
        _until(lambda: _succeeded(server, client, WARMING) == WARM)
        started_ms, *at_first = server.now_ms(), _cpu_s(workers), server.cpu_s(), _scripts(server)
        _release(server)
        _until(lambda: _succeeded(server, client, GRAPH) == number)
        at_last = (_cpu_s(workers), server.cpu_s(), _scripts(server))
    ended = server.memory() - before
    graph = client.show(GRAPH)
    if graph.counters["tree.runs"] != number:
        raise RuntimeError(f"{graph.counters['tree.runs']} runs of {number} jobs")
    rmtree(folder)
    workers_s, store_s, scripts = (b - a for a, b in zip(at_first, at_last, strict=True))
    return Cost(
        per_s=number / (_last_ms(server, client) - started_ms) * 1_000,
        submits_per_s=number / submitted_s,
        workers_ms=workers_s / number * 1_000,
        store_ms=store_s / number * 1_000,
        live_bytes=live / number,
        ended_bytes=ended / number,
        effects=_effects(client, number),
        scripts=scripts / number,
    )


def _file(graph: str, number: int, needs: Needs) -> GraphFile:
    steps = (
        Step(
            name=f"j{n}",
            priority=5,
            line=0,
            payload={**PAYLOAD, "depends_on": [f"{graph}/j{other}" for other in needs(n)]},
        )
        for n in range(number)
    )
    return GraphFile(Path("bench"), graph, {}, tuple(steps))


def _succeeded(server: BenchServer, client: Client, graph: str) -> int:
    key = client.dispatch.keys.state_index_of(partition_of(graph), "job", "success")
    assert len(set(map(partition_of, (GRAPH, WARMING, LOADING)))) == 3, (
        "the graphs are in three partitions"
    )
    return int(server.client.zcard(key))


def _last_ms(server: BenchServer, client: Client) -> float:
    key = client.dispatch.keys.state_index_of(partition_of(GRAPH), "job", "success")
    rows: Any = server.client.zrevrange(key, 0, 0, withscores=True)
    return float(rows[0][1])


def _effects(client: Client, number: int) -> float:
    """Return how many effects of a job were claimed, from a sample in the middle."""
    middle = range(number // 2, number // 2 + SAMPLES)
    logs = [client.history(f"{GRAPH}/j{n}") for n in middle]
    claims = [line for log in logs for line in log if isinstance(line, Note)]
    return sum(line.kind == "claim" for line in claims) / SAMPLES


def _compared_with_celery(server: BenchServer) -> dict[str, Any]:
    """Measure jobs without dependencies and chains of as many empty tasks alternately."""
    ours, other = [], []
    for _ in range(ROUNDS):
        cost = _graph(server, ALONE, alone)
        ours.append(cost.per_s)
        other.append(_chains(server, ALONE, round(cost.effects)))
    return {
        "alone_per_s": round(median(ours), 1),
        "alone_effects": round(cost.effects, 1),
        "celery_chains_per_s": round(median(other), 1),
        "ratio": round(median(a / b for a, b in zip(ours, other, strict=True)), 2),
    }


def _links(server: BenchServer) -> dict[str, Any]:
    """Measure the steps a second of a short and of a long Celery chain."""
    few, many = (_chains(server, 1, links) * links for links in (LINKS_FEW, LINKS_MANY))
    return {
        "celery_links_per_s": round(many, 1),
        "celery_links_per_s_of_100": round(few, 1),
        "celery_links": LINKS_MANY,
    }


def _chains(server: BenchServer, number: int, links: int) -> float:
    """Return how many chains of `links` tasks plain Celery runs a second."""
    server.client.flushall()
    app = plain.make(server.url)
    _submit(app, number, links)
    folder = Path(mkdtemp(prefix="interlock-bench-"))
    workers = WorkerProcesses(
        "bench.plain", folder, {plain.BROKER: server.url}, processes=1, pool=POOL_PLAIN
    )
    _hold(server)
    with workers:
        _submit(app, WARM, 1)
        _until(plain.idle_check(server.client))
        started_s = time.time()
        _release(server)
        _until(plain.idle_check(server.client))
    totals = workers.totals()
    if totals.bodies != WARM + number * links:
        raise RuntimeError(f"{totals.bodies} bodies of {number} chains of {links}; see {folder}")
    rmtree(folder)
    return number / (totals.last_s - started_s)


def _submit(app: Celery, number: int, links: int) -> None:
    tasks = chain(*(app.tasks["empty"].si() for _ in range(links)))
    for _ in range(number):
        tasks.apply_async()


def _lists(server: BenchServer) -> list[bytes]:
    return list(server.client.scan_iter(_type="list", count=10_000))


def _hold(server: BenchServer) -> None:
    """Hide the full queues from workers until they are released."""
    for name in _lists(server):
        server.client.rename(name, name + b":held")


def _release(server: BenchServer) -> None:
    for name in _lists(server):
        if name.endswith(b":held"):
            server.client.rename(name, name.removesuffix(b":held"))


def _scripts(server: BenchServer) -> int:
    """Return how many scripts the server has run. Other load on the computer does not change it."""
    return int(server.client.info("commandstats")["cmdstat_evalsha"]["calls"])


def _cpu_s(workers: WorkerProcesses) -> float:
    """Return the processor time of the workers so far."""
    ids = [path.name.partition("-")[2] for path in workers.folder.glob("ready-*")]
    stats = [Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split() for pid in ids]
    ticks = sum(int(fields[11]) + int(fields[12]) for fields in stats)
    return ticks / os.sysconf("SC_CLK_TCK")


def _until(done: Callable[[], bool]) -> None:
    until = time.monotonic() + RUN_S_MAX
    while not done():
        if time.monotonic() > until:
            raise RuntimeError(f"not done within {RUN_S_MAX:g} s")
        time.sleep(POLL_S)
