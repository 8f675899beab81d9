"""The payloads of a delivery: for its creation and for its triggers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from interlock.kernel.machines.webhooks.delivery.names import MessageKind
from interlock.kernel.payload import Shape, Word

RETRY_AFTER_S_MAX = 86_400
Detail = Annotated[str, Field(max_length=2_000)]
Status = Annotated[int, Field(ge=100, le=999)]


class NewDelivery(Shape):
    """One message to one endpoint: what happened to a record, and when (ms, by the store).

    `proposals` are the questions that the record asked then: a card that asks none of them any more
    is not sent.
    """

    endpoint: Word
    kind: MessageKind
    record: Annotated[str, Field(min_length=1, max_length=1_000)]
    machine: Annotated[str, Field(min_length=1, max_length=200)]
    at_ms: Annotated[int, Field(ge=0)]
    proposals: Annotated[list[Annotated[str, Field(max_length=1_200)]], Field(max_length=2)] = []


class DeliveryTaken(Shape):
    """The HTTP status with which the endpoint took the message."""

    status: Status


class DeliveryFailure(Shape):
    """Why an attempt failed, in words and as a code, and the HTTP status of the answer, if any.

    `gone`: the endpoint wants no further message. `retry_after_s`: it asked to wait so long.
    `jitter` is a random number by which deliveries that failed together come again apart.
    """

    detail: Detail
    code: Annotated[str, Field(max_length=100)] = ""
    status: Status | None = None
    gone: bool = False
    retry_after_s: Annotated[int, Field(ge=0, le=RETRY_AFTER_S_MAX)] | None = None
    jitter: Annotated[float, Field(ge=0, le=1)] = 0.5


class DeliveryReason(Shape):
    """The reason why a person or program does this, in words."""

    reason: Detail = ""
