"""Shows the metrics of a deployment as Prometheus reads them. docs/metrics.md lists them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from interlock.kernel.store.call_times import CALL_BOUNDS_MS
from interlock.kernel.store.metrics import BOUNDS_MS, Durations, Metrics
from interlock.workers.engine.celery_app import INTAKE_QUEUE, SWEEPS_QUEUE, effect_queues
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.kept import Kept
from interlock.workers.engine.sweeper import late_sweeps
from interlock.workers.systems import health, sweeps

KEPT_S = 1.0  # so long a text is given to all who ask
_HEAD = "interlock_"
Values = Mapping[Any, float]  # by the values of the labels


class Exposition:
    """The metrics of one deployment. However many ask, the store is looked at once a second."""

    def __init__(self, dispatch: Dispatch) -> None:
        self.dispatch = dispatch
        self._text = Kept(self.read, KEPT_S)

    def text(self) -> bytes:
        """Return all metrics, as text of Prometheus. Raises StoreError."""
        return self._text.value()

    def read(self) -> bytes:
        """Look at the store now, and return all metrics. Raises StoreError."""
        registry = CollectorRegistry()
        registry.register(_Looked(list(_look(self.dispatch))))
        return generate_latest(registry)


class _Looked:
    """What was seen, for the library that writes it."""

    def __init__(self, found: list[Metric]) -> None:
        self.found = found

    def collect(self) -> list[Metric]:
        """Return it."""
        return self.found


def _look(dispatch: Dispatch) -> Iterator[Metric]:
    began_at = time.monotonic()
    counted = dispatch.metrics.read()
    took_s = time.monotonic() - began_at
    yield from _counted(counted)
    yield from _present(dispatch, counted.ends)
    yield gauge("store_seconds", "How long the store took to answer this.", {(): took_s})


def _counted(found: Metrics) -> Iterator[Metric]:
    """Yield what the scripts and the processes count."""
    yield counter(
        "transitions",
        "Transitions; `source` is `-` for the creation of a record.",
        found.transitions,
        ("machine", "source", "target"),
    )
    yield counter(
        "refused_commits",
        "Commits that the store refused: repeated, fenced, about an older version.",
        found.refused,
        ("machine", "status"),
    )
    yield counter(
        "effect_attempts",
        "Claims of effects: their first, or again after a failure or a lost worker.",
        found.attempts,
        ("effect", "which"),
    )
    yield counter(
        "refused_claims",
        "Claims of effects that were refused: a message that came twice, or before its time.",
        found.unclaimed,
        ("effect", "status"),
    )
    yield counter(
        "effect_runs",
        "Runs of effects that ended, by the trigger that they fired, or how else they ended.",
        found.runs,
        ("effect", "outcome"),
    )
    yield counter(
        "late_renewals",
        "Renewals of leases that had run out, before a sweep took their holder for lost.",
        {(effect,): count for effect, count in found.late.items()},
        ("effect",),
    )
    yield counter(
        "budget_refusals",
        "Calls that were not made, because a budget forbade them.",
        {(effect,): count for effect, count in found.over.items()},
        ("effect",),
    )
    yield counter(
        "usage",
        "What was used, such as `spent` (micro-dollars), `tokens_in` and `tokens_out`.",
        found.sums,
        ("machine", "counter"),
    )
    yield counter(
        "sweep_items", "Items that sweeps found, by result.", found.sweeps, ("sweep", "status")
    )
    yield from _durations(found)


def _durations(found: Metrics) -> Iterator[Metric]:
    """Yield the histograms."""
    yield histogram(
        "state_seconds",
        "How long records were in a state that they left.",
        found.dwell,
        ("machine", "state"),
    )
    lags = {(effect,): durations for effect, durations in found.lag.items()}
    yield histogram(
        "effect_lag_seconds",
        "From the entry into a state to the first claim of its effect.",
        lags,
        ("effect",),
    )
    yield histogram(
        "store_call_seconds",
        "How long processes waited for an answer of the store.",
        {(kind,): durations for kind, durations in found.calls.items()},
        ("kind",),
        CALL_BOUNDS_MS,
    )


def _present(dispatch: Dispatch, ended: Mapping[str, int]) -> Iterator[Metric]:
    """Yield what is so now."""
    views = dispatch.views
    now_ms = views.now_ms()
    records = {
        (machine, state): count
        for machine, states in views.counts(dispatch.machines.values()).items()
        for state, count in states.items()
    }
    yield gauge("records", "Records by state.", records, ("machine", "state"))
    depths = {(kind,): count for kind, count in dispatch.indexes.depths().items()}
    yield gauge(
        "waiting",
        "Effects owed or at work, timers set, records that wait for a person.",
        depths,
        ("kind",),
    )
    oldest_ms = dispatch.indexes.oldest_ms()
    if owed := dispatch.owed.oldest():
        oldest_ms["effects"] = owed[0].since_ms
    overdue = {(kind,): max(now_ms - at_ms, 0) / 1_000 for kind, at_ms in oldest_ms.items()}
    yield gauge(
        "oldest_seconds",
        "How long the oldest effect is owed, a timer is due, and a person is waited for.",
        overdue,
        ("kind",),
    )
    sweeps_ms = dispatch.indexes.last_sweeps().items()
    since_s = {(name,): max(now_ms - at_ms, 0) / 1_000 for name, at_ms in sweeps_ms}
    yield gauge("sweep_age_seconds", "Since a run of a sweep ended last.", since_s, ("sweep",))
    late = late_sweeps(dispatch, sweeps())
    named = {(sweep.name,): int(sweep.name in late) for sweep in sweeps()}
    yield gauge("sweep_late", "1 where a run should have ended long ago.", named, ("sweep",))
    ends = {(machine,): max(now_ms - at, 0) / 1_000 for machine, at in ended.items()}
    yield gauge("last_end_seconds", "Since a record of a machine ended.", ends, ("machine",))
    for each in health(dispatch):
        for name, (meaning, value) in each.gauges.items():
            yield gauge(name, meaning, {(): value})
    if (room := dispatch.quota.room()) is not None:
        meaning = "How many more records the quota of the deployment admits."
        yield gauge("records_room", meaning, {(): room})
    yield counter(
        "rejected_messages",
        "Messages that nobody could act on.",
        {(kind,): count for kind, count in dispatch.rejected.counts().items()},
        ("kind",),
    )
    names = effect_queues(dispatch.machines.values(), INTAKE_QUEUE, SWEEPS_QUEUE)
    queues = dispatch.publisher.queue_lengths(names)
    lengths = {(queue,): count for queue, count in queues.items()}
    yield gauge("queue_messages", "Messages that no worker has taken.", lengths, ("queue",))
    sent_s = dispatch.publisher.oldest_sent_s([name for name in names if queues[name]])
    ages = {(queue,): max(now_ms / 1_000 - at, 0) for queue, at in sent_s.items()}
    meaning = "How long ago the oldest message in a queue was sent."
    yield gauge("queue_oldest_seconds", meaning, ages, ("queue",))
    hosts = {(): len(dispatch.hosts.facts())}
    yield gauge("agent_hosts", "Computers that announce that they run agents.", hosts)


def counter(name: str, meaning: str, values: Values, labels: tuple[str, ...]) -> Metric:
    """Return a counter, whose name in the text begins with `interlock_`."""
    metric = CounterMetricFamily(_HEAD + name, meaning, labels=labels)
    for key, value in sorted(values.items()):
        metric.add_metric(key, value)
    return metric


def gauge(
    name: str,
    meaning: str,
    values: Values,
    labels: tuple[str, ...] = (),
) -> Metric:
    """Return a gauge."""
    metric = GaugeMetricFamily(_HEAD + name, meaning, labels=labels)
    for key, value in sorted(values.items()):
        metric.add_metric(key, value)
    return metric


def histogram(
    name: str,
    meaning: str,
    values: Mapping[Any, Durations],
    labels: tuple[str, ...],
    bounds_ms: Sequence[float] = BOUNDS_MS,
) -> Metric:
    """Return a histogram in seconds, of durations whose buckets end at these bounds."""
    metric = HistogramMetricFamily(_HEAD + name, meaning, labels=labels)
    bounds = [*(f"{bound / 1_000:g}" for bound in bounds_ms), "+Inf"]
    for key, durations in sorted(values.items()):
        totals = [sum(durations.buckets[: at + 1]) for at in range(len(bounds))]
        metric.add_metric(key, list(zip(bounds, totals, strict=True)), durations.sum_ms / 1_000)
    return metric
