"""Lifecycles of five empty effects against plain Celery's chains of five empty tasks, in turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from statistics import median
from tempfile import mkdtemp
from uuid import uuid4

from celery import Celery
from redis import Redis

from bench import plain
from bench.app import door
from bench.fleet import Fleet
from bench.machine import CHAIN, EFFECTS, State
from kernel.event import Cause
from kernel.record import PARTITIONS
from kernel.store.plan import Call
from workers.config import Settings

ROUNDS = 3
WARM = 20
LOOK_S = 0.1
# Found by `python -m bench pools`: the fastest of each side with one and with two processes.
POOL_OURS = "solo"
POOL_PLAIN = "solo"
PROCESSES = (1, 2)
CHAINS = 600
DRAIN_S_MAX = 120.0


@dataclass(frozen=True, slots=True)
class Side:
    """One side: how to load it, how to tell that it is done, and its worker."""

    name: str
    app: str
    environment: dict[str, str]
    load: Callable[[int], None]
    done: Callable[[int], bool]


@dataclass(slots=True)
class Rates:
    """Chains a second of both sides, round by round."""

    ours: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Return the median of the rounds' ratios: a round's two sides ran one after the other."""
        return median(a / b for a, b in zip(self.ours, self.plain, strict=True))


def our_settings(url: str) -> Settings:
    """Return the settings of our side: the product's, without the events that Flower reads."""
    return Settings(store_url=url, task_events=False, concurrency=1)


def our_environment(settings: Settings) -> dict[str, str]:
    """Return the same as variables for a worker."""
    return {
        "INTERLOCK_STORE_URL": settings.store_url,
        "INTERLOCK_TASK_EVENTS": "false",
        "INTERLOCK_CONCURRENCY": str(settings.concurrency),
    }


def our_side(url: str, client: Redis) -> Side:
    """Return our side."""
    settings = our_settings(url)
    dispatch = door(settings)

    def load(chains: int) -> None:
        for _ in range(chains):
            dispatch.create(CHAIN.name, f"ch-{uuid4().hex[:10]}", {}, Call(Cause("bench")))

    def done(chains: int) -> bool:
        pipe = client.pipeline(transaction=False)
        for partition in range(PARTITIONS):
            pipe.zcard(dispatch.keys.standing_in(partition, CHAIN.name, State.DONE))
        return sum(pipe.execute()) == chains

    return Side("ours", "bench.ours", our_environment(settings), load, done)


def plain_side(url: str, client: Redis) -> Side:
    """Return plain Celery."""
    app: Celery = plain.make(url)
    quiet = 0

    def load(chains: int) -> None:
        plain.submit(app, chains)

    def done(chains: int) -> bool:
        nonlocal quiet
        del chains
        # Between the pop and the note of it a message is nowhere to be seen: look three times.
        quiet = quiet + 1 if not (client.llen("celery") or client.hlen("unacked")) else 0
        return quiet >= 3

    return Side("plain", "bench.plain", {plain.BROKER: url}, load, done)


def drain(
    side: Side, client: Redis, chains: int, *, processes: int, pool: str, concurrency: int = 1
) -> float:
    """Return chains a second, from the moment when warm workers see a full queue to the last body."""
    client.flushall()
    side.load(chains)
    held = [name for name in client.scan_iter(_type="list", count=10_000)]
    for name in held:
        client.rename(name, name + b":held")
    fleet = Fleet(
        side.app,
        Path(mkdtemp(prefix="interlock-bench-")),
        side.environment,
        processes=processes,
        pool=pool,
        concurrency=concurrency,
    )
    with fleet:
        side.load(WARM)
        _until_done(side, WARM)
        started_s = time.time()
        for name in held:
            client.rename(name + b":held", name)
        _until_done(side, chains + WARM)
    seen = fleet.seen()
    rmtree(fleet.folder)
    if seen.bodies != EFFECTS * (chains + WARM):
        raise RuntimeError(f"{side.name}: {seen.bodies} bodies for {chains + WARM} chains")
    return chains / (seen.last_s - started_s)


def measure(url: str, *, rounds: int = ROUNDS) -> dict[str, Rates]:
    """Measure both sides in turns, with one worker process and with two."""
    with Redis.from_url(url) as client:
        ours, other = our_side(url, client), plain_side(url, client)
        rates = {str(processes): Rates() for processes in PROCESSES}
        for _ in range(rounds):
            for processes in PROCESSES:
                found, chains = rates[str(processes)], CHAINS * processes
                found.plain.append(
                    drain(other, client, chains, processes=processes, pool=POOL_PLAIN)
                )
                found.ours.append(drain(ours, client, chains, processes=processes, pool=POOL_OURS))
    return rates


def _until_done(side: Side, chains: int) -> None:
    until = time.monotonic() + DRAIN_S_MAX
    while not side.done(chains):
        if time.monotonic() > until:
            raise RuntimeError(f"{side.name}: {chains} chains are not done in {DRAIN_S_MAX:g} s")
        time.sleep(LOOK_S)
