"""The names of a thread's states and triggers."""

from __future__ import annotations

from enum import StrEnum, auto


class State(StrEnum):
    """The states of a thread."""

    PROPOSED = auto()
    AWAITING_INFERENCE = auto()
    INFERRING_INTENT = auto()
    INFERRING_CONTEXT = auto()
    INFERRING_ACTION = auto()
    AWAITING_INTENT_CONFIRMATION = auto()
    AWAITING_INTENT_CLARIFICATION = auto()
    AWAITING_CONTEXT_CONFIRMATION = auto()
    AWAITING_CONTEXT_CLARIFICATION = auto()
    AWAITING_ACTION_CLARIFICATION = auto()
    AWAITING_CONFIRMATION = auto()
    EXECUTING = auto()
    AWAITING_REVIEW = auto()
    AWAITING_REDIRECT = auto()
    MONITORING = auto()
    CLEANING_UP = auto()
    DONE_CLEANUP_UNSUCCESSFUL = auto()
    DONE = auto()
    DISMISSED = auto()
    HANDED_OFF = auto()
    DONE_CLEANUP_SUCCESSFUL = auto()


class Trigger(StrEnum):
    """The triggers that can be fired at a thread."""

    BEGIN_INFERENCE = auto()
    INFERENCE_STARTED = auto()
    INFERENCE_DONE = auto()
    INFERENCE_FAILED = auto()
    BUDGET_EXCEEDED = auto()
    CONFIRMED = auto()
    EDITED = auto()
    REDIRECTED = auto()
    PROVIDED = auto()
    REJECTED = auto()
    EXECUTE = auto()
    EXECUTION_DONE = auto()
    EXECUTION_FAILED = auto()
    DECOMPOSED = auto()
    CHILDREN_DONE = auto()
    CANCEL_REQUESTED = auto()
    CANCEL_CONFIRMED = auto()
    REVIEW_ACCEPTED = auto()
    CLEANUP_REQUESTED = auto()
    CLEANUP_SUCCEEDED = auto()
    CLEANUP_FAILED = auto()
    RETRY_CLEANUP = auto()
    ACCEPT_CLEANUP_FAILURE = auto()
    HANDED_OFF = auto()
    TIMEOUT = auto()
    DISMISSED_BY_USER = auto()
    PARENT_FORCE_CLOSE = auto()
