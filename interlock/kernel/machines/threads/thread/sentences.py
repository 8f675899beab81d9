"""What the rows of a thread say: why it moved, in words, by the trigger or for a row of its own."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.kernel.machines.threads.thread.names import Trigger
from interlock.kernel.table import CREATED

GOES_AHEAD = "its policy lets the proposal go ahead without a person"
RUNS_AT_ONCE = "its policy lets the action run without a person"
UNCLEAR = "the model needs an answer before it can propose an action"
SAME_AGAIN = "the call is the same again that was turned down, so a person is asked"
CALL_GIVEN = "a person gave the capability with its parameters, so the action runs"
ACTION_GIVEN = "a person gave the action, and is asked once before it runs"
NOT_BEGUN = "nobody began it before it expired"
NOT_REVIEWED = "nobody objected in the time for its review"
NEEDS_REVIEW = "the action has run, and a person has to review it"
ALL_DISMISSED = "all of its parts were dismissed"

SAYS: Mapping[str, str] = {
    CREATED: "it was handed in",
    Trigger.BEGIN_INFERENCE: "it may be worked on",
    Trigger.TIMEOUT: "nobody answered before it expired",
    Trigger.INFERENCE_STARTED: "a worker took it up and looks for the next proposal",
    Trigger.INFERENCE_DONE: "its policy wants a person to confirm the proposal",
    Trigger.INFERENCE_FAILED: "no proposal was found, so a person is asked",
    Trigger.BUDGET_EXCEEDED: "asking the model might cost more than is allowed",
    Trigger.CONFIRMED: "a person confirmed the proposal",
    Trigger.EDITED: "a person changed the proposal",
    Trigger.REDIRECTED: "a person wants another proposal",
    Trigger.PROVIDED: "a person answered the question",
    Trigger.REJECTED: "a person rejected the action",
    Trigger.EXECUTE: "a person let the action run",
    Trigger.EXECUTION_DONE: "the action has run",
    Trigger.EXECUTION_FAILED: "the action failed, or its outcome is not known",
    Trigger.REVIEW_ACCEPTED: "a person accepted the result",
    Trigger.CLEANUP_REQUESTED: "a person wants no action, only its source tidied up",
    Trigger.CLEANUP_SUCCEEDED: "its source is tidied up",
    Trigger.CLEANUP_FAILED: "its source could not be tidied up",
    Trigger.RETRY_CLEANUP: "a person wants the cleanup tried again",
    Trigger.ACCEPT_CLEANUP_FAILURE: "a person accepts that its source is not tidied up",
    Trigger.DISMISSED_BY_USER: "a person dismissed it",
    Trigger.PARENT_FORCE_CLOSE: "the record that it is a part of has ended",
    Trigger.DECOMPOSED: "it was split into parts",
    Trigger.CHILDREN_DONE: "all of its parts have ended",
    Trigger.CANCEL_REQUESTED: "a person wants its action stopped",
    Trigger.CANCEL_CONFIRMED: "its action was stopped",
    Trigger.HANDED_OFF: "a person handed it over to {to}",
}
