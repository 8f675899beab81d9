"""The thread's table: the published rows, then ours, each with its reason."""

from __future__ import annotations

from interlock.kernel.effect import CASCADE, SPAWN
from interlock.kernel.machine import Machine
from interlock.kernel.machines.threads.autonomy import parse
from interlock.kernel.machines.threads.thread import changes as do
from interlock.kernel.machines.threads.thread import payloads as carry
from interlock.kernel.machines.threads.thread.names import State as S
from interlock.kernel.machines.threads.thread.names import Trigger as T
from interlock.kernel.machines.threads.thread.stages import STAGES
from interlock.kernel.table import Ask, Bounds, Data, Loop, Transition

WAITS = (
    S.AWAITING_INTENT_CONFIRMATION,
    S.AWAITING_CONTEXT_CONFIRMATION,
    S.AWAITING_INTENT_CLARIFICATION,
    S.AWAITING_CONTEXT_CLARIFICATION,
    S.AWAITING_ACTION_CLARIFICATION,
    S.AWAITING_CONFIRMATION,
    S.AWAITING_REVIEW,
    S.AWAITING_REDIRECT,
)
INFERRING = (S.INFERRING_INTENT, S.INFERRING_CONTEXT, S.INFERRING_ACTION)
PHASE = {
    S.AWAITING_INTENT_CLARIFICATION: "intent",
    S.AWAITING_CONTEXT_CLARIFICATION: "context",
    S.AWAITING_ACTION_CLARIFICATION: "action",
}

DEQUEUED = "the original wrote this state outside its table; here the worker's claim is a row"
UNANSWERED = (
    "in the original a thread whose inference fails or is refused before it starts is stranded"
)
HANDABLE = "handed_off is published as terminal, but no original row leads to it"
PARTS = "the original entered monitoring by writing the field"
COUNTED = "the original abused execution_done for the end of the last child"
STOPPABLE = "an action is stopped by its runner's confirmation, never by a state written over it"
ASKED_AGAIN = "the answer to a question goes back to the model unless it is a whole action"
EVERY_WAIT = "redirected works from every wait"
EXPIRY = "where the producer set an expiry, an unanswered card ends the thread; it never approves"


def by(*names: str) -> tuple[str, ...]:
    """Name who fires a row in the running system."""
    return names


def bounds(data: Data) -> Bounds:
    """Return what its policy lets it spend."""
    return Bounds(parse(data["policy"]).budget_micro)


def intent_ok(ask: Ask) -> bool:
    """Whether an inferred intent needs no person."""
    return do.intent_verdict(ask).advance


def context_ok(ask: Ask) -> bool:
    """Whether an inferred context needs no person."""
    return do.context_verdict(ask).advance


def action_ok(ask: Ask) -> bool:
    """Whether an inferred action needs no person."""
    return do.action_verdict(ask).advance


def why_intent(ask: Ask) -> Data:
    """Explain the decision about an intent."""
    return do.intent_verdict(ask).as_data()


def why_context(ask: Ask) -> Data:
    """Explain the decision about a context."""
    return do.context_verdict(ask).as_data()


def why_action(ask: Ask) -> Data:
    """Explain the decision about an action."""
    return do.action_verdict(ask).as_data()


def review_demanded(ask: Ask) -> bool:
    """Whether a person looks at what was done."""
    return do.review(ask).demanded


def why_review(ask: Ask) -> Data:
    """Explain the decision about a review."""
    return do.review(ask).as_data()


NO_ACTION = "there is no action to run: it was cleared, or it names no capability; edit it first"
NOT_INTENT = "an edit of this card gives `intent` and nothing else"
NOT_CONTEXT = "an edit of this card gives `item_ids` and nothing else"
NOT_ACTION = "an edit of this card gives `capability` and `parameters`, or `clear`"

# fmt: off
PUBLISHED = (
    Transition(S.PROPOSED,                     T.BEGIN_INFERENCE,    S.AWAITING_INFERENCE,           by=by("producer", "person", "spawn", "stalls")),
    Transition(S.PROPOSED,                     T.TIMEOUT,            S.DISMISSED,                    by=by("stalls")),
    Transition(S.INFERRING_INTENT,             T.INFERENCE_DONE,     S.AWAITING_INFERENCE,           guard=intent_ok,  update=do.propose("intent", "context"), explain=why_intent,   reads=True, by=by("inference")),
    Transition(S.INFERRING_INTENT,             T.INFERENCE_DONE,     S.AWAITING_INTENT_CONFIRMATION,                   update=do.propose("intent", "intent"),  explain=why_intent,   reads=True, by=by("inference")),
    Transition(S.INFERRING_INTENT,             T.INFERENCE_FAILED,   S.AWAITING_INTENT_CLARIFICATION, update=do.failed, by=by("inference", "orphans", "stalls")),
    Transition(S.INFERRING_CONTEXT,            T.INFERENCE_DONE,     S.AWAITING_INFERENCE,           guard=context_ok, update=do.propose("context", "action"),  explain=why_context,  reads=True, by=by("inference")),
    Transition(S.INFERRING_CONTEXT,            T.INFERENCE_DONE,     S.AWAITING_CONTEXT_CONFIRMATION,                  update=do.propose("context", "context"), explain=why_context,  reads=True, by=by("inference")),
    Transition(S.INFERRING_CONTEXT,            T.INFERENCE_FAILED,   S.AWAITING_CONTEXT_CLARIFICATION, update=do.failed, by=by("inference", "orphans", "stalls")),
    Transition(S.INFERRING_ACTION,             T.INFERENCE_DONE,     S.AWAITING_ACTION_CLARIFICATION, guard=do.unclear, update=do.propose("action", "action"),  explain=why_action,   reads=True, by=by("inference")),
    Transition(S.INFERRING_ACTION,             T.INFERENCE_DONE,     S.EXECUTING,                    guard=action_ok,  update=do.propose("action", "action"),  explain=why_action,   reads=True, by=by("inference")),
    Transition(S.INFERRING_ACTION,             T.INFERENCE_DONE,     S.AWAITING_CONFIRMATION,                          update=do.propose("action", "action"),  explain=why_action,   reads=True, by=by("inference")),
    Transition(S.INFERRING_ACTION,             T.INFERENCE_FAILED,   S.AWAITING_ACTION_CLARIFICATION, update=do.failed, by=by("inference", "orphans", "stalls")),

    Transition(S.AWAITING_INTENT_CONFIRMATION, T.CONFIRMED,          S.AWAITING_INFERENCE,           update=do.towards("context"),   names_proposal=True, by=by("person")),
    Transition(S.AWAITING_INTENT_CONFIRMATION, T.EDITED,             S.AWAITING_INFERENCE,           guard=do.edits_intent, update=do.edit_intent, refusal=NOT_INTENT, names_proposal=True, by=by("person")),
    Transition(S.AWAITING_INTENT_CONFIRMATION, T.REDIRECTED,         S.AWAITING_INFERENCE,           update=do.redirected("intent"), by=by("person")),
    Transition(S.AWAITING_INTENT_CLARIFICATION, T.PROVIDED,          S.AWAITING_INFERENCE,           update=do.answered("intent"),   by=by("person")),
    Transition(S.AWAITING_CONTEXT_CONFIRMATION, T.CONFIRMED,         S.AWAITING_INFERENCE,           update=do.towards("action"),    names_proposal=True, by=by("person")),
    Transition(S.AWAITING_CONTEXT_CONFIRMATION, T.EDITED,            S.AWAITING_INFERENCE,           guard=do.edits_context, update=do.edit_context, refusal=NOT_CONTEXT, names_proposal=True, by=by("person")),
    Transition(S.AWAITING_CONTEXT_CONFIRMATION, T.REDIRECTED,        S.AWAITING_INFERENCE,           update=do.redirected("context"), by=by("person")),
    Transition(S.AWAITING_CONTEXT_CLARIFICATION, T.PROVIDED,         S.AWAITING_INFERENCE,           update=do.answered("context"),  by=by("person")),
    Transition(S.AWAITING_ACTION_CLARIFICATION, T.PROVIDED,          S.AWAITING_CONFIRMATION,        guard=do.gives_action, update=do.give_action, by=by("person")),
    Transition(S.AWAITING_CONFIRMATION,        T.EDITED,             S.AWAITING_CONFIRMATION,        guard=do.edits_action, update=do.edit_action, refusal=NOT_ACTION, loop=Loop.EXTERNAL, names_proposal=True, by=by("person")),
    Transition(S.AWAITING_CONFIRMATION,        T.REDIRECTED,         S.AWAITING_INFERENCE,           update=do.redirected("action"), by=by("person")),
    Transition(S.AWAITING_CONFIRMATION,        T.REJECTED,           S.DISMISSED,                    update=do.ended,                by=by("person")),
    Transition(S.AWAITING_CONFIRMATION,        T.EXECUTE,            S.EXECUTING,                    guard=do.runnable, refusal=NO_ACTION, names_proposal=True, by=by("person")),

    Transition(S.EXECUTING,                    T.EXECUTION_DONE,     S.AWAITING_REVIEW,              guard=review_demanded, update=do.executed, explain=why_review, reads=True, by=by("execution")),
    Transition(S.EXECUTING,                    T.EXECUTION_DONE,     S.DONE,                         update=do.executed, explain=why_review, reads=True, by=by("execution")),
    Transition(S.EXECUTING,                    T.EXECUTION_FAILED,   S.AWAITING_REDIRECT,            update=do.failed,               by=by("execution", "orphans", "stalls")),
    Transition(S.AWAITING_REVIEW,              T.REVIEW_ACCEPTED,    S.DONE,                         names_proposal=True, by=by("person")),
    Transition(S.AWAITING_REVIEW,              T.TIMEOUT,            S.DONE,                         by=by("stalls")),
    Transition(S.AWAITING_REVIEW,              T.REDIRECTED,         S.AWAITING_INFERENCE,           update=do.redirected("action"), by=by("person")),
    Transition(S.AWAITING_REDIRECT,            T.PROVIDED,           S.AWAITING_INFERENCE,           update=do.answered("action"),   by=by("person")),
    Transition(S.AWAITING_REDIRECT,            T.REDIRECTED,         S.AWAITING_INFERENCE,           update=do.redirected("action"), by=by("person")),

    *(Transition(wait,                         T.CLEANUP_REQUESTED,  S.CLEANING_UP,                  by=by("person")) for wait in WAITS),
    Transition(S.CLEANING_UP,                  T.CLEANUP_SUCCEEDED,  S.DONE_CLEANUP_SUCCESSFUL,      update=do.cleaned,              by=by("cleanup")),
    Transition(S.CLEANING_UP,                  T.CLEANUP_FAILED,     S.DONE_CLEANUP_UNSUCCESSFUL,    update=do.failed,               by=by("cleanup", "orphans", "stalls")),
    Transition(S.DONE_CLEANUP_UNSUCCESSFUL,    T.RETRY_CLEANUP,      S.CLEANING_UP,                  by=by("person")),
    Transition(S.DONE_CLEANUP_UNSUCCESSFUL,    T.ACCEPT_CLEANUP_FAILURE, S.DONE,                     by=by("person")),

    *(Transition(state,                        T.DISMISSED_BY_USER,  S.DISMISSED,                    update=do.ended,                by=by("person"))
      for state in (S.PROPOSED, S.AWAITING_INFERENCE, *INFERRING, *WAITS, S.CLEANING_UP, S.DONE_CLEANUP_UNSUCCESSFUL)),
    Transition(S.MONITORING,                   T.DISMISSED_BY_USER,  S.DISMISSED,                    update=do.ended, effect=CASCADE, by=by("person")),
    *(Transition(state,                        T.PARENT_FORCE_CLOSE, S.DISMISSED,                    update=do.ended,                by=by("cascade"))
      for state in (S.PROPOSED, S.AWAITING_INFERENCE, *INFERRING, S.EXECUTING, *WAITS, S.CLEANING_UP, S.DONE_CLEANUP_UNSUCCESSFUL)),
    Transition(S.MONITORING,                   T.PARENT_FORCE_CLOSE, S.DISMISSED,                    update=do.ended, effect=CASCADE, by=by("cascade")),
)

OURS = (
    Transition(S.AWAITING_INFERENCE,           T.INFERENCE_STARTED,  S.INFERRING_INTENT,             guard=do.at_intent,  carry=True, by=by("inference"), ours=DEQUEUED),
    Transition(S.AWAITING_INFERENCE,           T.INFERENCE_STARTED,  S.INFERRING_CONTEXT,            guard=do.at_context, carry=True, by=by("inference"), ours=DEQUEUED),
    Transition(S.AWAITING_INFERENCE,           T.INFERENCE_STARTED,  S.INFERRING_ACTION,                                  carry=True, by=by("inference"), ours=DEQUEUED),
    Transition(S.AWAITING_INFERENCE,           T.INFERENCE_FAILED,   S.AWAITING_INTENT_CLARIFICATION,  guard=do.at_intent,  update=do.failed, by=by("orphans", "stalls"), ours=UNANSWERED),
    Transition(S.AWAITING_INFERENCE,           T.INFERENCE_FAILED,   S.AWAITING_CONTEXT_CLARIFICATION, guard=do.at_context, update=do.failed, by=by("orphans", "stalls"), ours=UNANSWERED),
    Transition(S.AWAITING_INFERENCE,           T.INFERENCE_FAILED,   S.AWAITING_ACTION_CLARIFICATION,                       update=do.failed, by=by("orphans", "stalls"), ours=UNANSWERED),
    Transition(S.AWAITING_INFERENCE,           T.BUDGET_EXCEEDED,    S.AWAITING_INTENT_CLARIFICATION,  guard=do.at_intent,  update=do.failed, by=by("inference"), ours=UNANSWERED),
    Transition(S.AWAITING_INFERENCE,           T.BUDGET_EXCEEDED,    S.AWAITING_CONTEXT_CLARIFICATION, guard=do.at_context, update=do.failed, by=by("inference"), ours=UNANSWERED),
    Transition(S.AWAITING_INFERENCE,           T.BUDGET_EXCEEDED,    S.AWAITING_ACTION_CLARIFICATION,                       update=do.failed, by=by("inference"), ours=UNANSWERED),
    Transition(S.AWAITING_ACTION_CLARIFICATION, T.PROVIDED,          S.AWAITING_INFERENCE,           update=do.answered("action"), by=by("person"), ours=ASKED_AGAIN),
    *(Transition(state,                        T.REDIRECTED,         S.AWAITING_INFERENCE,           update=do.redirected(phase), by=by("person"), ours=EVERY_WAIT) for state, phase in PHASE.items()),
    Transition(S.AWAITING_CONFIRMATION,        T.DECOMPOSED,         S.MONITORING,                   update=do.decomposed, effect=SPAWN, spawns="children", by=by("person"), ours=PARTS),
    Transition(S.EXECUTING,                    T.DECOMPOSED,         S.MONITORING,                   update=do.decomposed, effect=SPAWN, spawns="children", by=by("execution"), ours=PARTS),
    Transition(S.MONITORING,                   T.CHILDREN_DONE,      S.DISMISSED,                    guard=do.all_dismissed, update=do.tallied, by=by("cascade"), ours=COUNTED),
    Transition(S.MONITORING,                   T.CHILDREN_DONE,      S.DONE,                         update=do.tallied, by=by("cascade"), ours=COUNTED),
    Transition(S.EXECUTING,                    T.CANCEL_REQUESTED,   S.EXECUTING,                    loop=Loop.INTERNAL, interrupts=True, by=by("person"), ours=STOPPABLE),
    Transition(S.EXECUTING,                    T.CANCEL_CONFIRMED,   S.DISMISSED,                    update=do.ended, by=by("execution"), ours=STOPPABLE),
    *(Transition(state,                        T.HANDED_OFF,         S.HANDED_OFF,                   update=do.handed_off, by=by("person"), ours=HANDABLE)
      for state in (S.PROPOSED, S.AWAITING_INFERENCE, *INFERRING, *WAITS, S.DONE_CLEANUP_UNSUCCESSFUL)),
    Transition(S.MONITORING,                   T.HANDED_OFF,         S.HANDED_OFF,                   update=do.handed_off, effect=CASCADE, by=by("person"), ours=HANDABLE),
    *(Transition(wait,                         T.TIMEOUT,            S.DISMISSED,                    by=by("stalls"), ours=EXPIRY) for wait in WAITS if wait is not S.AWAITING_REVIEW),
)
# fmt: on

THREAD = Machine(
    name="thread",
    stages=STAGES,
    transitions=(*PUBLISHED, *OURS),
    initial_data=do.birth,
    bounds=bounds,
    child_payload=do.part,
    payloads={
        T.INFERENCE_STARTED: carry.ThreadInferenceStarted,
        T.INFERENCE_DONE: carry.ThreadInferenceDone,
        T.INFERENCE_FAILED: carry.ThreadFailure,
        T.BUDGET_EXCEEDED: carry.ThreadBudgetExceeded,
        T.CONFIRMED: carry.NoPayload,
        T.EDITED: carry.ThreadEdited,
        T.REDIRECTED: carry.ThreadRedirected,
        T.PROVIDED: carry.ThreadProvided,
        T.REJECTED: carry.ThreadReason,
        T.EXECUTE: carry.NoPayload,
        T.EXECUTION_DONE: carry.ThreadExecutionDone,
        T.EXECUTION_FAILED: carry.ThreadFailure,
        T.DECOMPOSED: carry.ThreadDecomposed,
        T.CHILDREN_DONE: carry.ThreadChildrenDone,
        T.CANCEL_REQUESTED: carry.ThreadReason,
        T.CANCEL_CONFIRMED: carry.ThreadReason,
        T.CLEANUP_SUCCEEDED: carry.ThreadCleanupSucceeded,
        T.CLEANUP_FAILED: carry.ThreadFailure,
        T.HANDED_OFF: carry.ThreadHandedOff,
        T.DISMISSED_BY_USER: carry.ThreadReason,
        T.PARENT_FORCE_CLOSE: carry.ThreadReason,
    },
    cancel_triggers=(T.DISMISSED_BY_USER, T.CANCEL_REQUESTED),
    close_trigger=T.PARENT_FORCE_CLOSE,
    advance_trigger=T.CHILDREN_DONE,
    handoff_trigger=T.HANDED_OFF,
    first_trigger=T.BEGIN_INFERENCE,
)
