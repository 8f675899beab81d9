"""Measures the console: 50 viewers of its pages, among 1,000,000 records."""

from __future__ import annotations

import statistics
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.http import RECORDS, WAIT_EVERY, load, serving
from bench.server import BenchServer
from interlock.systems.jobs.client import Graphs
from interlock.systems.loops.client import Loops
from interlock.systems.runs.client import Runs
from interlock.workers.client import Client

VIEWERS = 50
PERIOD_S = 2.0  # a page that is open is renewed so often
MIXED_S, START_PAGE_S = 90.0, 20.0
# The records of the systems but threads: backlogs, graphs, agents and runs, and what is in each.
GROUPS, GROUP_SIZE = 50, 20
SYSTEMS = ("threads", "tasks", "jobs", "loops", "runs")
PLAN = "plan: tidy\ncodons:\n  - {codon: clean, command: 'true'}\n"
Address = Callable[[], str]


def measure(server: BenchServer) -> dict[str, Any]:
    """Let viewers look at all pages in turns, then all of them at the start page."""
    load(server)
    numbers = count(1, 7_919)
    pages: dict[str, Address] = {
        "start page": lambda: "/",
        "inbox": lambda: "/inbox",
        "a card": lambda: f"/inbox/th-{next(numbers) * WAIT_EVERY % RECORDS}",
        "a record": lambda: f"/records/th-{next(numbers) % RECORDS}",
        "list": lambda: "/records",
        "fleet": lambda: "/fleet",
        "several records": lambda: "/bulk?q=machine:thread&verb=pause",
        **{f"system {name}": partial("/systems/{}".format, name) for name in SYSTEMS},
    }
    with TemporaryDirectory() as folder, serving(server) as (url, _):
        _load_systems(Client(server.settings()), Path(folder))
        for address in pages.values():
            _open(url + address())
        mixed = _watched(url, pages, MIXED_S)
        looks, cpu_s = _looks(server), server.cpu_s()
        began = time.monotonic()
        _watched(url, {"start page": pages["start page"]}, START_PAGE_S)
        took = time.monotonic() - began
        found = {
            "viewers": VIEWERS,
            "records": RECORDS,
            "pages_ms": {name: _percentiles(times) for name, times in mixed.items()},
            "looks_per_s": round((_looks(server) - looks) / took, 2),
            "store_cpu_share": round((server.cpu_s() - cpu_s) / took, 3),
        }
    return {"console": found}


def _load_systems(client: Client, folder: Path) -> None:
    """Create records of the systems but threads, each in the usual way. No worker runs."""
    graphs, loops, runs, plan = Graphs(client), Loops(client), Runs(client), folder / "plan.yaml"
    plan.write_text(PLAN, "utf-8")
    job = {"phases": [{"worker": {"command": "true"}}]}
    agent = {"repo": "/nowhere", "command": "true", "host": "elsewhere", "next": "on_mail"}
    for group in range(GROUPS):
        for number in range(GROUP_SIZE):
            client.submit({"title": f"Task {number}"}, id=f"b-{group}/{number}", machine="task")
            graphs.create(f"g-{group}/{number}", job, held=False)
        client.submit(agent, id=f"agent-{group}/1", machine="loop")
        loops.send(f"agent-{group}", "look at it", sender="bench")
        workspace = folder / f"workspace-{group}"
        workspace.mkdir()
        runs.start(plan, workspace)


def _watched(url: str, pages: Mapping[str, Address], seconds: float) -> dict[str, list[float]]:
    """Return how long each look at a page took (ms), with VIEWERS who look at the same time."""
    names = list(pages)
    took: dict[str, list[float]] = defaultdict(list)
    until = time.monotonic() + seconds

    def view(number: int) -> None:
        name = names[number % len(names)]
        time.sleep(PERIOD_S * number / VIEWERS)  # people do not look all at the same moment
        while (began := time.monotonic()) < until:
            _open(url + pages[name]())
            ended = time.monotonic()
            took[name].append((ended - began) * 1e3)
            time.sleep(max(began + PERIOD_S - ended, 0))

    with ThreadPoolExecutor(VIEWERS) as pool:
        for done in [pool.submit(view, number) for number in range(VIEWERS)]:
            done.result()
    return took


def _open(address: str) -> None:
    with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310 - of our own server
        answer.read()


def _looks(server: BenchServer) -> int:
    """Return how often the console has looked at the flow: it alone counts rejected messages."""
    stats: Any = server.client.info("commandstats")
    return int(stats.get("cmdstat_xlen", {"calls": 0})["calls"])


def _percentiles(took: list[float]) -> dict[str, float]:
    hundredths = statistics.quantiles(took, n=100)
    return {"p50": round(hundredths[49], 1), "p99": round(hundredths[98], 1)}
