"""Serves what one process knows of itself, as text of Prometheus. docs/metrics.md lists it.

The counts of the deployment are in the store, and `interlock serve` shows them. No process shows
them here a second time: a sum over the addresses of all processes would count them twice.
"""

from __future__ import annotations

import logging
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from errno import EADDRINUSE
from importlib.metadata import version
from threading import Lock, Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from billiard.einfo import ExceptionWithTraceback
from celery import Celery
from celery.exceptions import Ignore, Reject, Retry
from celery.signals import beat_init, celeryd_after_setup
from celery.worker.request import Request
from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import Metric

from interlock.kernel.store.call_times import CALL_BOUNDS_MS, CallTimes
from interlock.kernel.store.metrics import Durations
from interlock.workers.config import Settings
from interlock.workers.ops.metrics import counter, gauge, histogram
from interlock.workers.processes.port_user import user_of_port

log = logging.getLogger(__name__)

READER_S = 5.0  # a reader that sends or takes nothing for so long is cut off
NAMESPACE = "interlock"
# What a task of Celery raises that did not fail.
ENDS = ((Retry, "retried"), (Ignore, "ignored"), (Reject, "rejected"))


class TaskCounts:
    """The tasks of Celery that a process has taken, by their names. Safe in threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._begun: Counter[str] = Counter()
        self._ended: Counter[tuple[str, str]] = Counter()

    def begin(self, name: str) -> None:
        """Count a task that has begun."""
        with self._lock:
            self._begun[name] += 1

    def end(self, name: str, outcome: str) -> None:
        """Count how a task ended."""
        with self._lock:
            self._ended[name, outcome] += 1

    def read(self) -> tuple[dict[str, int], dict[tuple[str, str], int]]:
        """Return how many tasks run now, and how many ended by name and outcome."""
        with self._lock:
            running = self._begun.copy()
            for (name, _), ended in self._ended.items():
                running[name] -= ended
            return dict(running), dict(self._ended)


class CountedRequest(Request):
    """The message of a task, which counts that the task begins, and how it ends.

    A pool of processes runs the task in another process, but Celery calls these methods in the one
    that took the message. So the counts of that one are whole with every pool.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # Celery makes a class of this one for each task, whose `on_success` does not call ours.
        of_celery: Any = cls.on_success

        def on_success(self: CountedRequest, result: tuple[bool, Any, float], **more: Any) -> Any:
            answer = of_celery(self, result, **more)
            if not result[0]:
                self.app.task_counts.end(self.name, "succeeded")
            return answer

        cls.on_success = on_success

    def on_accepted(self, *arguments: Any, **more: Any) -> Any:
        """Count that the task begins."""
        self.app.task_counts.begin(self.name)
        return super().on_accepted(*arguments, **more)

    def on_failure(self, exc_info: Any, *arguments: Any, **more: Any) -> Any:
        """Count how the task ended, where it did not succeed."""
        error = exc_info.exception
        if isinstance(error, ExceptionWithTraceback):
            error = error.exc
        if self.time_start is None:
            # Its process was lost before it could say that the task begins.
            self.app.task_counts.begin(self.name)
        outcome = next((word for kind, word in ENDS if isinstance(error, kind)), "failed")
        self.app.task_counts.end(self.name, outcome)
        return super().on_failure(exc_info, *arguments, **more)


class ProcessMetrics:
    """What a process with this name knows of itself, beside the figures of its system."""

    def __init__(self, name: str, times: CallTimes, counts: TaskCounts | None = None) -> None:
        self.name, self.times, self.counts = name, times, counts

    def collect(self) -> Iterator[Metric]:
        """Yield each metric with its values of this moment."""
        labels = {(self.name, version("interlock")): 1}
        yield gauge("process_info", "Which process this is.", labels, ("name", "version"))
        if self.counts is not None:
            running, ended = self.counts.read()
            by_name = {(name,): number for name, number in running.items()}
            meaning = "Tasks of Celery that run in this process now."
            yield gauge("process_tasks_running", meaning, by_name, ("celery_task",))
            meaning = "Tasks of Celery that have ended in this process."
            yield counter("process_tasks", meaning, ended, ("celery_task", "outcome"))
        waits = {
            (kind,): Durations(buckets, round(sum_ms))
            for kind, (buckets, sum_ms) in self.times.totals().items()
        }
        meaning = "How long this process waited for an answer of the store."
        yield histogram("process_store_call_seconds", meaning, waits, ("kind",), CALL_BOUNDS_MS)


class MetricsServer(WSGIServer):
    """Answers one reader after the other: readers take at most one thread of the process."""

    def handle_error(self, *_: Any) -> None:
        """Log in one line that a reader was cut off; the base prints a traceback."""
        log.info("a reader of metrics was cut off: %r", sys.exception())


class MetricsServerV6(MetricsServer):
    """The same at an address of IPv6."""

    address_family = socket.AF_INET6


class MetricsRequest(WSGIRequestHandler):
    """A reader's request."""

    def setup(self) -> None:
        """Limit how long the thread waits for the reader."""
        self.request.settimeout(READER_S)
        super().setup()

    def log_message(self, *_: Any) -> None:
        """Write no line for each request."""


def serve_metrics(settings: Settings, metrics: ProcessMetrics) -> MetricsServer | None:
    """Serve the metrics of this process where the settings say, in a thread, if they say that.

    An address at which this is not possible is an error in the log: work goes on without.
    """
    if settings.metrics_address is None:
        return None
    host, _, port = settings.metrics_address.rpartition(":")
    registry = CollectorRegistry()
    ProcessCollector(NAMESPACE, registry=registry)
    registry.register(metrics)
    kind = MetricsServerV6 if ":" in host else MetricsServer
    app = make_wsgi_app(registry)
    try:
        server = make_server(host.strip("[]"), int(port), app, kind, MetricsRequest)
    except OSError as refusal:
        user = user_of_port(int(port)) if refusal.errno == EADDRINUSE else ""
        log.warning(
            "no metrics of this process are served at %s: %s%s; name another address in "
            "INTERLOCK_METRICS_ADDRESS, or port 0 for any that is free",
            settings.metrics_address,
            refusal,
            user and f" by {user}",
        )
        return None
    Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    log.info("metrics of %s at http://%s:%d/metrics", metrics.name, host, server.server_port)
    return server


def serve_metrics_of(app: Celery, settings: Settings, times: CallTimes) -> None:
    """Let the worker or beat of this app serve its metrics at the address in the settings."""
    app.task_counts = TaskCounts()
    app.Task.Request = CountedRequest

    @celeryd_after_setup.connect(weak=False)
    def serve_worker(sender: str, **_: object) -> None:
        serve_metrics(settings, ProcessMetrics(sender, times, app.task_counts))

    @beat_init.connect(weak=False)
    def serve_beat(**_: object) -> None:
        serve_metrics(settings, ProcessMetrics(f"beat@{settings.host}", times))
