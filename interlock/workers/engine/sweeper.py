"""Runs a sweep over every partition, in batches and within a time budget."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from celery import Celery

from interlock.kernel.errors import (
    AnotherVersionError,
    InvalidIdError,
    KernelError,
    StoreDownError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    TableFunctionError,
    UnreadableRecordError,
)
from interlock.kernel.event import TABLE_FAILED
from interlock.kernel.record import Record
from interlock.kernel.store.commands import Call, NoteDraft
from interlock.kernel.table import Data
from interlock.workers.config import Settings, ms
from interlock.workers.engine.celery_app import SWEEPS_QUEUE, queue_of
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.records import Records, component
from interlock.workers.engine.tracing import traced_sweep

log = logging.getLogger(__name__)

# Acts on at most one batch of a partition's items, and returns how many had each status.
Pass = Callable[[Records, int], Counter[str]]
# Returns the partitions that have an item, in a few round trips, so that idle ones cost nothing.
Due = Callable[[Records], Collection[int]]
# The status of items that stay in the index; sweeping them again at once would not help.
UNCHANGED = ("busy", "failed", "refused")
AWAY = (StoreDownError, StoreFullError, StoreReadOnlyError)
Polled = TypeVar("Polled")
OUT_OF_TIME = "out of time"  # counted among the statuses of items, and no status of one
# A sweep is late when so much more than two of its periods has passed since a run of it ended.
LATE_S = 30.0


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep: which partitions are `due`, and the act on one of them, `run`.

    Its period is `periods` times the configured sweep period.
    A sweep that may take long for one item is sent to an effect's queue instead of the sweeps' own,
    so that no other sweep waits behind it. Beat sends only the sweeps that the settings need.
    """

    name: str
    due: Due
    run: Pass
    periods: int = 1
    queue: str = SWEEPS_QUEUE
    is_needed: Callable[[Settings], bool] = lambda settings: True  # noqa: ARG005

    def period_s(self, settings: Settings) -> float:
        """Return how often beat sends this sweep."""
        return settings.sweep_period_s * self.periods


def sweep_all(dispatch: Dispatch, sweep: Sweep) -> Counter[str]:
    """Sweep every due partition until no item is left or the time is up. Raises StoreError."""
    started = time.monotonic()
    seen: Counter[str] = Counter()
    records = component(dispatch, sweep.name)
    due = [*sweep.due(records)]
    # In random order, so that a backlog in one partition does not starve the others.
    random.shuffle(due)
    for partition in due:
        while True:
            if time.monotonic() - started > dispatch.settings.sweep_budget_s:
                seen[OUT_OF_TIME] += 1
                return seen
            found = sweep.run(records, partition)
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
        except UnreadableRecordError:
            log.exception("%s cannot be swept", name)
            seen["failed"] += 1
        except TableFunctionError as refusal:
            log.error("%s cannot be swept; it is tried again later: %s", name, refusal)  # noqa: TRY400
            seen["failed"] += 1
        except AnotherVersionError as refusal:
            log.info("%s is left to a process that knows it: %s", name, refusal)
            seen["refused"] += 1
        except KernelError as refusal:
            # Another process has acted on it, or the call is refused: it is due again later.
            log.info("%s: %s", name, refusal)
            seen["refused"] += 1
        except Exception:
            log.exception("%s cannot be swept; it is tried again later", name)
            seen["failed"] += 1
    return seen


def poll_and_act(
    members: Sequence[str],
    poll: Callable[[Sequence[str]], Sequence[Polled]],
    act: Callable[[Polled], str],
) -> Counter[str]:
    """Poll members of an index with one call, act on each, and count the results.

    A corrupt one fails that call for all, so each is polled alone then.
    """
    try:
        polled = poll(members)
    except AWAY:
        raise
    except (StoreError, InvalidIdError):
        return act_on_each({one: partial(_poll_one, one, poll, act) for one in members})
    found = zip(members, polled, strict=True)
    return act_on_each({member: partial(act, one) for member, one in found})


def _poll_one(
    member: str,
    poll: Callable[[Sequence[str]], Sequence[Polled]],
    act: Callable[[Polled], str],
) -> str:
    try:
        (polled,) = poll([member])
    except AWAY:
        raise
    except (StoreError, InvalidIdError) as refusal:
        log.warning("%s is corrupt and stays where it is: %s", member, refusal)
        return "failed"
    return act(polled)


@contextmanager
def left_to_others(dispatch: Dispatch, index: Callable[[int], str], member: str) -> Iterator[None]:
    """Let a sweep of another process poll soon what only another version of its table knows."""
    try:
        yield
    except AnotherVersionError:
        dispatch.indexes.poll_soon(index, member)
        raise


def fire(dispatch: Dispatch, record: Record, trigger: str, payload: Data, call: Call) -> None:
    """Fire a trigger at a record. If a function of its table prevents that, its log says so, once.

    Raises what firing raises.
    """
    try:
        dispatch.lifecycle.fire(record, trigger, payload, call)
    except TableFunctionError as refusal:
        draft = NoteDraft(TABLE_FAILED, {"trigger": trigger, "detail": str(refusal)})
        dispatch.lifecycle.note(record, draft, op_id=f"{call.op_id}/failed")
        raise


def register_sweeps(app: Celery, dispatch: Dispatch, sweeps: tuple[Sweep, ...]) -> None:
    """Register each sweep as a Celery task and put it on the beat."""
    for sweep in sweeps:
        _register(app, dispatch, sweep)
    app.conf.beat_schedule = {
        f"sweep.{sweep.name}": {
            "task": f"sweep.{sweep.name}",
            "schedule": sweep.period_s(dispatch.settings),
            # No message expires: a worker would judge that by its own wall clock.
            "options": {"queue": queue_of(dispatch.settings, sweep.queue)},
        }
        for sweep in sweeps
        if sweep.is_needed(dispatch.settings)
    }


def late_sweeps(dispatch: Dispatch, sweeps: Iterable[Sweep]) -> dict[str, int | None]:
    """Return the sweeps of which a run should have ended long ago.

    No beat sends them, no worker runs them, or each run fails. Each comes with the seconds since a
    run of it ended last, None if none ever did.
    """
    now_ms, ended_ms = dispatch.views.now_ms(), dispatch.indexes.last_sweeps()
    ages = {
        sweep: (now_ms - ended_ms[sweep.name]) // 1_000 if sweep.name in ended_ms else None
        for sweep in sweeps
        if sweep.is_needed(dispatch.settings)
    }
    return {
        sweep.name: age_s
        for sweep, age_s in ages.items()
        if age_s is None or age_s > LATE_S + 2 * sweep.period_s(dispatch.settings)
    }


def _register(app: Celery, dispatch: Dispatch, sweep: Sweep) -> None:
    def task() -> str:
        try:
            if not dispatch.indexes.begin_sweep(sweep.name, ms(sweep.period_s(dispatch.settings))):
                return "has just run"
            with traced_sweep(sweep.name) as note:
                seen = sweep_all(dispatch, sweep)
                outcome = _outcome(seen)
                note(outcome, _numbers(seen))
            dispatch.indexes.count_sweep(sweep.name, seen)
        except StoreError as refusal:
            log.warning("sweep %s was given up: %s", sweep.name, refusal)
            return f"given up: {refusal}"
        return outcome

    task.__doc__ = f"Sweep {sweep.name}."
    # No events: several sweeps a second would hide the effects in Flower. The log has results.
    app.task(task, name=f"sweep.{sweep.name}", ignore_result=True, send_events=False, shared=False)


def _outcome(seen: Counter[str]) -> str:
    listed = ", ".join(f"{count} {status}" for status, count in sorted(seen.items()))
    return listed or "nothing due"


def _numbers(seen: Counter[str]) -> dict[str, int]:
    """Return how many items a sweep has seen, has acted on, and could not act on."""
    total = seen.total() - seen[OUT_OF_TIME]
    return {
        "seen": total,
        "acted": total - sum(seen[status] for status in UNCHANGED),
        "failed": seen["failed"] + seen["refused"],
    }
