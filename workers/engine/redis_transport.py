"""Kombu's Redis transport with four changes.

It makes one client per pool instead of one per message. It can render a message without sending it.
It takes several messages at once. An item in a list that is not a message is rejected; in kombu's
own transport it ends the worker.
"""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty
from typing import Any

from kombu.connection import resolve_aliases
from kombu.transport import TRANSPORT_ALIASES
from kombu.transport import redis as kombu_redis
from kombu.utils.encoding import bytes_to_str

log = logging.getLogger(__name__)

# The name of this transport. Kombu's `redis` stays what it is, because a producer's program may use
# it beside a client of ours. Kombu shows the addresses of both as redis://, which Flower reads.
TRANSPORT = "interlock"
TRANSPORT_ALIASES[TRANSPORT] = f"{__name__}:Transport"
resolve_aliases[TRANSPORT] = "redis"
# How many messages one call takes at most, so that no worker takes all of a short list.
BATCH_MAX = 8
# The errors that kombu and Celery raise on a message of the wrong shape.
SHAPE_ERRORS = (TypeError, ValueError, LookupError, AttributeError, RecursionError)


class PublishBatch:
    """Follows kombu's protocol for publish batches, but keeps the commands instead of sending."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.commands: list[tuple[str, tuple[Any, ...]]] = []

    def publish(self, message: Any, **options: Any) -> Any:
        """Route a prepared message, and keep the commands that would send it."""
        return self.channel.basic_publish(message, _publish_batch=self, **options)

    def add(self, name: str, *args: Any) -> None:
        """Take one command from the channel."""
        self.commands.append((name, args))

    def flush(self) -> None:
        """Send nothing."""

    def discard(self) -> None:
        """Forget the commands."""
        self.commands.clear()

    def close(self) -> None:
        """Release nothing, because nothing is held."""


class Channel(kombu_redis.Channel):
    """Keeps one client per pool; kombu makes one per message, which costs a fifth of its time."""

    rendering: PublishBatch | None = None
    _pooled_client: Any = None
    _client_pool: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:  # noqa: FBT001, FBT002 - kombu's signature
        if asynchronous:
            return super()._create_client(asynchronous=True)
        # A fork or a reconnection replaces the pool, and then the client is replaced too.
        if self._pooled_client is None or self._client_pool is not self.pool:
            self._pooled_client, self._client_pool = super()._create_client(), self.pool
        return self._pooled_client

    def create_publish_batch(self, max_size: int) -> Any:
        """Return the batch in `rendering` if there is one, else a batch of kombu."""
        return self.rendering or super().create_publish_batch(max_size)

    def _brpop_start(self, timeout: float | None = None) -> None:
        """Ask for as many messages as the prefetch count allows; kombu asks for one at a time."""
        queues = self._queue_cycle.consume(len(self.active_queues))
        if not queues:
            return
        steps = self.priority_steps
        keys = [self.global_keyprefix + self._q_for_pri(q, p) for p in steps for q in queues]
        wait_s = timeout or self.brpop_timeout or 0
        self._in_poll = self.client.connection
        self._brpop_sent_at = time.monotonic()
        command = ("BLMPOP", wait_s, len(keys), *keys, "RIGHT", "COUNT", self._messages_max())
        self.client.connection.send_command(*command)

    def _messages_max(self) -> int:
        if self.ack_emulation:
            return 1  # a crash loses popped messages that have no receipt yet: never more than one
        free = self.qos.can_consume_max_estimate()
        return BATCH_MAX if free is None else max(1, min(free, BATCH_MAX))

    def _brpop_read(self, **options: Any) -> bool:
        try:
            popped = self.client.parse_response(self.client.connection, "BLMPOP", **options)
        except self.connection_errors:
            # The next poll then connects again.
            self.client.connection.disconnect()
            raise
        finally:
            self._in_poll = None
            self._flush_brpop_reauth()
        if not popped:
            raise Empty
        name = bytes_to_str(popped[0]).removeprefix(self.global_keyprefix)
        queue = name.rsplit(self.sep, 1)[0]
        self._queue_cycle.rotate(queue)
        waiting = deque(popped[1])
        try:
            while waiting:
                self._deliver_item(waiting.popleft(), queue)
        finally:
            if waiting:
                # One delivery failed; the messages behind it go back in their order.
                with suppress(*self.connection_errors):
                    self._create_client().rpush(name, *reversed(waiting))
        return True

    def _deliver_item(self, item: bytes, queue: str) -> None:
        try:
            message = json.loads(item)
        except SHAPE_ERRORS as refusal:
            self.connection.reject_item("no message", str(refusal), repr(item))
            return
        self.connection._deliver(message, queue)  # noqa: SLF001 - as kombu's own channel does


class Transport(kombu_redis.Transport):
    """Kombu's Redis transport with the channel above; a consumer may set `on_rejected`."""

    Channel = Channel
    on_rejected: Callable[[str, str, str], object] | None = None

    def reject_item(self, kind: str, reason: str, item: str) -> None:
        """Log an item that is not a message, and pass it to the consumer's callback."""
        log.warning("%s: %s", kind, reason)
        if self.on_rejected is not None:
            self.on_rejected(kind, reason, item)

    def _deliver(self, message: Any, queue: str) -> None:
        if not is_message(message):
            self.reject_item("no message", f"an item of {queue} is no message", repr(message))
            return
        try:
            super()._deliver(message, queue)
        except SHAPE_ERRORS as refusal:
            # Kombu cannot make a message of it, so there is nothing to acknowledge.
            self.reject_item("no message", f"{type(refusal).__name__}: {refusal}", repr(message))


def is_message(item: Any) -> bool:
    """Whether kombu can make a message of this item."""
    if not (isinstance(item, Mapping) and isinstance(item.get("body", ""), str)):
        return False
    properties, headers = item.get("properties"), item.get("headers", {})
    if not (isinstance(properties, Mapping) and isinstance(headers, Mapping)):
        return False
    info = properties.get("delivery_info", {})
    return isinstance(properties.get("delivery_tag"), str) and isinstance(info, Mapping)
