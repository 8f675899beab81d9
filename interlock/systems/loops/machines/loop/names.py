"""The names of a long-lived agent's states and triggers, and two choices of its payload."""

from __future__ import annotations

from enum import StrEnum, auto

from interlock.system.tables import Triggers
from interlock.systems.loops.machines.loop import payloads

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


class Trigger(Triggers):
    """The triggers that can be fired at a long-lived agent.

    The published SessionExited is three of them, by its outcome: Success, Error(text), Timeout.
    """

    WORKTREE_READY = "worktree_ready", "its worktree is ready", payloads.LoopWorktreeReady
    PROMPT_READY = (
        "prompt_ready",
        "the prompt of its next session is written",
        payloads.LoopPromptReady,
    )
    SESSION_STARTED = (
        "session_started",
        "session {session_seq} has started",
        payloads.LoopSessionStarted,
    )
    SESSION_SUCCEEDED = "session_succeeded", "its session has succeeded", payloads.LoopSessionEnd
    SESSION_ERROR = (
        "session_error",
        "its session failed, and the next one waits for a while",
        payloads.LoopSessionEnd,
    )
    SESSION_TIMEOUT = (
        "session_timeout",
        "its session took too long, and the next one waits for a while",
        payloads.LoopSessionEnd,
    )
    URGENT_MESSAGE = "urgent_message", "urgent mail has come, so its session is interrupted"
    GRACE_EXCEEDED = (
        "grace_exceeded",
        "its session did not end in the grace after it was interrupted",
    )
    BACKOFF_ELAPSED = "backoff_elapsed", "the wait after an error is over"
    OPERATOR_STOP = "operator_stop", "an operator stopped it", payloads.LoopOperatorStop
    FATAL_ERROR = "fatal_error", "another try cannot repair the error", payloads.LoopFatalError
    OVERDUE = "overdue", "the step took too long, and is tried again", payloads.LoopOverdue
