"""Where the processor time of an effect goes, of the worker and of the server, beside Celery's."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import Any

from bench.kernel_speed import call_costs
from bench.lifecycles import THREADS, Side, our_side, plain_side, run_down
from bench.server import BenchServer

CHAINS = 1_000
SCRIPTS = ("cmdstat_evalsha", "cmdstat_fcall")


@dataclass(frozen=True, slots=True)
class Used:
    """What the server has used: processor time, calls of scripts, and the time inside of them."""

    cpu_us: float
    scripts: float
    scripts_us: float

    def less(self, before: Used) -> Used:
        """Return what was used since then."""
        return Used(*(now - then for now, then in zip(astuple(self), astuple(before), strict=True)))


def measure(server: BenchServer) -> dict[str, Any]:
    """Drain a full queue on each side with one worker process, and divide what was used."""
    worker_us, used = _step(server, our_side(server))
    celery_us, celery_used = _step(server, plain_side(server, tuned=True))
    costs = call_costs(server)
    trips_us = used.scripts * costs.bare_cpu_s * 1e6
    kernel_us = (costs.fired_cpu_s - costs.bare_cpu_s) * 1e6
    found = {
        "worker_us": worker_us,
        "trips": used.scripts,
        "trips_us": trips_us,
        "kernel_us": kernel_us,
        "rest_us": worker_us - trips_us - kernel_us,
        "server_us": used.cpu_us,
        "scripts_us": used.scripts_us,
        "celery_us": celery_us,
        "celery_server_us": celery_used.cpu_us,
    }
    return {"effect": {name: round(value, 1) for name, value in found.items()}}


def _step(server: BenchServer, side: Side) -> tuple[float, Used]:
    """Return the worker's processor time of a step (µs), and what the server used for it."""
    loading = Used(0, 0, 0)

    def load(chains: int) -> None:
        nonlocal loading
        before = _used(server)
        side.load(chains)
        loading = _used(server).less(before).less(Used(*(-used for used in astuple(loading))))

    before = _used(server)
    drained = run_down(replace(side, load=load), server.client, CHAINS, processes=1, **THREADS)
    used, bodies = _used(server).less(before).less(loading), drained.totals.bodies
    return drained.totals.cpu_s / bodies * 1e6, Used(*(each / bodies for each in astuple(used)))


def _used(server: BenchServer) -> Used:
    stats: Any = server.client.info("commandstats")
    scripts = [stats[name] for name in SCRIPTS if name in stats]
    return Used(
        server.cpu_s() * 1e6,
        sum(one["calls"] for one in scripts),
        sum(one["usec"] for one in scripts),
    )
