"""Lets the threads of a worker go on with effects that have no message, as tasks of Celery.

To Celery such an effect is a task that was received and is performed in the thread that would be
free now: with its own id, events, signals and lines of the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from celery.concurrency.base import BasePool, apply_target
from celery.concurrency.thread import TaskPool as Threads
from celery.utils.functional import noop

from interlock.kernel.record import PRIORITY_LAST
from interlock.kernel.store.leases import Lease
from interlock.workers.engine.celery_app import broker_priority
from interlock.workers.engine.continuing import Continuing
from interlock.workers.engine.publisher import shown_arguments

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Unsent:
    """What Celery reads of a message, of one that was never sent."""

    headers: Mapping[str, Any]
    properties: Mapping[str, Any]
    body: Sequence[Any]
    delivery_info: Mapping[str, Any]
    content_type: str = ""
    content_encoding: str = ""

    @property
    def payload(self) -> Sequence[Any]:
        """The body, as it is read."""
        return self.body


class ThisThread(BasePool):
    """A pool that performs a task in the thread that gives it the task."""

    on_apply = staticmethod(apply_target)


def continue_in(continuing: Continuing, consumer: Any) -> ContinuingThreads | None:
    """Let the pool of a worker go on, if it has threads. Other pools perform effects elsewhere."""
    is_threads = isinstance(consumer.pool, Threads)
    return ContinuingThreads(consumer, continuing) if is_threads else None


class ContinuingThreads:
    """The pool of a worker whose threads go on. It takes the place of the pool's own function."""

    def __init__(self, consumer: Any, continuing: Continuing) -> None:
        self._consumer, self._continuing = consumer, continuing
        self._strategies: Mapping[str, Callable[..., object]] = {}
        self._submit = consumer.pool.on_apply
        consumer.pool.on_apply = self._apply

    def update_strategies(self) -> None:
        """Learn from the consumer how tasks are received: with each connection to the broker."""
        here = copy(self._consumer)
        here.pool = ThisThread(app=here.app)
        here.on_task_request = lambda request: request.execute_using_pool(here.pool)
        self._strategies = {
            name: here.app.tasks[name].start_strategy(here.app, here)
            for name in self._consumer.strategies
        }

    def _apply(
        self,
        target: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        callback: Callable[..., Any],
        accept_callback: Callable[..., Any],
        **_options: Any,
    ) -> Any:
        priority = self._priority(args[2]["delivery_info"]["priority"])
        self._continuing.wait(priority)
        task = (target, args, kwargs, callback, accept_callback)
        return self._submit(self._perform, (priority, task), callback=noop)

    def _priority(self, sent: object) -> int:
        """Return the priority of a record by that of a message, which any program may have sent."""
        known = sent if isinstance(sent, int) and 0 <= sent <= PRIORITY_LAST else 0
        return broker_priority(self._continuing.settings, known)

    def _perform(self, priority: int, task: Sequence[Any]) -> None:
        with self._continuing.stretch(priority) as stretch:
            apply_target(*task)
            while granted := stretch.granted:
                stretch.effects += 1
                self._go_on(granted.lease)
                if stretch.granted is granted:
                    log.error(
                        "%s was not performed; it begins again after its lease", granted.lease.key
                    )
                    break

    def _go_on(self, lease: Lease) -> None:
        app, key = self._consumer.app, lease.key
        task = f"{lease.record.machine}.{lease.name}"
        sent = app.amqp.as_task_v2(
            key,
            task,
            args=[key],
            kwargs={},
            argsrepr=shown_arguments(key),
            kwargsrepr="",
            root_id=key,
            ignore_result=True,
        )
        priority = broker_priority(self._continuing.settings, lease.record.priority)
        queue = self._continuing.queue_name(lease.record.machine, lease.name)
        place = {"exchange": "", "routing_key": queue, "redelivered": False}
        message = Unsent(sent.headers, {**sent.properties, "priority": priority}, sent.body, place)
        self._strategies[task](message, None, noop, noop, None)
