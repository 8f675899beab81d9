"""The names of a loop's states and triggers."""

from __future__ import annotations

from enum import StrEnum, auto

# What one life of a name holds while it lasts: nobody else lives under it.
SELF = "self"


class State(StrEnum):
    """Where a long-lived agent can stand."""

    INITIALIZING = auto()
    BUILDING_PROMPT = auto()
    SPAWNING = auto()
    RUNNING = auto()
    INTERRUPTING = auto()
    SESSION_COMPLETE = auto()
    COOLING_DOWN = auto()
    STOPPED = auto()


class Trigger(StrEnum):
    """What can be fired at a long-lived agent.

    The page's SessionExited is three of them, by its outcome: Success, Error(text), Timeout.
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
    """What sets the errors in a row back to none."""

    SESSION_STARTED = auto()  # as the page has it: only launches can fail in a row
    SUCCESS = auto()
    MIN_RUNTIME = auto()


class Next(StrEnum):
    """When the next session begins after one that succeeded."""

    AT_ONCE = auto()  # as the page has it
    ON_MAIL = auto()
    LATER = auto()
