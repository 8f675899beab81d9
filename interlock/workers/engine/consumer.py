"""Celery's consumer, which waits for a broker that refuses it, and keeps rejected messages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import StrEnum, auto
from typing import Any

from celery.worker.consumer import Consumer as CeleryConsumer
from celery.worker.control import Panel, nok
from celery.worker.state import maybe_shutdown
from kombu.exceptions import ContentDisallowed, DecodeError

from interlock.kernel.errors import KernelError, StoreError
from interlock.workers.engine.redis_transport import SHAPE_ERRORS, Transport
from interlock.workers.engine.refusals import refusals_of, repeat_while_refused

log = logging.getLogger(__name__)

LEFT_S = 0.25  # so long this worker keeps a message that only others know
PREFETCH_MAX = 100  # messages that it takes at most while it keeps such ones
GIVE_BACK_S = 5.0  # after so long a rejected message goes back that the store did not take
# Options by which Celery would drop a message, stop its task, or send others with our rights.
HEADER_OPTIONS = ("expires", "timelimit")
BODY_OPTIONS = ("callbacks", "errbacks", "chain", "chord")
# What Celery writes for such an option that was not given.
NOT_GIVEN: tuple[Any, ...] = (None, [], [None, None])
# The headers that Celery reads after it has counted a message as one that this worker works on.
HEADER_TYPES: Mapping[str, type] = {"id": str, "shadow": str, "retries": int}

# What Celery's remote control would do to work in silence: hold messages that a worker has
# received, throw them away, or leave it no thread. `interlock doctor` sees none of it.
COMMANDS_REFUSED = (
    *("rate_limit", "time_limit", "pool_shrink", "autoscale"),
    *("revoke", "revoke_by_stamped_headers", "terminate"),
)


class Meant(StrEnum):
    """Whom a message is for, of a task that this process does not know."""

    NOBODY = auto()  # no record of ours is meant
    PAST = auto()  # the record does not owe it, or not by that name: a sweep sends what it owes
    OTHERS = auto()  # the record owes it, by a table that another process has


def celery_options(message: Any) -> list[str]:
    """Return the names of the options of a message that no task of ours may be given.

    Raises TypeError or ValueError for a task's message of a form that Celery does not check. Celery
    would lose some of them, and wait for ever for the end of others, until it reads no message.
    """
    try:
        headers, body = message.headers or {}, message.payload
    except (ContentDisallowed, DecodeError):
        # Celery's handler reports a body that cannot be read.
        return []
    if "task" in headers:
        args, kwargs, options = body
    elif isinstance(body, Mapping) and "task" in body:
        # The older form of a task's message has all in its body.
        args, kwargs, options, headers = body.get("args", []), body.get("kwargs", {}), body, body
    else:
        # Celery's handler reports a message that is not a task's.
        return []
    parts = zip((args, kwargs, options), (list, Mapping, Mapping), strict=True)
    if not all(isinstance(part, type_) for part, type_ in parts):
        raise TypeError("its body is not [[arguments], {named arguments}, {options}]")
    if "self" in kwargs:
        raise TypeError("a task takes no argument that is named self")
    for name, type_ in HEADER_TYPES.items():
        if not isinstance(value := headers.get(name), type_ | None):
            raise TypeError(f"its header {name} is {value!r}")
    names = [name for name in HEADER_OPTIONS if headers.get(name) not in NOT_GIVEN]
    if headers.get("eta") and not headers.get("retries"):
        # Until that time this worker would hold the message, and one more copy of it whenever the
        # broker delivers it again because it was not acknowledged.
        names.append("eta")
    return names + [name for name in BODY_OPTIONS if options.get(name) not in NOT_GIVEN]


def refuse_command(_state: Any, **_arguments: Any) -> Any:
    """Answer a command of Celery's remote control that would stop work where nobody sees it."""
    return nok(
        "a worker of Interlock takes no command that holds or drops its messages: `interlock pause`"
        " and `interlock cancel` act on records, and the worker's option -c sets its threads"
    )


class Consumer(CeleryConsumer):
    """Waits for a broker that takes no writes; keeps the messages that Celery only logs.

    Where its pool is threads, they go on with the effects that follow from outcomes.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        for name in COMMANDS_REFUSED:
            Panel.data[name] = refuse_command
        super().__init__(*args, **options)
        continue_in = getattr(self.app, "continue_in", None)
        self.threads = continue_in(self) if continue_in is not None else None

    def connect(self) -> Any:
        """Connect, bind the queues, and let the transport pass on items that are not messages."""
        self._wait_for_broker()
        connection = super().connect()
        # Other brokers take nothing but messages, and bind each queue when Celery declares it.
        if isinstance(connection.transport, Transport):
            connection.transport.on_rejected = self._keep
            connection.default_channel.bind_queues(self.app.amqp.queues.consume_from.values())
        return connection

    def _wait_for_broker(self) -> None:
        """Wait until the broker lets this process bind a queue, as consuming begins with that.

        Celery retries at once and without end where the broker answers and refuses.
        """
        errors = (*self.connection_errors, *self.channel_errors)
        repeat_while_refused("the broker", self._bind_queue, errors)

    def _bind_queue(self) -> None:
        maybe_shutdown()
        with self.app.connection_for_read() as connection, connection.channel() as channel:
            self.app.amqp.queues[self.app.conf.task_default_queue](channel).declare()

    def update_strategies(self) -> None:
        """Learn which tasks there are: ours, and not those of Celery, which would run any other."""
        super().update_strategies()
        for name in [name for name in self.strategies if name.startswith("celery.")]:
            del self.strategies[name]
        if self.threads is not None:
            self.threads.update_strategies()

    def create_task_handler(self, *args: Any, **options: Any) -> Callable[[Any], Any]:
        """Return Celery's handler, which here rejects a malformed message instead of raising."""
        handle = super().create_task_handler(*args, **options)

        def on_task_received(message: Any) -> Any:
            try:
                if not (options := celery_options(message)):
                    return handle(message)
                reason = f"send the message without {', '.join(options)}"
                kept = self._reject("refused options", reason, message)
            except SHAPE_ERRORS as refusal:
                reason = f"{type(refusal).__name__}: {refusal}"
                kept = self._reject("wrong shape", reason, message)
            # Without a receipt the broker would restore it, and it would end the next worker.
            if kept and not message.acknowledged:
                message.reject_log_error(log, self.connection_errors)
            return None

        return on_task_received

    def on_decode_error(self, message: Any, exc: Any) -> None:
        """Reject a message that is not JSON."""
        if self._reject("not decodable", exc, message):
            super().on_decode_error(message, exc)

    def on_unknown_message(self, body: Any, message: Any) -> None:
        """Reject a message that is not a task message."""
        if self._reject("no task message", "it does not have a task's form", message):
            super().on_unknown_message(body, message)

    def on_unknown_task(self, body: Any, message: Any, exc: Any) -> None:
        """Reject a task that is not registered in this worker.

        One about an effect that a record owes by another version of its table goes back to its
        queue, for a worker that has that version.
        """
        match self._meant(message):
            case Meant.OTHERS:
                self._leave_to_others(message)
            case Meant.PAST:
                log.info("%s is dropped: no record owes it by that name", message.headers["task"])
                message.ack_log_error(log, self.connection_errors)
            case Meant.NOBODY:
                if self._reject("unknown task", exc, message):
                    super().on_unknown_task(body, message, exc)

    def on_invalid_task(self, body: Any, message: Any, exc: Any) -> None:
        """Reject a task message with a broken header."""
        if self._reject("invalid task", exc, message):
            super().on_invalid_task(body, message, exc)

    def _meant(self, message: Any) -> Meant | None:
        """Return whom a message of an unknown task is for; None: the store does not say."""
        meant = getattr(self.app, "meant", None)
        try:
            name = (message.headers or {}).get("task")
            return Meant.NOBODY if meant is None else Meant(meant(name, message))
        except StoreError as refusal:
            refusals_of("the store").begin(refusal)
            self._give_back_later(message)
            return None

    def _leave_to_others(self, message: Any) -> None:
        """Give a message back in a moment, to be read after the others of its queue.

        Until then it takes no place of a message that this worker could read, unless it has very
        many: then the others read what there is.
        """
        qos = self.qos
        more = int(qos.value < PREFETCH_MAX)
        qos.increment_eventually(more)

        def give_back() -> None:
            qos.decrement_eventually(more)
            message.reject_log_error(log, self.connection_errors, True)  # noqa: FBT003 - Celery's

        self.timer.call_after(LEFT_S, give_back)

    def _reject(self, kind: str, reason: object, message: Any) -> bool:
        """Keep a message and answer it. If either fails, return False and give it back later.

        Until then it takes the place of a message that this worker could read, so that a worker
        does not read the same few messages again and again while the store is away.
        """
        body = bytes(str(message.body), "utf-8", "replace").decode()
        # Only intake answers messages. An answer may be sent twice, but what is kept is counted.
        answer = getattr(self.app, "answer_rejected", None)
        answered = answer is None or answer(message, f"{kind}: {reason}")
        kept = answered and self._keep(kind, str(reason), body)
        if not kept:
            self._give_back_later(message)
        return kept

    def _give_back_later(self, message: Any) -> None:
        if not message.acknowledged:
            give_back = (log, self.connection_errors, True)
            self.timer.call_after(GIVE_BACK_S, message.reject_log_error, give_back)

    def _keep(self, kind: str, reason: str, body: str) -> bool:
        """Keep what is rejected. Return False if the store does not take it."""
        dispatch = getattr(self.app, "dispatch", None)
        if dispatch is None:
            return True
        try:
            dispatch.rejected.put(kind, reason, body)
        except KernelError as refusal:
            refusals_of("the store").begin(refusal)
            return False
        refusals_of("the store").end()
        return True
