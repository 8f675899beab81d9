"""Publishes the messages of effects to the broker, and counts those that wait there."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection, Mapping, Sequence

from celery import Celery
from kombu.exceptions import OperationalError

from interlock.kernel.effect import Effect
from interlock.kernel.machine import Machine
from interlock.kernel.machines import effect_queue
from interlock.kernel.store.commands import EffectMessage
from interlock.workers.config import Settings
from interlock.workers.engine.celery_app import (
    SWEEPS_QUEUE,
    broker_priority,
    count_messages,
    effect_queues,
    host_queue,
    make_app,
    oldest_sent_s,
    queue_of,
)
from interlock.workers.engine.messages import MessageTemplates, trace_headers
from interlock.workers.engine.trace_context import sent_traceparent

log = logging.getLogger(__name__)

SHOWN_MAX = 120
QUEUE_LENGTH_AGE_S = 1.0


class Publisher:
    """The connection of one process to the broker."""

    def __init__(self, settings: Settings, app: Celery, machines: Mapping[str, Machine]) -> None:
        self.settings, self.app, self.machines = settings, app, machines
        self.templates = MessageTemplates(app)
        self._queue_lengths: dict[str, tuple[float, int]] = {}

    def render(self, message: EffectMessage) -> tuple[str, bytes]:
        """Return the Redis list of an effect's message, and the message for a commit to push."""
        task, queue, priority, shown = self._address(message)
        traceparent = sent_traceparent(self.settings)
        return self.templates.render(task, queue, priority, message.key, shown, traceparent)

    def queue_length(self, name: str) -> int:
        """Return how many messages are in an effect's queue, as `queue_lengths` does."""
        return self.queue_lengths([name])[name]

    def queue_lengths(self, names: Collection[str]) -> dict[str, int]:
        """Return how many messages are in the queues of effects, as of at most a second ago.

        0 if the broker does not answer.
        """
        now, never = time.monotonic(), (-math.inf, 0)
        old = {
            queue_of(self.settings, name): name
            for name in names
            if now - self._queue_lengths.get(name, never)[0] > QUEUE_LENGTH_AGE_S
        }
        if old:
            counts = count_messages(self.app, old)
            now = time.monotonic()
            self._queue_lengths |= {old[queue]: (now, count) for queue, count in counts.items()}
        return {name: self._queue_lengths[name][1] for name in names}

    def oldest_sent_s(self, names: Collection[str]) -> dict[str, int]:
        """Return when the oldest message of each of these queues was sent, as far as is known."""
        queues = {queue_of(self.settings, name): name for name in names}
        found = oldest_sent_s(self.app, queues) if queues else {}
        return {queues[queue]: at for queue, at in found.items()}

    def publish(self, messages: Sequence[EffectMessage]) -> int:
        """Publish messages and return how many the broker took; a sweep repeats the others."""
        published = 0
        for message in messages:
            task, queue, priority, shown = self._address(message)
            try:
                self._send(task, queue, priority, message.key, shown)
            except OperationalError as refusal:
                log.warning(
                    "the broker did not take %s: %s; a sweep will repeat it", message.key, refusal
                )
                continue
            published += 1
        return published

    def publish_to_host(self, message: EffectMessage, host: str) -> None:
        """Publish a message to the workers of one host. Raises OperationalError if it cannot."""
        task, _, priority, shown = self._address(message)
        self._send(task, host_queue(self.settings, host), priority, message.key, shown)

    def _send(self, task: str, queue: str, priority: int, key: str, shown: str) -> None:
        self.app.send_task(
            task,
            args=[key],
            task_id=key,
            queue=queue,
            priority=priority,
            headers=trace_headers(sent_traceparent(self.settings)),
            argsrepr=shown,
            kwargsrepr="",
            ignore_result=True,
        )

    def queue(self, message: EffectMessage) -> str:
        """Return the name of the queue of an effect, without the namespace."""
        if message.queue:
            return message.queue
        machine = self.machines.get(message.machine)
        effects = machine.effects if machine else {}
        # A process that does not know the machine supposes that the effect names no queue.
        return effect_queue(message.machine, effects.get(message.name) or Effect(message.name))

    def _address(self, message: EffectMessage) -> tuple[str, str, int, str]:
        task = f"{message.machine}.{message.name}"
        queue = queue_of(self.settings, self.queue(message))
        priority = broker_priority(self.settings, message.priority)
        return task, queue, priority, shown_arguments(message.key)


def shown_arguments(key: str) -> str:
    """Return what Flower shows as the arguments of an effect: its record, and its version."""
    record_id, _, suffix = key.partition(":")
    return f"{record_id} v{suffix.partition('.')[0]}"[:SHOWN_MAX]


def open_publisher(settings: Settings, machines: Mapping[str, Machine]) -> Publisher:
    """Return the publisher of a process that is no worker: a client's or a supervisor's."""
    queues = effect_queues(machines.values(), SWEEPS_QUEUE)
    return Publisher(settings, make_app(settings, queues), machines)
