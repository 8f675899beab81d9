"""Compares five empty effects with the same five empty steps of other products, in turns."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from bench.lifecycles import POOL_PLAIN, THREADS, Side, our_side, plain_side
from bench.lifecycles import drain as drain_celery
from bench.peers.drain import drain
from bench.peers.environment import MissingError, peers_python
from bench.peers.postgres import Cluster, open_cluster
from bench.server import BenchServer

ROUNDS = 5
OURS, OURS_ON_DISK = "Interlock", "Interlock, each commit on the disk"
DBOS, PGQUEUER = "bench.peers.dbos_steps", "bench.peers.pgqueuer_steps"
# As many as a side does in about three seconds.
CHAINS = {"Interlock": 1500, "Celery": 600, "DBOS": 200, "PgQueuer": 600}
Measure = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Peers:
    """The sides that can be measured here, and why the others cannot."""

    sides: Mapping[str, Measure]
    skipped: Mapping[str, str]


def measure(server: BenchServer, *, rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure all sides alternately, one worker process each. Each round begins with another."""
    with _sides(server) as peers:
        names = list(peers.sides)
        found: list[dict[str, float]] = []
        for number in range(rounds):
            first = number % len(names)
            turn = [*names[first:], *names[:first]]
            rates = {name: round(peers.sides[name](), 1) for name in turn}
            found.append({name: rates[name] for name in names})
    return {
        "peers": {
            name: {
                "per_s": round(median(rates[name] for rates in found), 1),
                "ratio": _ratio(found, OURS, name),
                "ratio_on_disk": _ratio(found, OURS_ON_DISK, name),
            }
            for name in names
        },
        "peers_skipped": dict(peers.skipped),
        "peers_rounds": found,
    }


def _ratio(rounds: Sequence[Mapping[str, float]], ours: str, other: str) -> float:
    return round(median(rates[ours] / rates[other] for rates in rounds), 2)


@contextmanager
def _sides(server: BenchServer) -> Iterator[Peers]:
    ours, celery = our_side(server), partial(plain_side, server)
    sides: dict[str, Measure] = {
        OURS: partial(_on_redis, server, ours, CHAINS["Interlock"], **THREADS),
        OURS_ON_DISK: partial(_each_commit_on_disk, server, ours),
        "Celery": partial(_on_redis, server, celery(), CHAINS["Celery"], pool=POOL_PLAIN),
        "Celery with results": partial(
            _on_redis, server, celery(results=True), CHAINS["Celery"], pool=POOL_PLAIN
        ),
    }
    skipped: dict[str, str] = {}
    with ExitStack() as stack:
        try:
            python = peers_python()
        except MissingError as missing:
            yield Peers(sides, dict.fromkeys(("DBOS", "PgQueuer"), str(missing)))
            return
        sides["DBOS on SQLite"] = partial(_dbos_on_sqlite, python)
        try:
            cluster = stack.enter_context(open_cluster())
        except MissingError as missing:
            skipped |= dict.fromkeys(("DBOS on Postgres", "PgQueuer"), str(missing))
        else:
            sides["DBOS on Postgres"] = partial(_dbos_on_postgres, python, cluster)
            sides["PgQueuer on Postgres"] = partial(_pgqueuer, python, cluster)
        yield Peers(sides, skipped)


def _on_redis(server: BenchServer, side: Side, chains: int, **pool: Any) -> float:
    return drain_celery(side, server.client, chains, processes=1, **pool)


def _each_commit_on_disk(server: BenchServer, side: Side) -> float:
    """Measure ours with the level of durability that databases have by default."""
    server.client.config_set("appendfsync", "always")
    try:
        return _on_redis(server, side, CHAINS["Interlock"], **THREADS)
    finally:
        server.client.config_set("appendfsync", "everysec")


def _dbos_on_sqlite(python: Path) -> float:
    with TemporaryDirectory(prefix="interlock-bench-") as folder:
        return drain(python, DBOS, f"sqlite:///{folder}/dbos.sqlite", CHAINS["DBOS"])


def _dbos_on_postgres(python: Path, cluster: Cluster) -> float:
    with cluster.database("dbos") as name:
        return drain(python, DBOS, cluster.url(name, "postgresql+psycopg"), CHAINS["DBOS"])


def _pgqueuer(python: Path, cluster: Cluster) -> float:
    with cluster.database("pgqueuer") as name:
        pgq: Sequence[str] = [str(python.with_name("pgq")), "--pg-dsn", cluster.url(name)]
        for command in ("install", "autovac"):
            subprocess.run([*pgq, command], check=True, capture_output=True)
        return drain(python, PGQUEUER, cluster.url(name), CHAINS["PgQueuer"])
