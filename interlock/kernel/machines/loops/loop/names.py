"""The names of a long-lived agent's states and triggers, and two choices of its payload."""

from __future__ import annotations

from enum import StrEnum, auto

# What a life of an agent holds while it lasts: no other life of its name goes on beside it.
SELF = "self"


class State(StrEnum):
    """The states of a long-lived agent."""

    INITIALIZING = auto()
    BUILDING_PROMPT = auto()
    SPAWNING = auto()
    RUNNING = auto()
    INTERRUPTING = auto()
    SESSION_COMPLETE = auto()
    COOLING_DOWN = auto()
    STOPPED = auto()


class Trigger(StrEnum):
    """The triggers that can be fired at a long-lived agent.

    The published SessionExited is three of them, by its outcome: Success, Error(text), Timeout.
    """

    WORKTREE_READY = auto()
    PROMPT_READY = auto()
    SESSION_STARTED = auto()
    SESSION_SUCCEEDED = auto()
    SESSION_ERROR = auto()
    SESSION_TIMEOUT = auto()
    URGENT_MESSAGE = auto()
    GRACE_EXCEEDED = auto()
    BACKOFF_ELAPSED = auto()
    OPERATOR_STOP = auto()
    FATAL_ERROR = auto()
    OVERDUE = auto()


class ResetOn(StrEnum):
    """The events that set the number of errors in a row back to 0."""

    SESSION_STARTED = auto()  # as published: only launches can fail in a row
    SUCCESS = auto()
    MIN_RUNTIME = auto()


class Next(StrEnum):
    """The time at which the next session begins after one that succeeded."""

    AT_ONCE = auto()  # as published
    ON_MAIL = auto()
    LATER = auto()
