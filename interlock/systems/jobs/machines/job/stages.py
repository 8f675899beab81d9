"""What a job owes in each of its states, and its timers and cards."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from interlock import RESOLUTION, Active, Terminal, Timer, Waiting, always
from interlock.system.tables import Meaning
from interlock.systems.jobs.machines.effects import (
    APPROVAL,
    REVIEWER,
    SCHEDULING,
    SLOT_RELEASE,
    WORKER,
)
from interlock.systems.jobs.machines.job import changes, choices, limits, questions
from interlock.systems.jobs.machines.job.data import JobData
from interlock.systems.jobs.machines.job.names import State, Trigger

STALLED = {"code": "stalled", "detail": "it gave no sign of life for too long"}
UNBEGUN = {
    "code": changes.UNBEGUN,
    "detail": "no worker took it up: they are busy, or none serves it",
}
OUT_OF_TIME = {"limit": "time"}
DRAFT = (("activate", Trigger.ACTIVATE), ("cancel", Trigger.CANCEL))
PENDING = (
    ("proceed", Trigger.DEPENDENCY_WAIVED),
    ("run", Trigger.RUN),
    ("cancel", Trigger.CANCEL),
)
SUSPENDED = (("resume", Trigger.RESUME), ("cancel", Trigger.CANCEL))
PAUSED = (("unpause", Trigger.UNPAUSE), ("cancel", Trigger.CANCEL))
REVIEW = (("run", Trigger.RUN), ("cancel", Trigger.CANCEL))
INTERVENTION = (
    ("resubmit", Trigger.RESUBMIT),
    ("review", Trigger.RESUBMIT_TO_REVIEW),
    ("terminate", Trigger.TERMINATE),
)
SIGN_OFF = (
    ("approve", Trigger.APPROVE),
    ("reject", Trigger.REJECT),
    ("cancel", Trigger.CANCEL),
)


def kickoff(data: JobData) -> int | None:
    """Return when a draft is activated by itself, where its producer does not activate it."""
    return None if data["hold"] else limits.KICKOFF_MS


def reminder(asked: Callable[[JobData], bool]) -> Timer:
    """Return the timer that reminds a person while one is asked."""
    return Timer(
        "reminder",
        lambda data: int(data["remind_s"]) * 1_000 if asked(data) else None,
        effect=RESOLUTION,
    )


def recheck(asked: Callable[[JobData], bool]) -> Timer:
    """Return the timer that tries again to move the job on while no person is asked."""
    return Timer(
        "recheck", lambda data: None if asked(data) else limits.RECHECK_MS, effect=SCHEDULING
    )


def silence(name: str) -> Timer:
    """Return the timer that every sign of life starts again."""
    return Timer(
        "stall",
        lambda data: int(data[name]) * 1_000,
        Trigger.RECOVERED,
        payload=STALLED,
        unbegun_payload=UNBEGUN,
        unbegun_deltas=uncounted_run if name == "running_s" else None,
    )


def uncounted_run(data: JobData) -> Mapping[str, int]:
    """Return the delta that takes back a run that never began.

    A job whose phases are all done only hands in its result: that was counted as no run.
    """
    return {} if changes.finished(data) else {"runs": -1}


def time_left(data: JobData) -> int | None:
    """Return how long the job may still work, where its time is limited.

    The wait for a free worker is no work: the effect that begins sets the timer to what is left.
    """
    left: int | None = data.get("time_left_ms")
    return None if left is None else left + max(data["running_s"], data["reviewing_s"]) * 1_000


def paused_for(data: JobData) -> int | None:
    """Return how long the pause lasts, where that is known."""
    for_s = data.get("paused_s")
    return int(for_s) * 1_000 if for_s else None


def until_ended(data: JobData) -> bool:
    """Whether the pause lasts until a person ends it."""
    return not data.get("paused_s")


def suspended_for(data: JobData) -> int | None:
    """Return how long the suspension lasts, where the scheduler ends it."""
    for_s = data.get("suspended_s")
    return int(for_s) * 1_000 if for_s else None


def until_resumed(data: JobData) -> bool:
    """Whether the suspension lasts until a person ends it."""
    return not data.get("suspended_s")


def signed_by_person(data: JobData) -> bool:
    """Whether a person must approve the work."""
    return not data["auto_approve"]


def backoff(data: JobData) -> int | None:
    """Return how long the job waits before it is tried again."""
    ms: int | None = data.get("backoff_ms")
    return ms


LIMIT = Timer("limit", time_left, Trigger.LIMIT_REACHED, payload=OUT_OF_TIME)
STAGES = (
    Waiting(
        State.DRAFT,
        (
            Timer("kickoff", kickoff, Trigger.ACTIVATE),
            reminder(changes.held),
        ),
        asks=changes.held,
        card="draft",
        question=questions.always_asks("It is a draft. Shall it be activated?"),
        affordances=DRAFT,
        words=choices.OF_DRAFT,
    ),
    Waiting(
        State.PENDING,
        (
            Timer("backoff", backoff, Trigger.BACKOFF_ELAPSED),
            reminder(changes.asks_pending),
            recheck(changes.asks_pending),
        ),
        asks=changes.asks_pending,
        notifies=RESOLUTION,
        offers=SCHEDULING,
        offered=changes.startable,
        slot=changes.has_slot,
        slot_release=SLOT_RELEASE,
        shown="waiting to run",
        card="pending",
        question=questions.run_it,
        affordances=PENDING,
        words=choices.OF_PENDING,
        offered_if={
            Trigger.DEPENDENCY_WAIVED: changes.starved,
            Trigger.RUN: lambda data: not changes.starved(data),
        },
        values={Trigger.DEPENDENCY_WAIVED: changes.lost_dependencies},
    ),
    Waiting(
        State.SUSPENDED,
        (Timer("until", suspended_for, Trigger.RESUME), reminder(until_resumed)),
        asks=until_resumed,
        card="suspended",
        question=questions.always_asks("It is suspended. Shall it be resumed?"),
        affordances=SUSPENDED,
        words=choices.OF_SUSPENDED,
    ),
    Active(
        State.RUNNING,
        (silence("running_s"), LIMIT),
        effect=WORKER,
        slot=changes.has_slot,
        slot_release=SLOT_RELEASE,
        outcomes=(
            Trigger.AGENT_COMPLETED,
            Trigger.STUCK,
            Trigger.RETRY,
            Trigger.PAUSE,
            Trigger.SUSPEND,
            Trigger.LIMIT_REACHED,
        ),
        failures=(Trigger.STUCK, Trigger.RETRY),
        crash=Trigger.RECOVERED,
        exhausted=Trigger.RECOVERED,
        # A lost worker is not restarted here: the job goes back to pending, where that is counted.
        once=always,
    ),
    Waiting(
        State.PAUSED,
        (Timer("until", paused_for, Trigger.UNPAUSE), reminder(until_ended)),
        asks=until_ended,
        slot=changes.has_slot,
        slot_release=SLOT_RELEASE,
        notifies=RESOLUTION,
        card="paused",
        question=questions.always_asks("It is paused. Shall it go on?"),
        affordances=PAUSED,
        words=choices.OF_PAUSED,
    ),
    Waiting(
        State.REVIEW_REQUIRED,
        (
            Timer("backoff", backoff, Trigger.BACKOFF_ELAPSED),
            reminder(changes.waits_by_hand),
            recheck(changes.waits_by_hand),
        ),
        asks=changes.waits_by_hand,
        notifies=RESOLUTION,
        offers=SCHEDULING,
        offered=changes.reviewable,
        shown="waiting for review",
        card="review_required",
        question=questions.always_asks("Its work is done. Shall it be reviewed now?"),
        affordances=REVIEW,
        words=choices.OF_REVIEW,
    ),
    Active(
        State.REVIEWING,
        (silence("reviewing_s"), LIMIT),
        effect=REVIEWER,
        outcomes=(Trigger.REVIEW_COMPLETED, Trigger.RETRY, Trigger.LIMIT_REACHED),
        failures=(Trigger.RETRY,),
        crash=Trigger.RECOVERED,
        exhausted=Trigger.RECOVERED,
        once=always,
    ),
    Waiting(
        State.INTERVENTION_REQUIRED,
        (reminder(always),),
        notifies=RESOLUTION,
        shown="waiting for help",
        card="intervention",
        question=questions.resubmit,
        affordances=INTERVENTION,
        words=choices.OF_INTERVENTION,
        values={Trigger.RESUBMIT: changes.phases_reached},
    ),
    Waiting(
        State.APPROVAL_REQUIRED,
        (
            reminder(signed_by_person),
            Timer(
                "recheck",
                lambda data: None if signed_by_person(data) else limits.RECHECK_MS,
                effect=APPROVAL,
            ),
        ),
        asks=signed_by_person,
        notifies=RESOLUTION,
        offers=APPROVAL,
        offered=lambda data: not signed_by_person(data),
        shown="waiting for sign-off",
        card="sign_off",
        question=questions.approve,
        inspect=questions.evidence_command,
        affordances=SIGN_OFF,
        words=choices.OF_SIGN_OFF,
        values={Trigger.REJECT: changes.phases_reached},
    ),
    Terminal(State.SUCCESS, is_success=True),
    Terminal(State.CANCELED),
    Terminal(
        State.FAILED,
        external="deprecated: imported records may be in it, and no row enters it",
        meaning=Meaning.FAILED,
    ),
)
