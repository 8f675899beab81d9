"""Celery's consumer, setting malformed messages aside where people find them; it retries none."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from celery.worker.consumer import Consumer as CeleryConsumer
from kombu.exceptions import KombuError

from interlock.kernel.errors import KernelError
from interlock.workers.engine.broker import SHAPE_ERRORS

log = logging.getLogger(__name__)


class Consumer(CeleryConsumer):
    """What Celery logs and drops is counted and kept as well."""

    def connect(self) -> Any:
        """Connect, and keep what is no message at all."""
        connection = super().connect()
        # Our Redis transport asks whom to tell; others refuse by themselves what is no message.
        if hasattr(connection.transport, "on_junk"):
            connection.transport.on_junk = self._keep
        return connection

    def create_task_handler(self, *args: Any, **options: Any) -> Callable[[Any], Any]:
        """Handle each message, whatever its shape: one that Celery trips over ends no worker."""
        handle = super().create_task_handler(*args, **options)

        def on_task_received(message: Any) -> Any:
            try:
                return handle(message)
            except SHAPE_ERRORS as refusal:
                self._set_aside("wrong shape", f"{type(refusal).__name__}: {refusal}", message)
            # Left unsettled it would be restored, and end the next worker.
            if not message.acknowledged:
                message.reject_log_error(log, self.connection_errors)
            return None

        return on_task_received

    def on_decode_error(self, message: Any, exc: Any) -> None:
        """Set aside what is not JSON."""
        self._set_aside("not decodable", exc, message)
        super().on_decode_error(message, exc)

    def on_unknown_message(self, body: Any, message: Any) -> None:
        """Set aside what is no task message."""
        self._set_aside("no task message", "it does not have a task's form", message)
        super().on_unknown_message(body, message)

    def on_unknown_task(self, body: Any, message: Any, exc: Any) -> None:
        """Set aside a task that nobody registered here."""
        self._set_aside("unknown task", exc, message)
        super().on_unknown_task(body, message, exc)

    def on_invalid_task(self, body: Any, message: Any, exc: Any) -> None:
        """Set aside a task message with a broken header."""
        self._set_aside("invalid task", exc, message)
        super().on_invalid_task(body, message, exc)

    def _set_aside(self, kind: str, reason: object, message: Any) -> None:
        body = bytes(str(message.body), "utf-8", "replace").decode()
        self._keep(kind, str(reason), body)

    def _keep(self, kind: str, reason: str, body: str) -> None:
        put = getattr(self.app, "set_aside", None)
        if put is None:
            return
        try:
            put(kind, reason, body)
        except (KernelError, KombuError) as refusal:
            log.warning("a message of kind %r could not be set aside: %s", kind, refusal)
