"""Receives plain Celery messages from producers that do not import Interlock, and submits them.

Start it with `celery -A interlock.workers.intake worker`. The message of an effect can be written
again from the store; a message here is the only copy of its request. So it is moved from the queue
to the receipts in one step, and its receipt is removed only after its record exists; the messages
of a dead intake are read again. That needs acknowledgements, which effects do not use, and
therefore an app of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from celery import Celery
from celery.exceptions import Reject
from kombu.exceptions import OperationalError
from tenacity import (
    retry,
    retry_if_exception_type,
    stop_after_delay,
    wait_exponential_jitter,
)

from interlock.kernel.errors import CallError, ConflictError, InvalidPayloadError, StoreError
from interlock.workers.client import Client, Submitted
from interlock.workers.config import Settings, read_settings
from interlock.workers.engine.celery_app import INTAKE_QUEUE, make_app
from interlock.workers.engine.liveness import write_liveness_file
from interlock.workers.engine.log_lines import make_log_visible
from interlock.workers.engine.system import load
from interlock.workers.systems import SYSTEMS

log = logging.getLogger(__name__)

FIELDS = frozenset({"id", "machine", "payload", "priority"})
# Errors that are temporary: the message stays in the broker and is delivered again.
TEMPORARY_ERRORS = (StoreError, ConflictError, OperationalError)
PATIENCE_S = 30
VISIBILITY_S = 60  # after so long without an acknowledgement a message is read again
# The function that accepts a message, for machines that need more than a new record.
ACCEPTED_BY = {machine: name for system in SYSTEMS for machine, name in system.submit.items()}


def assemble(settings: Settings) -> Celery:
    """Return the app with its one task, `interlock.submit`."""
    celery_app = make_app(settings.model_copy(update={"ack_emulation": True}), (INTAKE_QUEUE,))
    options = {**celery_app.conf.broker_transport_options, "visibility_timeout": VISIBILITY_S}
    celery_app.conf.update(broker_transport_options=options)
    client = Client(settings, actor="intake")
    celery_app.reject_message = client.dispatch.reject

    def submit(*args: Any, **kwargs: Any) -> str:
        try:
            return receive(client, args, kwargs)
        except TEMPORARY_ERRORS as refusal:
            # Not acknowledged: the broker delivers the same message again.
            log.warning("intake waits for the store: %s", refusal)
            raise Reject(str(refusal), requeue=True) from refusal

    celery_app.task(
        submit,
        name="interlock.submit",
        acks_late=True,
        reject_on_worker_lost=True,
        ignore_result=True,
    )
    write_liveness_file(celery_app, settings.alive)
    make_log_visible()
    return celery_app


@retry(
    retry=retry_if_exception_type(TEMPORARY_ERRORS),
    wait=wait_exponential_jitter(max=5),
    stop=stop_after_delay(PATIENCE_S),
    reraise=True,
)
def receive(client: Client, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Accept one message, or keep it as rejected if it can never be accepted."""
    try:
        return accept(client, only_argument(args, kwargs))
    except CallError as refusal:
        request = args[0] if len(args) == 1 and not kwargs else (args, kwargs)
        client.dispatch.rejected.put("refused at intake", str(refusal), request)
        log.warning("a message is rejected: %s", refusal)
        return f"rejected: {refusal}"
    except TEMPORARY_ERRORS:
        raise
    except Exception as failure:
        # A bug must not lose a producer's message: keep it, then let Celery report the error.
        client.dispatch.reject("failed at intake", repr(failure), (args, kwargs))
        raise


def only_argument(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the request of a message."""
    if kwargs or len(args) != 1:
        raise invalid(
            "the message", "send one positional argument, the request, and no other argument"
        )
    return args[0]


def accept(client: Client, request: Any) -> str:
    """Create the record that a message asks for. A message that comes twice creates one record."""
    if not isinstance(request, Mapping):
        raise invalid("the request", f"it is {type(request).__name__}, not an object")
    if unknown := sorted(set(request) - FIELDS):
        raise invalid("the request", *(f"{name}: no such field" for name in unknown))
    if not isinstance(request.get("id"), str):
        raise invalid(
            "the request",
            "id: it is missing or not text; choose one, as a message can be delivered twice",
        )
    payload = request.get("payload")
    if not isinstance(payload, Mapping):
        raise invalid("the request", "payload: it is missing or not an object")
    machine = request.get("machine", "thread")
    if not isinstance(machine, str):
        raise invalid("the request", f"machine: {machine!r} is not the name of a machine")
    priority = request.get("priority", 5)
    function = ACCEPTED_BY.get(machine)
    if function is not None:
        return result(load(function)(client, request["id"], payload, priority))
    return result(client.submit(payload, id=request["id"], machine=machine, priority=priority))


def result(submitted: Submitted) -> str:
    """Return the result of a message as one line."""
    return f"{'known' if submitted.replayed else 'accepted'}: {submitted.id}"


def invalid(subject: str, *problems: str) -> InvalidPayloadError:
    """Return the error for a message with these problems."""
    return InvalidPayloadError(subject, problems)


app = assemble(read_settings())
