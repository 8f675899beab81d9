"""Receives plain Celery messages from producers that do not import Interlock, and acts on them.

Start it with `celery -A interlock.workers.intake worker`. The message of an effect can be written
again from the store; a message here is the only copy of its request. So it is moved from the queue
to the receipts in one step, and its receipt is removed only after it has taken effect; the messages
of a dead intake are read again. That needs acknowledgements, which effects do not use, and
therefore an app of its own.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from celery import Celery
from celery.app.task import Context, Task
from celery.exceptions import Reject
from celery.signals import worker_init, worker_shutting_down
from kombu.exceptions import OperationalError

from interlock.kernel.errors import (
    AnotherVersionError,
    CallError,
    HeldError,
    KernelError,
)
from interlock.workers.client import Client
from interlock.workers.config import Settings
from interlock.workers.engine.celery_app import INTAKE_QUEUE, make_app, queue_of
from interlock.workers.engine.entry import start
from interlock.workers.engine.liveness import write_liveness_file
from interlock.workers.engine.log_lines import set_up_log
from interlock.workers.engine.presence import Presence
from interlock.workers.engine.trace_context import start_traces
from interlock.workers.engine.tracing import traced_message
from interlock.workers.producer_message import (
    TEMPORARY_ERRORS,
    check_accepted,
    one_line,
    receive,
    refused,
    verbs,
)

log = logging.getLogger(__name__)

VISIBILITY_S = 60  # after so long without an acknowledgement a message is read again
AMQP_BYTES_MAX = 255  # of a name or a correlation id
HELD_S = 5.0  # after so long a message is read again that could not be taken
# What a broker says of a queue to which it will never take a message: another type, or no right.
NEVER_TAKEN = ("WRONGTYPE", "NOPERM", "ACCESS_REFUSED", "NOT_ALLOWED")


def assemble(settings: Settings) -> Celery:
    """Return the app with a task for each kind of message, such as `interlock.submit`."""
    celery_app = make_app(settings.model_copy(update={"ack_emulation": True}), (INTAKE_QUEUE,))
    options = {**celery_app.conf.broker_transport_options, "visibility_timeout": VISIBILITY_S}
    celery_app.conf.update(broker_transport_options=options)
    client = Client(settings, actor="intake")
    celery_app.dispatch = client.dispatch
    celery_app.answer_rejected = partial(_answer_rejected, celery_app, client)
    check_accepted(settings)
    presence = Presence(client.dispatch)

    @worker_init.connect(weak=False)
    def check(**_: object) -> None:
        presence.begin_anyway("intake", f"intake@{settings.host}")

    @worker_shutting_down.connect(weak=False)
    def shut_down(**_: object) -> None:
        presence.end()

    for verb in verbs():
        _register(celery_app, client, verb)
    write_liveness_file(celery_app, settings.alive)
    set_up_log(settings.log_format)
    start_traces(settings, "intake")
    if settings.metrics_address is not None:
        # Few set it, and without it the process starts a tenth of a second sooner.
        from interlock.workers.ops.process_metrics import serve_metrics_of  # noqa: PLC0415

        serve_metrics_of(celery_app, settings, client.dispatch.call_times)
    return celery_app


def _register(app: Celery, client: Client, verb: str) -> None:
    def task(self: Task, *args: Any, **kwargs: Any) -> str:
        try:
            with traced_message(f"intake.{verb}", _text(self.request, "traceparent")):
                answer = receive(client, verb, args, kwargs, reads_before=self.request.retries or 0)
            _answer(app, client, str(self.request.reply_to or ""), self.request.id, answer)
        except TEMPORARY_ERRORS as refusal:
            # Not acknowledged: the broker delivers the same message again.
            log.warning("intake waits for the store or the broker: %s", refusal)
            raise Reject(str(refusal), requeue=True) from refusal
        except (AnotherVersionError, HeldError, CallError) as refusal:  # CallError: an early call
            raise _later(self, client.settings, refusal) from refusal
        return one_line(answer)

    app.task(
        task,
        name=f"interlock.{verb}",
        bind=True,
        max_retries=None,
        acks_late=True,
        reject_on_worker_lost=True,
        ignore_result=True,
        shared=False,
    )


def _later(task: Task, settings: Settings, refusal: KernelError) -> Exception:
    """Send the message again, to be read later; return what tells Celery so."""
    # A producer writes the message, so the queue that the message names may be any other.
    queue = queue_of(settings, INTAKE_QUEUE)
    try:
        later: Exception = task.retry(exc=refusal, countdown=HELD_S, throw=False, queue=queue)
    except Reject as failure:
        # The broker did not take it, so the message that was received stays.
        later = Reject(str(failure), requeue=True)
    return later


def _answer_rejected(app: Celery, client: Client, message: Any, reason: str) -> bool:
    """Answer a message that is rejected before a task of ours reads it.

    Its request is not read, so that the answer has no id of it. Return whether the answer is sent,
    or need not be.
    """
    named = _text(message.headers, "id") or _text(message.properties, "correlation_id")
    queue, answer = _text(message.properties, "reply_to"), refused(CallError(reason))
    try:
        _answer(app, client, queue, named, answer)
    except TEMPORARY_ERRORS as refusal:
        log.warning("an answer to a producer waits for the store or the broker: %s", refusal)
        return False
    return True


def _text(fields: Any, name: str) -> str:
    """Return a text of a message that may have any form, or ''; AMQP takes no longer one."""
    value = fields.get(name) if isinstance(fields, (Mapping, Context)) else None
    fits = isinstance(value, str) and len(value.encode(errors="replace")) <= AMQP_BYTES_MAX
    return str(value) if fits else ""


def _answer(
    app: Celery, client: Client, queue: str, correlation_id: str, answer: Mapping[str, Any]
) -> None:
    """Send the answer to a message; keep one that the broker will never take for its producer.

    The message has taken effect or is rejected: to read it again would help nobody.
    """
    try:
        _send(app, client.settings, queue, correlation_id, answer)
    except OperationalError as refusal:
        if not any(word in str(refusal) for word in NEVER_TAKEN):
            raise
        log.warning("an answer to a producer cannot be sent: %s", refusal)
        client.dispatch.rejected.put("answer not taken", str(refusal), dict(answer))


def _send(
    app: Celery, settings: Settings, queue: str, correlation_id: str, answer: Mapping[str, Any]
) -> None:
    """Send the answer to a message to the queue that its producer named, if there is one.

    Celery names a queue in every message, so only one of the queues for answers counts. Others
    could be lists that nobody reads, or keys of the store. Raises OperationalError.
    """
    # AMQP takes no name of more than AMQP_BYTES_MAX.
    allowed = re.escape(queue_of(settings, "answers.")) + r"[A-Za-z0-9_.-]{1,100}"
    if not re.fullmatch(allowed, queue):
        return
    with app.producer_or_acquire() as producer:
        producer.publish(
            dict(answer),
            exchange="",
            routing_key=queue,
            serializer="json",
            correlation_id=correlation_id,
            retry=True,
            retry_policy=app.conf.task_publish_retry_policy,
        )


app = start(assemble)
