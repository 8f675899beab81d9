"""The names of a delivery's states and triggers, and the kinds of messages."""

from __future__ import annotations

from enum import StrEnum, auto


class State(StrEnum):
    """The states of a delivery."""

    SENDING = auto()
    WAITING = auto()
    DEAD = auto()
    DELIVERED = auto()
    DROPPED = auto()


class Trigger(StrEnum):
    """The triggers that can be fired at a delivery."""

    DELIVERED = auto()
    FAILED = auto()
    DUE = auto()
    REPLAY = auto()
    DROPPED = auto()


class MessageKind(StrEnum):
    """What a message tells its receiver."""

    CARD_OPENED = "card.opened"
    CARD_ESCALATED = "card.escalated"
    CARD_WITHDRAWN = "card.withdrawn"
    RECORD_ENDED = "record.ended"
