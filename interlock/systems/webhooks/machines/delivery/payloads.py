"""The payloads of a delivery: for its creation and for its triggers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, NotRequired, TypedDict

from pydantic import Field

from interlock import Shape
from interlock.system.tables import Record, Word
from interlock.systems.webhooks.machines.delivery import limits

Detail = Annotated[str, Field(max_length=limits.DETAIL_LENGTH_MAX)]
Status = Annotated[int, Field(ge=limits.STATUS_MIN, le=limits.STATUS_MAX)]


class MessageKind(StrEnum):
    """What a message tells its receiver."""

    CARD_OPENED = "card.opened"
    CARD_ESCALATED = "card.escalated"
    CARD_WITHDRAWN = "card.withdrawn"
    RECORD_ENDED = "record.ended"


class NewDelivery(Shape):
    """One message to one endpoint: what happened to a record, and when (ms, by the store).

    `proposals` are the questions that the record asked then: a card that asks none of them any more
    is not sent.
    """

    endpoint: Word
    kind: MessageKind
    record: Annotated[str, Field(min_length=1, max_length=limits.RECORD_LENGTH_MAX)]
    machine: Annotated[str, Field(min_length=1, max_length=limits.MACHINE_LENGTH_MAX)]
    at_ms: Annotated[int, Field(ge=0)]
    proposals: Annotated[
        list[Annotated[str, Field(max_length=limits.PROPOSAL_LENGTH_MAX)]],
        Field(max_length=limits.PROPOSALS_MAX),
    ] = []


class AttemptFailure(TypedDict):
    """What a delivery keeps of its last failed attempt."""

    detail: str
    status: NotRequired[int]


class DeliveryData(TypedDict):
    """The data of a delivery: its message, how often sending it failed in a row, and why.

    `wait_ms` is how long it waits for the next attempt, `dropped` why it is not sent any more.
    """

    endpoint: str
    kind: str
    record: str
    machine: str
    at_ms: int
    proposals: list[str]
    failures: int
    failure: NotRequired[AttemptFailure]
    wait_ms: NotRequired[int]
    dropped: NotRequired[str]


Delivery = Record[DeliveryData]


class DeliveryTaken(Shape):
    """The HTTP status with which the endpoint took the message."""

    status: Status


class DeliveryFailure(Shape):
    """Why an attempt failed, in words and as a code, and the HTTP status of the answer, if any.

    `gone`: the endpoint wants no further message. `retry_after_s`: it asked to wait so long.
    `jitter` is a random number by which deliveries that failed together come again apart.
    """

    detail: Detail
    code: Annotated[str, Field(max_length=limits.CODE_LENGTH_MAX)] = ""
    status: Status | None = None
    gone: bool = False
    retry_after_s: Annotated[int, Field(ge=0, le=limits.RETRY_AFTER_S_MAX)] | None = None
    jitter: Annotated[float, Field(ge=0, le=1)] = 0.5


class DeliveryReason(Shape):
    """The reason why a person or program does this, in words."""

    reason: Detail = ""
