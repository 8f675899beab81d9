"""Submits what a plain Celery message of a producer asks for, or keeps it as rejected."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from kombu.exceptions import OperationalError
from tenacity import (
    retry,
    retry_if_exception_type,
    stop_after_delay,
    wait_exponential_jitter,
)

from interlock.kernel.errors import CallError, ConflictError, InvalidPayloadError, StoreError
from interlock.workers.client import Client
from interlock.workers.engine.submission import Submitted
from interlock.workers.engine.system import load
from interlock.workers.systems import systems

log = logging.getLogger(__name__)

FIELDS = frozenset({"id", "machine", "payload", "priority"})
# Errors that are temporary: the message stays in the broker and is delivered again.
TEMPORARY_ERRORS = (StoreError, ConflictError, OperationalError)
PATIENCE_S = 30


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
    # The function that accepts a message, for machines that need more than a new record.
    accepted_by = {machine: name for system in systems() for machine, name in system.submit.items()}
    function = accepted_by.get(machine)
    if function is not None:
        return result(load(function)(client, request["id"], payload, priority))
    return result(client.submit(payload, id=request["id"], machine=machine, priority=priority))


def result(submitted: Submitted) -> str:
    """Return the result of a message as one line."""
    return f"{'known' if submitted.replayed else 'accepted'}: {submitted.id}"


def invalid(subject: str, *problems: str) -> InvalidPayloadError:
    """Return the error for a message with these problems."""
    return InvalidPayloadError(subject, problems)
