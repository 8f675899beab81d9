"""Runs a sweep over every partition, in batches and within a time budget."""

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
from interlock.workers.engine.celery_app import SWEEPS_QUEUE, queue_of
from interlock.workers.engine.dispatch import Dispatch

log = logging.getLogger(__name__)

# Acts on at most one batch of a partition's items, and returns how many had each status.
Pass = Callable[[Dispatch, int], Counter[str]]
# The status of items that stay in the index; sweeping them again at once would not help.
UNCHANGED = ("busy", "failed", "refused")


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep. Its period is `periods` times the configured sweep period.

    A sweep that may take long for one item is sent to an effect's queue instead of the sweeps' own,
    so that no other sweep waits behind it.
    """

    name: str
    run: Pass
    periods: int = 1
    queue: str = SWEEPS_QUEUE


def sweep_all(dispatch: Dispatch, sweep: Sweep) -> Counter[str]:
    """Sweep every partition until no item is left or the time is up. Raises StoreError."""
    started = time.monotonic()
    seen: Counter[str] = Counter()
    # Begins at a random partition, so that a backlog in one does not starve the others.
    first = random.randrange(PARTITIONS)  # noqa: S311 - no secret
    for partition in (*range(first, PARTITIONS), *range(first)):
        while True:
            if time.monotonic() - started > dispatch.settings.sweep_budget_s:
                seen["out of time"] += 1
                return seen
            found = sweep.run(dispatch, partition)
            seen += found
            unchanged = sum(found[status] for status in UNCHANGED)
            if found.total() < dispatch.settings.sweep_batch or found.total() == unchanged:
                break
    return seen


def act_on_each(items: Mapping[str, Callable[[], str]]) -> Counter[str]:
    """Act on every item, and count the results. A failing item is logged; the others go on."""
    seen: Counter[str] = Counter()
    for name, act in items.items():
        try:
            seen[act()] += 1
        except StoreError:
            raise
        except KernelError as refusal:
            # Another process has acted on it, or the call is refused: it is due again later.
            log.info("%s: %s", name, refusal)
            seen["refused"] += 1
        except Exception:
            log.exception("%s cannot be swept; it is tried again later", name)
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
            # One run does the work of all waiting messages of a sweep, so each message expires.
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
            log.warning("sweep %s was given up: %s", sweep.name, refusal)
            return f"given up: {refusal}"
        return (
            ", ".join(f"{count} {status}" for status, count in sorted(seen.items()))
            or "nothing due"
        )

    task.__doc__ = f"Sweep {sweep.name}."
    # No events: several sweeps a second would hide the effects in Flower. The log has results.
    app.task(task, name=f"sweep.{sweep.name}", ignore_result=True, send_events=False)
