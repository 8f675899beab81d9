"""Shows Flower the effects that a process holds outside of Celery as tasks, with their ends.

An effect's key is the id of its task. Some have no message; the task of others ends when it has
launched the process that holds the effect. Events only show: a thread of their own sends them, and
one that is lost changes no work.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from queue import Full, Queue
from threading import Thread
from typing import Any

from celery import current_task

from interlock.kernel.event import Event
from interlock.kernel.store.leases import Lease
from interlock.kernel.table import Active, Mode
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.publisher import shown_arguments

log = logging.getLogger(__name__)

WAITING_MAX = 1_000
CLOSE_S = 2.0
LINES_MAX = 100  # of a record's log, in which the end of an effect is looked for
REASON_LENGTH_MAX = 2_000
TaskEvent = tuple[str, Mapping[str, Any]]


def this_worker() -> str:
    """Return the name of the Celery worker whose task calls, or ''."""
    return str(current_task.request.hostname or "") if current_task else ""


def show_lost(dispatch: Dispatch, key: str, reason: str) -> None:
    """Show an effect as failed whose holder was lost. Its task would run for ever in Flower."""
    fields = {"uuid": key, "exception": repr(reason), "traceback": ""}
    _events_of(dispatch, this_worker()).put(lambda: [("task-failed", fields)])


@cache
def _events_of(dispatch: Dispatch, worker: str) -> TaskEvents:
    """Return the events of a worker's process: a host that is lost has many effects to show."""
    return TaskEvents(dispatch, worker)


class TaskEvents:
    """Sends the events of the effects that this process holds, as of a worker with this name."""

    def __init__(self, dispatch: Dispatch, worker: str) -> None:
        self._dispatch, self._worker = dispatch, worker
        self._queue: Queue[Callable[[], list[TaskEvent]] | None] = Queue(WAITING_MAX)
        self._began: dict[str, tuple[Lease, float]] = {}
        self._thread: Thread | None = None

    def begin(self, lease: Lease) -> None:
        """Show that this process holds an effect."""
        self._began[lease.key] = (lease, time.monotonic())
        self.put(partial(_began, lease))

    def end(self, lease: Lease) -> None:
        """Show how an effect ended, by the log of its record."""
        if began := self._began.pop(lease.key, None):
            self.put(partial(_ended, self._dispatch, lease, time.monotonic() - began[1]))

    def close(self) -> None:
        """Show the end of what is left, and wait for a short time until all is sent."""
        for lease, _ in tuple(self._began.values()):
            self.end(lease)
        self.put(None)
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def put(self, events: Callable[[], list[TaskEvent]] | None) -> None:
        """Let the thread make events and send them; None ends it after what was put before."""
        if not (self._worker and self._dispatch.settings.task_events):
            return
        if self._thread is None:
            self._thread = Thread(target=self._send_all, name="task events", daemon=True)
            self._thread.start()
        with suppress(Full):
            self._queue.put_nowait(events)

    def _send_all(self) -> None:
        while (events := self._queue.get()) is not None:
            try:
                self._send(events())
            except Exception as failure:  # noqa: BLE001 - an event that is lost harms no work
                log.info("an event for Flower is lost: %s", failure)

    def _send(self, events: list[TaskEvent]) -> None:
        app = self._dispatch.publisher.app
        with (
            app.connection_for_write() as connection,
            app.events.Dispatcher(
                connection, hostname=self._worker, buffer_while_offline=False
            ) as dispatcher,
        ):
            for kind, fields in events:
                dispatcher.send(kind, **fields)


def _began(lease: Lease) -> list[TaskEvent]:
    fields = {"uuid": lease.key, "args": shown_arguments(lease.key), "kwargs": "", "retries": 0}
    name = f"{lease.record.machine}.{lease.name}"
    return [("task-received", {**fields, "name": name}), ("task-started", {"uuid": lease.key})]


def _ended(dispatch: Dispatch, lease: Lease, runtime_s: float) -> list[TaskEvent]:
    """Return the event of an end: the last transition that the lease's holder fired, if it is one.

    Otherwise the lease was lost, or somebody else ended the effect.
    """
    machine = dispatch.lifecycle.machine(lease.record.machine)
    event = next(_fired(dispatch, lease), None)
    modes = {
        row.mode
        for row in machine.transitions
        if event and (row.source, row.trigger) == (event.source, event.trigger)
        if row.target == event.target
    }
    if event is None or modes & {Mode.CARRY, Mode.INTERNAL}:
        return [("task-revoked", {"uuid": lease.key, "terminated": True})]
    line = f"{event.trigger} -> {event.target}"
    active = (stage for stage in machine.stages if isinstance(stage, Active))
    owing = (stage for stage in active if stage.effect and stage.effect.name == lease.name)
    if not any(stage.is_failure(event.trigger) for stage in owing):
        fields = {"result": repr(line), "runtime": runtime_s}
        return [("task-succeeded", {"uuid": lease.key, **fields})]
    reasons = (event.cause.reason, event.payload.get("reason"), event.payload.get("detail"))
    reason = next((f": {text}" for text in reasons if text), "")
    exception = repr(f"{line}{reason}"[:REASON_LENGTH_MAX])
    return [("task-failed", {"uuid": lease.key, "exception": exception, "traceback": ""})]


def _fired(dispatch: Dispatch, lease: Lease) -> Iterator[Event]:
    """Yield the transitions that the holder of a lease fired, the last first."""
    for line in dispatch.views.backwards(lease.record.id, LINES_MAX):
        if isinstance(line, Event) and line.op_id.startswith(f"{lease.token}:"):
            yield line
