"""Runs a sweep: partition by partition, item by item, within a time budget."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from celery import Celery

from interlock.kernel.errors import KernelError, StoreError
from interlock.kernel.record import PARTITIONS
from interlock.workers.engine.app import SWEEPS, queue_of
from interlock.workers.engine.dispatch import Dispatch

log = logging.getLogger(__name__)

# Answers what it did to each kind of item in one partition; it takes at most a batch.
Pass = Callable[[Dispatch, int], Counter[str]]
# Items that stay where they are: to look at them again at once would not help.
STUCK = ("busy", "failed", "refused")


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep by name. Its period is a multiple of the configured sweep period.

    One that may take long for an item goes to an effect's queue: no other sweep waits behind it.
    """

    name: str
    run: Pass
    periods: int = 1
    queue: str = SWEEPS


def sweep_all(dispatch: Dispatch, sweep: Sweep) -> Counter[str]:
    """Sweep every partition until dry or out of time. A store that refuses ends it quietly."""
    started = time.monotonic()
    seen: Counter[str] = Counter()
    # From anywhere, so that a backlog in one partition starves no other when the time is up.
    first = random.randrange(PARTITIONS)  # noqa: S311 - no secret
    for partition in (*range(first, PARTITIONS), *range(first)):
        while True:
            if time.monotonic() - started > dispatch.settings.sweep_budget_s:
                seen["out of time"] += 1
                return seen
            found = sweep.run(dispatch, partition)
            seen += found
            stuck = sum(found[word] for word in STUCK)
            if found.total() < dispatch.settings.sweep_batch or found.total() == stuck:
                break
    return seen


def each(items: Mapping[str, Callable[[], str]]) -> Counter[str]:
    """Act on every item. One that fails is counted and named; the others go on."""
    seen: Counter[str] = Counter()
    for name, act in items.items():
        try:
            seen[act()] += 1
        except StoreError:
            raise
        except KernelError as refusal:
            # Someone was faster, or the item is beyond us: its next look is already further off.
            log.info("%s: %s", name, refusal)
            seen["refused"] += 1
        except Exception:
            log.exception("%s cannot be swept; its next look is further off", name)
            seen["failed"] += 1
    return seen


def register_sweeps(app: Celery, dispatch: Dispatch, sweeps: tuple[Sweep, ...]) -> None:
    """Register each sweep as a Celery task and put it on the beat."""
    schedule = {}
    for sweep in sweeps:
        _register(app, dispatch, sweep)
        period_s = dispatch.settings.sweep_period_s * sweep.periods
        schedule[f"sweep.{sweep.name}"] = {
            "task": f"sweep.{sweep.name}",
            "schedule": period_s,
            # A backlog of sweeps is worth one sweep.
            "options": {
                "expires": max(2 * period_s, 5.0),
                "queue": queue_of(dispatch.settings, sweep.queue),
            },
        }
    app.conf.beat_schedule = schedule


def _register(app: Celery, dispatch: Dispatch, sweep: Sweep) -> None:
    def task() -> str:
        try:
            seen = sweep_all(dispatch, sweep)
        except StoreError as refusal:
            log.warning("sweep %s is silent: %s", sweep.name, refusal)
            return f"silent: {refusal}"
        return ", ".join(f"{count} {word}" for word, count in sorted(seen.items())) or "nothing due"

    task.__doc__ = f"Sweep {sweep.name}."
    # Two sweeps a second would bury the effects in Flower; what they do is in the log.
    app.task(task, name=f"sweep.{sweep.name}", ignore_result=True, send_events=False)
