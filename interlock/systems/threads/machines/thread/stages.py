"""What a thread owes in each of its states, and its timers and cards."""

from __future__ import annotations

from collections.abc import Callable

from interlock import CASCADE, RESOLUTION, Active, CardAnswer, Terminal, Timer, Waiting
from interlock.system.tables import Meaning
from interlock.systems.threads.machines.effects import CLEANUP, EXECUTION, INFERENCE
from interlock.systems.threads.machines.thread import choices, guards, limits, payloads, questions
from interlock.systems.threads.machines.thread.data import ThreadData
from interlock.systems.threads.machines.thread.names import State, Trigger

CONFIRMATION = (
    ("accept", Trigger.CONFIRMED),
    ("edit", Trigger.EDITED),
    ("redirect", Trigger.REDIRECTED),
)
CLARIFICATION = (("provide", Trigger.PROVIDED), ("skip", Trigger.DISMISSED_BY_USER))
CONSENT = (("approve", Trigger.EXECUTE), ("edit", Trigger.EDITED), ("reject", Trigger.REJECTED))
REVIEW = (
    ("done", Trigger.REVIEW_ACCEPTED),
    ("redirect", Trigger.REDIRECTED),
    ("drop", Trigger.DISMISSED_BY_USER),
)
REDIRECT = (("provide", Trigger.PROVIDED), ("skip", Trigger.DISMISSED_BY_USER))
CLEANUP_FAILURE = (("retry", Trigger.RETRY_CLEANUP), ("accept", Trigger.ACCEPT_CLEANUP_FAILURE))
PROPOSAL = (("begin", Trigger.BEGIN_INFERENCE), ("drop", Trigger.DISMISSED_BY_USER))


def after(ms: int) -> Callable[[ThreadData], int | None]:
    """Return a delay that is the same for every thread."""
    return lambda _: ms


def held(data: ThreadData) -> bool:
    """Whether a thread stays proposed until a person begins it."""
    return bool(data.get("hold"))


def kickoff(data: ThreadData) -> int | None:
    """Return when a thread begins by itself, where its producer does not begin it."""
    return None if held(data) else limits.KICKOFF_MS


def reminder_of_held(data: ThreadData) -> int | None:
    """Return when a person is reminded of a held thread."""
    return reminder(data) if held(data) else None


def expiry(data: ThreadData) -> int | None:
    """Return when a wait of this thread ends it, where its producer asked for that."""
    seconds = data.get("expires_s")
    return seconds * 1_000 if seconds else None


def reminder(data: ThreadData) -> int | None:
    """Return when a person is reminded first."""
    return int(data.get("remind_s", limits.REMIND_S)) * 1_000


def irrevocable(data: ThreadData) -> bool:
    """Whether the action must not be started a second time when its worker is lost."""
    action = data["proposals"].get("action")
    declared = action and action.get("declared")
    return not (declared and declared.get("idempotent", False))


REMIND = Timer("reminder", reminder, effect=RESOLUTION)
EXPIRE = Timer("expiry", expiry, Trigger.TIMEOUT)


def stall(ms: int, trigger: Trigger) -> Timer:
    """Return the timer of an active state that has had no outcome for far too long."""
    return Timer("stall", after(ms), trigger, payload={"code": "stalled"})


def asks(
    state: State,
    shown: str,
    card: str,
    affordances: tuple[tuple[str, str], ...],
    question: Callable[[ThreadData], str],
    shows: str = questions.ACTION,
    edited: type[CardAnswer] = payloads.EditedAction,
    *,
    words: choices.Words | Callable[[ThreadData], choices.Words],
) -> Waiting:
    """Return a state in which a person is asked and reminded, until the expiry if there is one."""
    timers = (REMIND, EXPIRE)
    return Waiting(
        state,
        timers,
        shown=shown,
        notifies=RESOLUTION,
        card=card,
        question=question,
        shows=shows,
        affordances=affordances,
        words=words,
        answers={Trigger.EDITED: edited},
        offered_if={Trigger.EXECUTE: guards.is_runnable},
    )


def infers(state: State, shown: str) -> Active:
    """Return a state into which the running inference is carried."""
    return Active(
        state,
        (stall(limits.INFERENCE_MS, Trigger.INFERENCE_FAILED),),
        outcomes=(Trigger.INFERENCE_DONE, Trigger.INFERENCE_FAILED),
        crash=Trigger.INFERENCE_FAILED,
        shown=shown,
    )


STAGES: tuple[Active | Waiting | Terminal, ...] = (
    Waiting(
        State.PROPOSED,
        (
            Timer("kickoff", kickoff, Trigger.BEGIN_INFERENCE),
            Timer("reminder", reminder_of_held, effect=RESOLUTION),
            EXPIRE,
        ),
        asks=held,
        notifies=RESOLUTION,
        card="proposal",
        shows=questions.ACTION,
        affordances=PROPOSAL,
        words=choices.OF_PROPOSAL,
    ),
    Active(
        State.AWAITING_INFERENCE,
        (stall(limits.INFERENCE_QUEUE_MS, Trigger.INFERENCE_FAILED),),
        shown="waiting for the model",
        effect=INFERENCE,
        outcomes=(Trigger.INFERENCE_FAILED, Trigger.BUDGET_EXCEEDED),
        crash=Trigger.INFERENCE_FAILED,
        exhausted=Trigger.INFERENCE_FAILED,
    ),
    infers(State.INFERRING_INTENT, "working out what is wanted"),
    infers(State.INFERRING_CONTEXT, "working out what it is about"),
    infers(State.INFERRING_ACTION, "choosing the action"),
    asks(
        State.AWAITING_INTENT_CONFIRMATION,
        "waiting for approval of the intent",
        "confirmation",
        CONFIRMATION,
        questions.is_intent_right,
        questions.INTENT,
        payloads.EditedIntent,
        words=choices.OF_INTENT,
    ),
    asks(
        State.AWAITING_INTENT_CLARIFICATION,
        "waiting to be told the intent",
        "clarification",
        CLARIFICATION,
        questions.what_is(questions.INTENT),
        questions.INTENT,
        words=choices.of_clarification(questions.INTENT),
    ),
    asks(
        State.AWAITING_CONTEXT_CONFIRMATION,
        "waiting for approval of the context",
        "confirmation",
        CONFIRMATION,
        questions.is_context_right,
        questions.CONTEXT,
        payloads.EditedContext,
        words=choices.OF_CONTEXT,
    ),
    asks(
        State.AWAITING_CONTEXT_CLARIFICATION,
        "waiting to be told the context",
        "clarification",
        CLARIFICATION,
        questions.what_is(questions.CONTEXT),
        questions.CONTEXT,
        words=choices.of_clarification(questions.CONTEXT),
    ),
    asks(
        State.AWAITING_ACTION_CLARIFICATION,
        "waiting to be told the action",
        "clarification",
        CLARIFICATION,
        questions.what_is_the_action,
        words=choices.of_clarification(questions.ACTION),
    ),
    asks(
        State.AWAITING_CONFIRMATION,
        "waiting for approval",
        "consent",
        CONSENT,
        questions.may_it_be_done,
        words=choices.of_consent,
    ),
    Active(
        State.EXECUTING,
        (stall(limits.EXECUTION_QUEUE_MS, Trigger.EXECUTION_FAILED),),
        effect=EXECUTION,
        outcomes=(
            Trigger.EXECUTION_DONE,
            Trigger.EXECUTION_FAILED,
            Trigger.DECOMPOSED,
            Trigger.CANCEL_CONFIRMED,
        ),
        crash=Trigger.EXECUTION_FAILED,
        exhausted=Trigger.EXECUTION_FAILED,
        once=irrevocable,
    ),
    asks(
        State.AWAITING_REVIEW,
        "waiting for review",
        "review",
        REVIEW,
        questions.is_result_right,
        words=choices.OF_REVIEW,
    ),
    asks(
        State.AWAITING_REDIRECT,
        "waiting to be told what now",
        "redirect",
        REDIRECT,
        questions.what_now,
        words=choices.of_redirect,
    ),
    Waiting(
        State.MONITORING,
        (Timer("recheck", after(limits.RECHECK_MS), effect=CASCADE),),
        countdown="children",
        shown="waiting for its parts",
    ),
    Active(
        State.CLEANING_UP,
        (
            Timer(
                "stall",
                after(limits.CLEANUP_MS),
                Trigger.CLEANUP_FAILED,
                payload={"code": "stalled", "detail": "it was begun, and not done within an hour"},
                unbegun_payload={
                    "code": questions.UNBEGUN,
                    "detail": "no worker began it within an hour",
                },
            ),
        ),
        effect=CLEANUP,
        outcomes=(Trigger.CLEANUP_SUCCEEDED, Trigger.CLEANUP_FAILED),
        exhausted=Trigger.CLEANUP_FAILED,
    ),
    Waiting(
        State.DONE_CLEANUP_UNSUCCESSFUL,
        (REMIND,),
        notifies=RESOLUTION,
        shown="cleanup failed",
        card="cleanup_failure",
        question=questions.try_cleanup_again,
        shows=questions.ACTION,
        affordances=CLEANUP_FAILURE,
        words=choices.OF_CLEANUP_FAILURE,
    ),
    Terminal(State.DONE, meaning=Meaning.DONE),
    Terminal(State.DISMISSED, shown="dropped"),
    Terminal(State.HANDED_OFF),
    Terminal(State.DONE_CLEANUP_SUCCESSFUL, shown="ended, cleaned up"),
)
