"""Takes plain Celery messages of producers that import nothing of ours.

`celery -A interlock.workers.intake worker`. A message here is not stored before it arrives, so
unlike an effect's it is acknowledged only after its record exists. That takes kombu's
acknowledgements, which effects do without; hence an app of its own.
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
from interlock.workers.engine.app import INTAKE_QUEUE, make_app
from interlock.workers.engine.liveness import write_liveness_file
from interlock.workers.engine.system import load
from interlock.workers.systems import SYSTEMS

log = logging.getLogger(__name__)

FIELDS = frozenset({"id", "machine", "payload", "priority"})
# What passes by itself: the message stays in the broker until it has.
AWAY = (StoreError, ConflictError, OperationalError)
PATIENCE_S = 30
VISIBILITY_S = 60
# For the machines that need more than a new record.
ACCEPTS = {machine: name for system in SYSTEMS for machine, name in system.submit.items()}


def assemble(settings: Settings) -> Celery:
    """Return the app with its one task, `interlock.submit`."""
    made = make_app(settings.model_copy(update={"ack_emulation": True}), (INTAKE_QUEUE,))
    options = {**made.conf.broker_transport_options, "visibility_timeout": VISIBILITY_S}
    made.conf.update(broker_transport_options=options)
    client = Client(settings, actor="intake")
    made.reject_message = client.dispatch.reject

    def submit(*args: Any, **kwargs: Any) -> str:
        try:
            return receive(client, args, kwargs)
        except AWAY as refusal:
            # Not acknowledged: the broker hands the same message out again.
            log.warning("intake waits for the store: %s", refusal)
            raise Reject(str(refusal), requeue=True) from refusal
        except Exception as failure:
            # A fault of ours must not lose what a producer sent: kept for people, then reported.
            client.dispatch.reject("failed at intake", repr(failure), (args, kwargs))
            raise

    made.task(
        submit,
        name="interlock.submit",
        acks_late=True,
        reject_on_worker_lost=True,
        ignore_result=True,
    )
    write_liveness_file(made, settings.alive)
    return made


@retry(
    retry=retry_if_exception_type(AWAY),
    wait=wait_exponential_jitter(max=5),
    stop=stop_after_delay(PATIENCE_S),
    reraise=True,
)
def receive(client: Client, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Accept one message, or set it aside if it can never be accepted."""
    try:
        if kwargs or len(args) != 1:
            raise wrong("the message", "send one argument, the request, and nothing by name")
        return accept(client, args[0])
    except CallError as refusal:
        request = args[0] if len(args) == 1 and not kwargs else (args, kwargs)
        client.dispatch.rejected.put("refused at intake", str(refusal), request)
        log.warning("a message is set aside: %s", refusal)
        return f"set aside: {refusal}"


def accept(client: Client, request: Any) -> str:
    """Create the record that a message asks for, once: it carries its id and may come twice."""
    if not isinstance(request, Mapping):
        raise wrong("the request", f"it is {type(request).__name__}, not an object")
    if unknown := sorted(set(request) - FIELDS):
        raise wrong("the request", *(f"{name}: no such field" for name in unknown))
    if not isinstance(request.get("id"), str):
        raise wrong("the request", "id: give one of your own; a message can come twice")
    payload = request.get("payload")
    if not isinstance(payload, Mapping):
        raise wrong("the request", "payload: it is missing or not an object")
    machine = request.get("machine", "thread")
    if not isinstance(machine, str):
        raise wrong("the request", f"machine: {machine!r} is no name")
    priority = request.get("priority", 5)
    named = ACCEPTS.get(machine)
    if named is not None:
        return said(load(named)(client, request["id"], payload, priority))
    return said(client.submit(payload, id=request["id"], machine=machine, priority=priority))


def said(done: Submitted) -> str:
    """Return what became of a message, as one line."""
    return f"{'known' if done.replayed else 'accepted'}: {done.id}"


def wrong(what: str, *problems: str) -> InvalidPayloadError:
    """Return what is wrong with a message."""
    return InvalidPayloadError(what, problems)


app = assemble(read_settings())
