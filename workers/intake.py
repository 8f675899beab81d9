"""Receives plain Celery messages from producers that do not import Interlock, and submits them.

Start it with `celery -A interlock.workers.intake worker`. The message of an effect can be written
again from the store; a message here is the only copy of its request. So it is moved from the queue
to the receipts in one step, and its receipt is removed only after its record exists; the messages
of a dead intake are read again. That needs acknowledgements, which effects do not use, and
therefore an app of its own.
"""

from __future__ import annotations

import logging
from typing import Any

from celery import Celery
from celery.exceptions import Reject

from interlock.workers.client import Client
from interlock.workers.config import Settings
from interlock.workers.engine.celery_app import INTAKE_QUEUE, make_app
from interlock.workers.engine.entry import start
from interlock.workers.engine.liveness import write_liveness_file
from interlock.workers.engine.log_lines import make_log_visible
from interlock.workers.producer_message import TEMPORARY_ERRORS, receive

log = logging.getLogger(__name__)

VISIBILITY_S = 60  # after so long without an acknowledgement a message is read again


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


app = start(assemble)
