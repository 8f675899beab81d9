"""What a thread owes in each of its states, and its timers and cards."""

from __future__ import annotations

from collections.abc import Callable

from interlock.kernel.effect import CASCADE, RESOLUTION
from interlock.kernel.machines.threads.effects import CLEANUP, EXECUTION, INFERENCE
from interlock.kernel.machines.threads.thread import guards, payloads, questions
from interlock.kernel.machines.threads.thread.names import State, Trigger
from interlock.kernel.payload import CardAnswer
from interlock.kernel.table import Active, Data, Terminal, Waiting
from interlock.kernel.timer import Timer

KICKOFF_MS = 2_000
INFERENCE_QUEUE_MS = 6 * 3_600_000
INFERENCE_MS = 15 * 60_000
EXECUTION_QUEUE_MS = 6 * 3_600_000
CLEANUP_MS = 3_600_000
RECHECK_MS = 60_000
REMIND_S = 86_400

CONFIRMATION = (("accept", "confirmed"), ("edit", "edited"), ("redirect", "redirected"))
CLARIFICATION = (("provide", "provided"), ("skip", "dismissed_by_user"))
CONSENT = (("approve", "execute"), ("edit", "edited"), ("reject", "rejected"))
REVIEW = (("done", "review_accepted"), ("redirect", "redirected"), ("drop", "dismissed_by_user"))
REDIRECT = (("provide", "provided"), ("skip", "dismissed_by_user"))
CLEANUP_FAILURE = (("retry", "retry_cleanup"), ("accept", "accept_cleanup_failure"))
PROPOSAL = (("begin", "begin_inference"), ("drop", "dismissed_by_user"))


def after(ms: int) -> Callable[[Data], int | None]:
    """Return a delay that is the same for every thread."""
    return lambda _: ms


def held(data: Data) -> bool:
    """Whether a thread stays proposed until a person begins it."""
    return bool(data.get("hold"))


def kickoff(data: Data) -> int | None:
    """Return when a thread begins by itself, where its producer does not begin it."""
    return None if held(data) else KICKOFF_MS


def reminder_of_held(data: Data) -> int | None:
    """Return when a person is reminded of a held thread."""
    return reminder(data) if held(data) else None


def expiry(data: Data) -> int | None:
    """Return when a wait of this thread ends it, where its producer asked for that."""
    seconds = data.get("expires_s")
    return seconds * 1_000 if seconds else None


def reminder(data: Data) -> int | None:
    """Return when a person is reminded first."""
    return int(data.get("remind_s", REMIND_S)) * 1_000


def irrevocable(data: Data) -> bool:
    """Whether the action must not be started a second time when its worker is lost."""
    action = data["proposals"].get("action") or {}
    return not (action.get("declared") or {}).get("idempotent", False)


REMIND = Timer("reminder", reminder, effect=RESOLUTION)
EXPIRE = Timer("expiry", expiry, Trigger.TIMEOUT)


def stall(ms: int, trigger: Trigger) -> Timer:
    """Return the timer of an active state that has had no outcome for far too long."""
    return Timer("stall", after(ms), trigger, payload={"code": "stalled"})


def asks(
    state: State,
    card: str,
    affordances: tuple[tuple[str, str], ...],
    question: Callable[[Data], str],
    shows: str = questions.ACTION,
    edited: type[CardAnswer] = payloads.EditedAction,
) -> Waiting:
    """Return a state in which a person is asked and reminded, until the expiry if there is one."""
    timers = (REMIND, EXPIRE)
    return Waiting(
        state,
        timers,
        notifies=RESOLUTION,
        card=card,
        question=question,
        shows=shows,
        affordances=affordances,
        answers={Trigger.EDITED: edited},
        offered_if={Trigger.EXECUTE: guards.is_runnable},
    )


def infers(state: State) -> Active:
    """Return a state into which the running inference is carried."""
    return Active(
        state,
        (stall(INFERENCE_MS, Trigger.INFERENCE_FAILED),),
        outcomes=(Trigger.INFERENCE_DONE, Trigger.INFERENCE_FAILED),
        crash=Trigger.INFERENCE_FAILED,
    )


STAGES = (
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
    ),
    Active(
        State.AWAITING_INFERENCE,
        (stall(INFERENCE_QUEUE_MS, Trigger.INFERENCE_FAILED),),
        effect=INFERENCE,
        outcomes=(Trigger.INFERENCE_FAILED, Trigger.BUDGET_EXCEEDED),
        crash=Trigger.INFERENCE_FAILED,
        exhausted=Trigger.INFERENCE_FAILED,
    ),
    infers(State.INFERRING_INTENT),
    infers(State.INFERRING_CONTEXT),
    infers(State.INFERRING_ACTION),
    asks(
        State.AWAITING_INTENT_CONFIRMATION,
        "confirmation",
        CONFIRMATION,
        questions.is_intent_right,
        questions.INTENT,
        payloads.EditedIntent,
    ),
    asks(
        State.AWAITING_INTENT_CLARIFICATION,
        "clarification",
        CLARIFICATION,
        questions.what_is(questions.INTENT),
        questions.INTENT,
    ),
    asks(
        State.AWAITING_CONTEXT_CONFIRMATION,
        "confirmation",
        CONFIRMATION,
        questions.is_context_right,
        questions.CONTEXT,
        payloads.EditedContext,
    ),
    asks(
        State.AWAITING_CONTEXT_CLARIFICATION,
        "clarification",
        CLARIFICATION,
        questions.what_is(questions.CONTEXT),
        questions.CONTEXT,
    ),
    asks(
        State.AWAITING_ACTION_CLARIFICATION,
        "clarification",
        CLARIFICATION,
        questions.what_is_the_action,
    ),
    asks(State.AWAITING_CONFIRMATION, "consent", CONSENT, questions.may_it_be_done),
    Active(
        State.EXECUTING,
        (stall(EXECUTION_QUEUE_MS, Trigger.EXECUTION_FAILED),),
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
    asks(State.AWAITING_REVIEW, "review", REVIEW, questions.is_result_right),
    asks(State.AWAITING_REDIRECT, "redirect", REDIRECT, questions.what_now),
    Waiting(
        State.MONITORING,
        (Timer("recheck", after(RECHECK_MS), effect=CASCADE),),
        countdown="children",
    ),
    Active(
        State.CLEANING_UP,
        (
            Timer(
                "stall",
                after(CLEANUP_MS),
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
        card="cleanup_failure",
        question=questions.try_cleanup_again,
        shows=questions.ACTION,
        affordances=CLEANUP_FAILURE,
    ),
    Terminal(State.DONE),
    Terminal(State.DISMISSED),
    Terminal(State.HANDED_OFF),
    Terminal(State.DONE_CLEANUP_SUCCESSFUL),
)
