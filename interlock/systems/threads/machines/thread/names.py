"""The names of a thread's states and triggers."""

from __future__ import annotations

from enum import StrEnum, auto

from interlock.system.tables import Triggers
from interlock.systems.threads.machines.thread import payloads


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


class Trigger(Triggers):
    """The triggers that can be fired at a thread."""

    BEGIN_INFERENCE = "begin_inference", "it may be worked on"
    INFERENCE_STARTED = (
        "inference_started",
        "a worker took it up and looks for the next proposal",
        payloads.ThreadInferenceStarted,
    )
    INFERENCE_DONE = (
        "inference_done",
        "its policy wants a person to confirm the proposal",
        payloads.ThreadInferenceDone,
    )
    INFERENCE_FAILED = (
        "inference_failed",
        "no proposal was found, so a person is asked",
        payloads.ThreadFailure,
    )
    BUDGET_EXCEEDED = (
        "budget_exceeded",
        "asking the model might cost more than is allowed",
        payloads.ThreadBudgetExceeded,
    )
    CONFIRMED = "confirmed", "a person confirmed the proposal", payloads.NoPayload
    EDITED = "edited", "a person changed the proposal", payloads.ThreadEdited
    REDIRECTED = "redirected", "a person wants another proposal", payloads.ThreadRedirected
    PROVIDED = "provided", "a person answered the question", payloads.ThreadProvided
    REJECTED = "rejected", "a person rejected the action", payloads.ThreadReason
    EXECUTE = "execute", "a person let the action run", payloads.NoPayload
    EXECUTION_DONE = "execution_done", "the action has run", payloads.ThreadExecutionDone
    EXECUTION_FAILED = (
        "execution_failed",
        "the action failed, or its outcome is not known",
        payloads.ThreadFailure,
    )
    DECOMPOSED = "decomposed", "it was split into parts", payloads.ThreadDecomposed
    CHILDREN_DONE = "children_done", "all of its parts have ended", payloads.ThreadChildrenDone
    CANCEL_REQUESTED = (
        "cancel_requested",
        "a person wants its action stopped",
        payloads.ThreadReason,
    )
    CANCEL_CONFIRMED = "cancel_confirmed", "its action was stopped", payloads.ThreadReason
    REVIEW_ACCEPTED = "review_accepted", "a person accepted the result"
    CLEANUP_REQUESTED = "cleanup_requested", "a person wants no action, only its source tidied up"
    CLEANUP_SUCCEEDED = (
        "cleanup_succeeded",
        "its source is tidied up",
        payloads.ThreadCleanupSucceeded,
    )
    CLEANUP_FAILED = "cleanup_failed", "its source could not be tidied up", payloads.ThreadFailure
    RETRY_CLEANUP = "retry_cleanup", "a person wants the cleanup tried again"
    ACCEPT_CLEANUP_FAILURE = (
        "accept_cleanup_failure",
        "a person accepts that its source is not tidied up",
    )
    HANDED_OFF = "handed_off", "a person handed it over to {to}", payloads.ThreadHandedOff
    TIMEOUT = "timeout", "nobody answered before it expired"
    DISMISSED_BY_USER = "dismissed_by_user", "a person dismissed it", payloads.ThreadReason
    PARENT_FORCE_CLOSE = (
        "parent_force_close",
        "the record that it is a part of has ended",
        payloads.ThreadReason,
    )
