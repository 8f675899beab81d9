"""The names of a delivery's states and triggers, and the kinds of messages."""

from __future__ import annotations

from enum import StrEnum, auto

from interlock.system.tables import Triggers
from interlock.systems.webhooks.machines.delivery import payloads


class State(StrEnum):
    """The states of a delivery."""

    SENDING = auto()
    WAITING = auto()
    DEAD = auto()
    DELIVERED = auto()
    DROPPED = auto()


class Trigger(Triggers):
    """The triggers that can be fired at a delivery."""

    DELIVERED = (
        "delivered",
        "its endpoint has taken it, with status {status}",
        payloads.DeliveryTaken,
    )
    FAILED = (
        "failed",
        "the attempt failed, and the next one waits for a while",
        payloads.DeliveryFailure,
    )
    DUE = "due", "the wait after a failed attempt is over"
    REPLAY = "replay", "it is sent again", payloads.DeliveryReason
    DROPPED = "dropped", "it is not sent any more", payloads.DeliveryReason
