"""Kombu's Redis transport with eleven changes.

It makes one client per pool instead of one per message. It names its version to the server without
looking it up for each connection. It takes several messages at once. An item in a list that is not
a message is rejected; in kombu's own transport it ends the worker. A consumer that acknowledges
loses no message: kombu takes one out of its list first and writes its receipt afterwards, so that a
kill between the two loses it. A server that refuses to write is logged once; kombu logs a traceback
every second. A producer whose channel was closed after a refusal opens another one; kombu fails
once. The messages of a queue that is declared are not counted; kombu reads the lengths of its ten
lists, for each of the forty queues that a worker declares. A worker binds these queues in one step;
kombu takes one for each. The names of the lists that a worker polls are made and encoded once;
kombu does both before each poll. Each message says when it was sent, so that the age of the oldest
one in a queue can be shown.
"""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty
from typing import Any, TypeVar
from uuid import uuid4

from kombu import Queue
from kombu.connection import resolve_aliases
from kombu.transport import TRANSPORT_ALIASES, virtual
from kombu.transport import redis as kombu_redis
from kombu.transport.virtual.base import queue_declare_ok_t
from kombu.utils.encoding import bytes_to_str
from redis.exceptions import ResponseError

from interlock.kernel.store.connect import DRIVER
from interlock.workers.engine.refusals import Repeated

log = logging.getLogger(__name__)
Name = TypeVar("Name", str, bytes)

# The name of this transport. Kombu's `redis` stays what it is, because a producer's program may use
# it beside a client of ours. Kombu shows the addresses of both as redis://, which Flower reads.
TRANSPORT = "interlock"
TRANSPORT_ALIASES[TRANSPORT] = f"{__name__}:Transport"
resolve_aliases[TRANSPORT] = "redis"
# How many messages one call takes at most, so that no worker takes all of a short list.
BATCH_MAX = 8
# The shortest time to wait for a message: 0 would be for ever.
NO_WAIT_S = 0.001
# The errors that kombu and Celery raise on a message of the wrong shape.
SHAPE_ERRORS = (TypeError, ValueError, LookupError, AttributeError, RecursionError)
# KEYS: the receipts, their index by time, the lists in the order in which they are read.
# ARGV: the delivery tag of the receipt, the time. Returns: the list and the message, or nothing.
TAKE = """
for i = 3, #KEYS do
    local item = redis.call('LINDEX', KEYS[i], -1)
    if item then
        redis.call('HSET', KEYS[1], ARGV[1], cmsgpack.pack({KEYS[i], item}))
        redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
        redis.call('RPOP', KEYS[i])
        return {KEYS[i], item}
    end
end
return false
"""
# KEYS: the receipts, their index. ARGV: a delivery tag, RPUSH (it is read next) or LPUSH (last).
RESTORE = """
local receipt = redis.call('HGET', KEYS[1], ARGV[1])
if receipt then
    local key, item = unpack(cmsgpack.unpack(receipt))
    redis.call(ARGV[2], key, item)
    redis.call('HDEL', KEYS[1], ARGV[1])
end
redis.call('ZREM', KEYS[2], ARGV[1])
"""


class QoS(kombu_redis.QoS):
    """Kombu's acknowledgements, over receipts that the step which takes a message has written."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._restoring = Repeated("the broker", (ResponseError,))

    def restore_visible(self, **options: Any) -> None:
        """Put messages back whose receipts are old; kombu repeats this every second."""
        self._restoring(partial(super().restore_visible, **options))

    def append(self, message: Any, delivery_tag: str) -> None:
        """Remember a message that was delivered; its receipt exists already."""
        super(kombu_redis.QoS, self).append(message, delivery_tag)

    def restore_by_tag(self, tag: str, client: Any = None, leftmost: bool = False) -> None:  # noqa: FBT001, FBT002 - kombu's signature
        """Put a message back into its list, to be read next, or last with `leftmost`."""
        keys = (self.unacked_key, self.unacked_index_key)
        with self.channel.conn_or_acquire(client) as connected:
            connected.eval(RESTORE, len(keys), *keys, tag, "LPUSH" if leftmost else "RPUSH")


class QoSWithoutReceipts(virtual.QoS):
    """Kombu's acknowledgements of messages whose loss a sweep finds, such as those of effects."""

    def restore_unacked(self) -> list[tuple[BaseException, Any]]:
        """Give back what was not acknowledged. What the broker does not take is only logged.

        Kombu would write it to a file in the folder of temporary files, which nobody reads.
        """
        if lost := super().restore_unacked():
            log.warning(
                "%s messages could not be given back to the broker (%s): a sweep publishes what is"
                " still owed again",
                len(lost),
                lost[0][0],
            )
        return []


class Channel(kombu_redis.Channel):
    """Keeps one client per pool; kombu makes one per message, which costs a fifth of its time."""

    QoS = QoS
    _polled: Sequence[str] = ()
    _took_one = False
    _pooled_client: Any = None
    _client_pool: Any = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if not self.ack_emulation:
            self.QoS = QoSWithoutReceipts
        self._refreshing = Repeated("the broker", (ResponseError,))
        self._lists: dict[str, Sequence[str]] = {}
        self._encoded_lists: dict[str, Sequence[bytes]] = {}
        self._bound: set[tuple[str, str, str]] = set()

    def maybe_refresh_binding_expiry(self) -> None:
        """Keep the bindings of this process's own queue alive; kombu repeats this every second."""
        self._refreshing(super().maybe_refresh_binding_expiry)

    def _create_client(self, asynchronous: bool = False) -> Any:  # noqa: FBT001, FBT002 - kombu's signature
        if self.connection is None:
            # Kombu opens another channel for this error; a closed one raises AttributeError.
            raise ConnectionError("the channel is closed")
        if asynchronous:
            return super()._create_client(asynchronous=True)
        # A fork or a reconnection replaces the pool, and then the client is replaced too.
        if self._pooled_client is None or self._client_pool is not self.pool:
            self._pooled_client, self._client_pool = super()._create_client(), self.pool
        return self._pooled_client

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002 - kombu's signature
        return {**super()._connparams(asynchronous), "driver_info": DRIVER}

    def queue_declare(self, queue: Any = None, passive: bool = False, **options: Any) -> Any:  # noqa: FBT001, FBT002 - kombu's signature
        """Declare a queue. Only `passive`, which asks about one, counts its messages."""
        if passive or not queue:
            return super().queue_declare(queue, passive, **options)
        self._new_queue(queue, **options)
        return queue_declare_ok_t(queue, 0, 0)

    def bind_queues(self, queues: Iterable[Queue]) -> None:
        """Bind queues that do not expire, in one step. Declaring one later binds nothing."""
        bindings = [(queue.exchange.name, queue.routing_key, queue.name) for queue in queues]
        with self._create_client().pipeline() as pipe:
            for exchange, routing_key, name in bindings:
                binding = self.sep.join((routing_key, "", name))
                pipe.sadd(self.keyprefix_queue % exchange, binding)
                pipe.sadd(self.keyprefix_binding_permanent % exchange, binding)
            pipe.execute()
        self._bound.update(bindings)

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        if (exchange, routing_key, queue) not in self._bound:
            super()._queue_bind(exchange, routing_key, pattern, queue)

    def prepare_message(self, *args: Any, **options: Any) -> dict[str, Any]:
        """Return a message, with the AMQP property `timestamp`: when it was sent, in seconds."""
        message: dict[str, Any] = super().prepare_message(*args, **options)
        message["properties"].setdefault("timestamp", int(time.time()))
        return message

    def oldest_sent_s(self, queues: Iterable[str]) -> dict[str, int]:
        """Return when the oldest message of each queue was sent, if it says that, in seconds."""
        keys = {self._q_for_pri(q, priority): q for q in queues for priority in self.priority_steps}
        pipe = self._create_client().pipeline(transaction=False)
        for key in keys:
            # The users `producer` and `operator` of deploy/users.acl may do this, and no LINDEX.
            pipe.lrange(key, -1, -1)
        sent: dict[str, int] = {}
        for queue, items in zip(keys.values(), pipe.execute(), strict=True):
            with suppress(*SHAPE_ERRORS):
                sent_s = int(json.loads(items[0])["properties"]["timestamp"])
                sent[queue] = min(sent_s, sent.get(queue, sent_s))
        return sent

    def _brpop_start(self, timeout: float | None = None) -> None:
        """Wait for messages, and take as many as the prefetch count allows; kombu takes one."""
        queues = self._queue_cycle.consume(len(self.active_queues))
        if not queues:
            return
        wait_s = timeout or self.brpop_timeout or 0
        connection = self._in_poll = self.client.connection
        self._brpop_sent_at = time.monotonic()
        if self.ack_emulation:
            self._polled = by_priority([self._lists_of(queue) for queue in queues])
            # This moves a message to where it was, so it only waits until there is one. It watches
            # one list of those that are read then, so it does not wait while they have messages.
            wait_s = NO_WAIT_S if self._took_one else wait_s
            watched = self._polled[0]
            connection.send_command("BLMOVE", watched, watched, "RIGHT", "RIGHT", wait_s)
        else:
            # The library would encode four hundred names for each poll, which takes ten times as
            # long as to join them.
            names = by_priority([self._encoded_lists_of(queue) for queue in queues])
            before = [encoded(word) for word in ("BLMPOP", wait_s, len(names))]
            after = [encoded(word) for word in ("RIGHT", "COUNT", self._messages_max())]
            words = [*before, *names, *after]
            connection.send_packed_command([b"*%d\r\n%b" % (len(words), b"".join(words))])

    def _lists_of(self, queue: str) -> Sequence[str]:
        """Return the names of a queue's lists, by priority. They are made once."""
        if (lists := self._lists.get(queue)) is None:
            lists = [self._q_for_pri(queue, priority) for priority in self.priority_steps]
            self._lists[queue] = lists
        return lists

    def _encoded_lists_of(self, queue: str) -> Sequence[bytes]:
        """Return the names of a queue's lists as bytes of a command. They are encoded once."""
        if (lists := self._encoded_lists.get(queue)) is None:
            lists = self._encoded_lists[queue] = [encoded(name) for name in self._lists_of(queue)]
        return lists

    def _messages_max(self) -> int:
        free = self.qos.can_consume_max_estimate()
        return BATCH_MAX if free is None else max(1, min(free, BATCH_MAX))

    def _brpop_read(self, **options: Any) -> bool:
        try:
            reply = self.client.parse_response(self.client.connection, "BLMPOP", **options)
            tag = str(uuid4()) if self.ack_emulation else ""
            popped = self._take(tag) if tag else reply
            self._took_one = bool(popped)
        except self.connection_errors:
            # The next poll then connects again.
            self.client.connection.disconnect()
            raise
        finally:
            self._in_poll = None
            self._flush_brpop_reauth()
        if not popped:
            raise Empty
        name = bytes_to_str(popped[0])
        queue = name.rsplit(self.sep, 1)[0]
        self._queue_cycle.rotate(queue)
        waiting = deque([popped[1]] if tag else popped[1])
        try:
            while waiting:
                self._deliver_item(waiting.popleft(), queue, tag)
        finally:
            if waiting:
                # One delivery failed; the messages behind it go back in their order.
                with suppress(*self.connection_errors):
                    self._create_client().rpush(name, *reversed(waiting))
        return True

    def _take(self, tag: str) -> Any:
        """Move the next message into the receipts in one step; return its list and the message."""
        keys = (self.unacked_key, self.unacked_index_key, *self._polled)
        return self._create_client().eval(TAKE, len(keys), *keys, tag, time.time())

    def _deliver_item(self, item: bytes, queue: str, tag: str) -> None:
        try:
            message = json.loads(item)
        except SHAPE_ERRORS as refusal:
            kept = self.connection.reject_item("no message", str(refusal), repr(item))
        else:
            if tag and is_message(message):
                message["properties"]["delivery_tag"] = tag
            kept = self.connection._deliver(message, queue)  # noqa: SLF001 - as kombu's own channel
            if kept is None:
                return
        if not tag:
            if not kept:
                log.warning("an item of %s that is no message is lost: %r", queue, item)
        elif kept:
            self.qos.ack(tag)
        # Otherwise the item is read again when its receipt is old.


class Transport(kombu_redis.Transport):
    """Kombu's Redis transport with the channel above; a consumer may set `on_rejected`."""

    Channel = Channel
    on_rejected: Callable[[str, str, str], bool] | None = None

    def reject_item(self, kind: str, reason: str, item: str) -> bool:
        """Log an item that is not a message; return what the consumer's callback says of it.

        False: it could not be kept.
        """
        log.warning("%s: %s", kind, reason)
        return self.on_rejected is None or self.on_rejected(kind, reason, item)

    def _deliver(self, message: Any, queue: str) -> bool | None:
        """Give a message to its consumer.

        If kombu cannot make a message of it, return whether it was kept as rejected.
        """
        if not is_message(message):
            reason = f"an item of {queue} is no message"
            return self.reject_item("no message", reason, repr(message))
        try:
            super()._deliver(message, queue)
        except SHAPE_ERRORS as refusal:
            reason = f"{type(refusal).__name__}: {refusal}"
            return self.reject_item("no message", reason, repr(message))
        return None


def by_priority(lists: Iterable[Sequence[Name]]) -> list[Name]:
    """Return the lists of all queues in the order in which they are read."""
    return [name for of_one_priority in zip(*lists, strict=True) for name in of_one_priority]


def encoded(word: str | float) -> bytes:
    """Return a word of a command in the form in which the server reads it."""
    word_bytes = str(word).encode()
    return b"$%d\r\n%b\r\n" % (len(word_bytes), word_bytes)


def is_message(item: Any) -> bool:
    """Whether kombu can make a message of this item."""
    if not (isinstance(item, Mapping) and isinstance(item.get("body", ""), str)):
        return False
    properties, headers = item.get("properties"), item.get("headers", {})
    if not (isinstance(properties, Mapping) and isinstance(headers, Mapping)):
        return False
    info = properties.get("delivery_info", {})
    return isinstance(properties.get("delivery_tag"), str) and isinstance(info, Mapping)
