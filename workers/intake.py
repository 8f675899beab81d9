"""Takes plain Celery messages of producers that import nothing of ours.

`celery -A workers.intake worker`. A message here is not stored before it arrives, so unlike an
effect's it is acknowledged only after its record exists. That takes kombu's acknowledgements,
which effects do without; hence an app of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from celery import Celery
from celery.exceptions import Reject
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

from kernel.errors import CallError, InvalidPayloadError, StoreError
from workers.alive import show_alive
from workers.app import INTAKE, make_app
from workers.client import Client
from workers.config import Settings, read_settings

log = logging.getLogger(__name__)

FIELDS = frozenset({"id", "machine", "payload", "priority"})
PATIENCE_S = 30
VISIBILITY_S = 60


def assemble(settings: Settings) -> Celery:
    """Return the app with its one task, `interlock.submit`."""
    made = make_app(settings.model_copy(update={"ack_emulation": True}), (INTAKE,))
    options = {**made.conf.broker_transport_options, "visibility_timeout": VISIBILITY_S}
    made.conf.update(broker_transport_options=options)
    client = Client(settings, actor="intake")
    made.set_aside = client.dispatch.set_aside

    def submit(request: Any) -> str:
        try:
            return accept(client, request)
        except StoreError as refusal:
            # Not acknowledged: the broker hands the same message out again.
            log.warning("intake waits for the store: %s", refusal)
            raise Reject(str(refusal), requeue=True) from refusal
        except CallError as refusal:
            client.dispatch.aside.put("refused at intake", str(refusal), request)
            return f"set aside: {refusal}"

    made.task(
        submit,
        name="interlock.submit",
        acks_late=True,
        reject_on_worker_lost=True,
        ignore_result=True,
    )
    show_alive(made, settings.alive)
    return made


@retry(
    retry=retry_if_exception_type(StoreError),
    wait=wait_exponential_jitter(max=5),
    stop=stop_after_delay(PATIENCE_S),
    reraise=True,
)
def accept(client: Client, request: Any) -> str:
    """Create the record that a message asks for. It carries its id, so it may come twice."""
    if not isinstance(request, Mapping):
        raise InvalidPayloadError("the request", [f"it is {type(request).__name__}, not an object"])
    if unknown := sorted(set(request) - FIELDS):
        raise InvalidPayloadError("the request", [f"{name}: no such field" for name in unknown])
    if not isinstance(request.get("id"), str):
        raise InvalidPayloadError(
            "the request", ["id: give one of your own; a message can come twice"]
        )
    payload = request.get("payload")
    if not isinstance(payload, Mapping):
        raise InvalidPayloadError("the request", ["payload: it is missing or not an object"])
    priority = request.get("priority", 5)
    if not isinstance(priority, int):
        raise InvalidPayloadError("the request", [f"priority: {priority!r} is no whole number"])
    machine = str(request.get("machine", "thread"))
    done = client.submit(payload, id=request["id"], machine=machine, priority=priority)
    return f"{'known' if done.replayed else 'accepted'}: {done.id}"


app = assemble(read_settings())
