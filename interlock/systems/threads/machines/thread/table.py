"""The thread's table: the published rows, then ours, each with its reason."""

from __future__ import annotations

from interlock import (
    CASCADE,
    ORPHANS,
    PERSON,
    PRODUCER,
    SPAWN,
    STALLS,
    Bookkeeping,
    Children,
    Machine,
    by,
    move,
    reenter,
    rows,
    stay,
)
from interlock.system.tables import Placement, carry
from interlock.systems.threads.machines.effects import CLEANUP, EXECUTION, INFERENCE
from interlock.systems.threads.machines.thread import changes, guards
from interlock.systems.threads.machines.thread.names import State, Trigger
from interlock.systems.threads.machines.thread.past import with_renamed_policies
from interlock.systems.threads.machines.thread.stages import STAGES

WAITS = (
    State.AWAITING_INTENT_CONFIRMATION,
    State.AWAITING_CONTEXT_CONFIRMATION,
    State.AWAITING_INTENT_CLARIFICATION,
    State.AWAITING_CONTEXT_CLARIFICATION,
    State.AWAITING_ACTION_CLARIFICATION,
    State.AWAITING_CONFIRMATION,
    State.AWAITING_REVIEW,
    State.AWAITING_REDIRECT,
)
EXPIRING = tuple(state for state in WAITS if state is not State.AWAITING_REVIEW)
INFERRING = (State.INFERRING_INTENT, State.INFERRING_CONTEXT, State.INFERRING_ACTION)
QUEUED = (State.PROPOSED, State.AWAITING_INFERENCE)
CLEANUP_LEFT = (State.CLEANING_UP, State.DONE_CLEANUP_UNSUCCESSFUL)

# Why a row is ours.
DEQUEUED = "the original wrote this state outside its table; here the worker's claim is a row"
UNANSWERED = (
    "in the original a thread whose inference fails or is refused before it starts is stranded"
)
HANDABLE = "handed_off is published as terminal, but no original row leads to it"
PARTS = "the original entered monitoring by writing the field"
COUNTED = "the original abused execution_done for the end of the last child"
STOPPABLE = "an action is stopped by its runner's confirmation, never by a state written over it"
ASKED_AGAIN = "the answer to a question goes back to the model unless it is a whole action"
NOT_TWICE = (
    "a call that failed, or in whose place a person wanted something else, is not proposed again"
)
CONSENTED = "whoever gives a capability with its parameters has consented to the call"
SHOWN = "an action that a person gives, and that may have failed before, is shown before it runs"
EVERY_WAIT = "redirected works from every wait"
EXPIRY = "where the producer set an expiry, an unanswered card ends the thread; it never approves"

# Why a guard refuses.
NO_ACTION = "there is no action to run: it was cleared, or it names no capability; edit it first"
NOT_INTENT = "an edit of this card gives `intent` and nothing else"
NOT_CONTEXT = "an edit of this card gives `item_ids` and nothing else"
NOT_ACTION = "an edit of this card gives `capability` and `parameters`, or `clear`"

# Why a single row moved a record.
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

# fmt: off
# The first row whose guard passes is taken: these stand before published rows without a guard.
CORRECTIONS = (
    *rows(State.INFERRING_ACTION,
        move(Trigger.INFERENCE_DONE, State.AWAITING_ACTION_CLARIFICATION, by(INFERENCE), reads=True,
             ours=NOT_TWICE, guard=guards.repeats, update=changes.propose("action", "action"),
             explain=guards.explain_repeats, says=SAME_AGAIN),
    ),
    *rows((State.AWAITING_INTENT_CLARIFICATION, State.AWAITING_CONTEXT_CLARIFICATION),
        move(Trigger.PROVIDED, State.EXECUTING, by(PERSON), ours=CONSENTED, names_proposal=True,
             guard=guards.gives_call_about_no_items, update=changes.give_action,
             says=CALL_GIVEN),
    ),
    *rows((State.AWAITING_ACTION_CLARIFICATION, State.AWAITING_REDIRECT),
        move(Trigger.PROVIDED, State.EXECUTING, by(PERSON), ours=CONSENTED, names_proposal=True,
             guard=guards.gives_call, update=changes.give_action, says=CALL_GIVEN),
    ),
    *rows(State.AWAITING_REDIRECT,
        move(Trigger.PROVIDED, State.AWAITING_CONFIRMATION, by(PERSON), ours=SHOWN,
             guard=guards.gives_action, update=changes.give_action, says=ACTION_GIVEN),
    ),
)
PUBLISHED = (
    *rows(State.PROPOSED,
        move(Trigger.BEGIN_INFERENCE, State.AWAITING_INFERENCE,
             by(PRODUCER, PERSON, SPAWN, STALLS)),
        move(Trigger.TIMEOUT, State.DISMISSED, by(STALLS), says=NOT_BEGUN),
    ),
    *rows(State.INFERRING_INTENT,
        move(Trigger.INFERENCE_DONE, State.AWAITING_INFERENCE, by(INFERENCE), reads=True,
             guard=guards.intent_advances, update=changes.propose("intent", "context"),
             explain=guards.explain_intent, says=GOES_AHEAD),
        move(Trigger.INFERENCE_DONE, State.AWAITING_INTENT_CONFIRMATION, by(INFERENCE), reads=True,
             update=changes.propose("intent", "intent"), explain=guards.explain_intent),
        move(Trigger.INFERENCE_FAILED, State.AWAITING_INTENT_CLARIFICATION,
             by(INFERENCE, ORPHANS, STALLS), update=changes.failed),
    ),
    *rows(State.INFERRING_CONTEXT,
        move(Trigger.INFERENCE_DONE, State.AWAITING_INFERENCE, by(INFERENCE), reads=True,
             guard=guards.context_advances, update=changes.propose("context", "action"),
             explain=guards.explain_context, says=GOES_AHEAD),
        move(Trigger.INFERENCE_DONE, State.AWAITING_CONTEXT_CONFIRMATION, by(INFERENCE), reads=True,
             update=changes.propose("context", "context"), explain=guards.explain_context),
        move(Trigger.INFERENCE_FAILED, State.AWAITING_CONTEXT_CLARIFICATION,
             by(INFERENCE, ORPHANS, STALLS), update=changes.failed),
    ),
    *rows(State.INFERRING_ACTION,
        move(Trigger.INFERENCE_DONE, State.AWAITING_ACTION_CLARIFICATION, by(INFERENCE), reads=True,
             guard=guards.unclear, update=changes.propose("action", "action"),
             explain=guards.explain_unclear, says=UNCLEAR),
        move(Trigger.INFERENCE_DONE, State.EXECUTING, by(INFERENCE), reads=True,
             guard=guards.action_advances, update=changes.propose("action", "action"),
             explain=guards.explain_action, says=RUNS_AT_ONCE),
        move(Trigger.INFERENCE_DONE, State.AWAITING_CONFIRMATION, by(INFERENCE), reads=True,
             update=changes.propose("action", "action"), explain=guards.explain_action),
        move(Trigger.INFERENCE_FAILED, State.AWAITING_ACTION_CLARIFICATION,
             by(INFERENCE, ORPHANS, STALLS), update=changes.failed),
    ),

    *rows(State.AWAITING_INTENT_CONFIRMATION,
        move(Trigger.CONFIRMED, State.AWAITING_INFERENCE, by(PERSON), names_proposal=True,
             update=changes.towards("context")),
        move(Trigger.EDITED, State.AWAITING_INFERENCE, by(PERSON), names_proposal=True,
             guard=guards.edits_intent, refusal=NOT_INTENT, update=changes.edit_intent),
        move(Trigger.REDIRECTED, State.AWAITING_INFERENCE, by(PERSON),
             update=changes.redirected("intent")),
    ),
    *rows(State.AWAITING_INTENT_CLARIFICATION,
        move(Trigger.PROVIDED, State.AWAITING_INFERENCE, by(PERSON),
             update=changes.answered("intent")),
    ),
    *rows(State.AWAITING_CONTEXT_CONFIRMATION,
        move(Trigger.CONFIRMED, State.AWAITING_INFERENCE, by(PERSON), names_proposal=True,
             update=changes.towards("action")),
        move(Trigger.EDITED, State.AWAITING_INFERENCE, by(PERSON), names_proposal=True,
             guard=guards.edits_context, refusal=NOT_CONTEXT, update=changes.edit_context),
        move(Trigger.REDIRECTED, State.AWAITING_INFERENCE, by(PERSON),
             update=changes.redirected("context")),
    ),
    *rows(State.AWAITING_CONTEXT_CLARIFICATION,
        move(Trigger.PROVIDED, State.AWAITING_INFERENCE, by(PERSON),
             update=changes.answered("context")),
    ),
    *rows(State.AWAITING_ACTION_CLARIFICATION,
        move(Trigger.PROVIDED, State.AWAITING_CONFIRMATION, by(PERSON),
             guard=guards.gives_action, update=changes.give_action),
    ),
    *rows(State.AWAITING_CONFIRMATION,
        reenter(Trigger.EDITED, by(PERSON), names_proposal=True,
                guard=guards.edits_action, refusal=NOT_ACTION, update=changes.edit_action),
        move(Trigger.REDIRECTED, State.AWAITING_INFERENCE, by(PERSON),
             update=changes.redirected("action")),
        move(Trigger.REJECTED, State.DISMISSED, by(PERSON), update=changes.ended),
        move(Trigger.EXECUTE, State.EXECUTING, by(PERSON), names_proposal=True,
             guard=guards.runnable, refusal=NO_ACTION),
    ),

    *rows(State.EXECUTING,
        move(Trigger.EXECUTION_DONE, State.AWAITING_REVIEW, by(EXECUTION), reads=True,
             guard=guards.review_demanded, update=changes.executed, explain=guards.explain_review,
             says=NEEDS_REVIEW),
        move(Trigger.EXECUTION_DONE, State.DONE, by(EXECUTION), reads=True,
             update=changes.executed, explain=guards.explain_review),
        move(Trigger.EXECUTION_FAILED, State.AWAITING_REDIRECT, by(EXECUTION, ORPHANS, STALLS),
             update=changes.execution_failed),
    ),
    *rows(State.AWAITING_REVIEW,
        move(Trigger.REVIEW_ACCEPTED, State.DONE, by(PERSON), names_proposal=True),
        move(Trigger.TIMEOUT, State.DONE, by(STALLS), says=NOT_REVIEWED),
        move(Trigger.REDIRECTED, State.AWAITING_INFERENCE, by(PERSON),
             update=changes.redirected("action")),
    ),
    *rows(State.AWAITING_REDIRECT,
        move(Trigger.PROVIDED, State.AWAITING_INFERENCE, by(PERSON),
             update=changes.answered("action")),
        move(Trigger.REDIRECTED, State.AWAITING_INFERENCE, by(PERSON),
             update=changes.redirected("action")),
    ),

    *rows(WAITS,
        move(Trigger.CLEANUP_REQUESTED, State.CLEANING_UP, by(PERSON)),
    ),
    *rows(State.CLEANING_UP,
        move(Trigger.CLEANUP_SUCCEEDED, State.DONE_CLEANUP_SUCCESSFUL, by(CLEANUP),
             update=changes.cleaned),
        move(Trigger.CLEANUP_FAILED, State.DONE_CLEANUP_UNSUCCESSFUL, by(CLEANUP, ORPHANS, STALLS),
             update=changes.failed),
    ),
    *rows(State.DONE_CLEANUP_UNSUCCESSFUL,
        move(Trigger.RETRY_CLEANUP, State.CLEANING_UP, by(PERSON)),
        move(Trigger.ACCEPT_CLEANUP_FAILURE, State.DONE, by(PERSON)),
    ),
    *rows((*QUEUED, *INFERRING, *WAITS, *CLEANUP_LEFT),
        move(Trigger.DISMISSED_BY_USER, State.DISMISSED, by(PERSON), update=changes.ended),
    ),
    *rows(State.MONITORING,
        move(Trigger.DISMISSED_BY_USER, State.DISMISSED, by(PERSON),
             update=changes.ended, effect=CASCADE),
    ),
    *rows((*QUEUED, *INFERRING, State.EXECUTING, *WAITS, *CLEANUP_LEFT),
        move(Trigger.PARENT_FORCE_CLOSE, State.DISMISSED, by(CASCADE), update=changes.ended),
    ),
    *rows(State.MONITORING,
        move(Trigger.PARENT_FORCE_CLOSE, State.DISMISSED, by(CASCADE),
             update=changes.ended, effect=CASCADE),
    ),
)
OURS = (
    *rows(State.AWAITING_INFERENCE,
        carry(Trigger.INFERENCE_STARTED, State.INFERRING_INTENT, by(INFERENCE), ours=DEQUEUED,
              guard=guards.at_intent),
        carry(Trigger.INFERENCE_STARTED, State.INFERRING_CONTEXT, by(INFERENCE), ours=DEQUEUED,
              guard=guards.at_context),
        carry(Trigger.INFERENCE_STARTED, State.INFERRING_ACTION, by(INFERENCE), ours=DEQUEUED),
        move(Trigger.INFERENCE_FAILED, State.AWAITING_INTENT_CLARIFICATION, by(ORPHANS, STALLS),
             ours=UNANSWERED, guard=guards.at_intent, update=changes.failed),
        move(Trigger.INFERENCE_FAILED, State.AWAITING_CONTEXT_CLARIFICATION, by(ORPHANS, STALLS),
             ours=UNANSWERED, guard=guards.at_context, update=changes.failed),
        move(Trigger.INFERENCE_FAILED, State.AWAITING_ACTION_CLARIFICATION, by(ORPHANS, STALLS),
             ours=UNANSWERED, update=changes.failed),
        move(Trigger.BUDGET_EXCEEDED, State.AWAITING_INTENT_CLARIFICATION, by(INFERENCE),
             ours=UNANSWERED, guard=guards.at_intent, update=changes.failed),
        move(Trigger.BUDGET_EXCEEDED, State.AWAITING_CONTEXT_CLARIFICATION, by(INFERENCE),
             ours=UNANSWERED, guard=guards.at_context, update=changes.failed),
        move(Trigger.BUDGET_EXCEEDED, State.AWAITING_ACTION_CLARIFICATION, by(INFERENCE),
             ours=UNANSWERED, update=changes.failed),
    ),
    *rows(State.AWAITING_ACTION_CLARIFICATION,
        move(Trigger.PROVIDED, State.AWAITING_INFERENCE, by(PERSON), ours=ASKED_AGAIN,
             update=changes.answered("action")),
    ),
    *rows(State.AWAITING_INTENT_CLARIFICATION,
        move(Trigger.REDIRECTED, State.AWAITING_INFERENCE, by(PERSON), ours=EVERY_WAIT,
             update=changes.redirected("intent")),
    ),
    *rows(State.AWAITING_CONTEXT_CLARIFICATION,
        move(Trigger.REDIRECTED, State.AWAITING_INFERENCE, by(PERSON), ours=EVERY_WAIT,
             update=changes.redirected("context")),
    ),
    *rows(State.AWAITING_ACTION_CLARIFICATION,
        move(Trigger.REDIRECTED, State.AWAITING_INFERENCE, by(PERSON), ours=EVERY_WAIT,
             update=changes.redirected("action")),
    ),
    *rows(State.AWAITING_CONFIRMATION,
        move(Trigger.DECOMPOSED, State.MONITORING, by(PERSON), ours=PARTS,
             update=changes.decomposed, effect=SPAWN, spawns="children"),
    ),
    *rows(State.EXECUTING,
        move(Trigger.DECOMPOSED, State.MONITORING, by(EXECUTION), ours=PARTS,
             update=changes.decomposed, effect=SPAWN, spawns="children"),
    ),
    *rows(State.MONITORING,
        move(Trigger.CHILDREN_DONE, State.DISMISSED, by(CASCADE), ours=COUNTED,
             guard=guards.all_dismissed, update=changes.tallied, says=ALL_DISMISSED),
        move(Trigger.CHILDREN_DONE, State.DONE, by(CASCADE), ours=COUNTED,
             update=changes.tallied),
    ),
    *rows(State.EXECUTING,
        stay(Trigger.CANCEL_REQUESTED, by(PERSON), ours=STOPPABLE, interrupts=True),
        move(Trigger.CANCEL_CONFIRMED, State.DISMISSED, by(EXECUTION), ours=STOPPABLE,
             update=changes.ended),
    ),
    *rows((*QUEUED, *INFERRING, *WAITS, State.DONE_CLEANUP_UNSUCCESSFUL),
        move(Trigger.HANDED_OFF, State.HANDED_OFF, by(PERSON), ours=HANDABLE,
             update=changes.handed_off),
    ),
    *rows(State.MONITORING,
        move(Trigger.HANDED_OFF, State.HANDED_OFF, by(PERSON), ours=HANDABLE,
             update=changes.handed_off, effect=CASCADE),
    ),
    *rows(EXPIRING,
        move(Trigger.TIMEOUT, State.DISMISSED, by(STALLS), ours=EXPIRY),
    ),
)
# fmt: on

THREAD = Machine(
    name="thread",
    stages=STAGES,
    transitions=(*CORRECTIONS, *PUBLISHED, *OURS),
    says=Trigger.sentences(created="it was handed in"),
    title=lambda data: str((data.get("inciting") or {}).get("title") or ""),
    schema=2,
    migrate=with_renamed_policies,
    initial_data=changes.initial_data,
    payloads=Trigger.payloads(),
    cancel_triggers=(Trigger.DISMISSED_BY_USER, Trigger.CANCEL_REQUESTED),
    first_trigger=Trigger.BEGIN_INFERENCE,
    placement=Placement(host=changes.host),
    bookkeeping=Bookkeeping(bounds=changes.bounds),
    children=(
        Children(
            countdown="children",
            payload=changes.child_payload,
            advance_trigger=Trigger.CHILDREN_DONE,
        ),
    ),
    close_trigger=Trigger.PARENT_FORCE_CLOSE,
)
