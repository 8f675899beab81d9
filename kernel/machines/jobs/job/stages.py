"""What the kernel owes a job in each of its states: effects, timers, cards."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from interlock.kernel.effect import RESOLUTION, TELL
from interlock.kernel.machines.jobs.effects import APPROVAL, REVIEWER, SCHEDULING, WORKER
from interlock.kernel.machines.jobs.job import changes as do
from interlock.kernel.machines.jobs.job.names import State, Trigger
from interlock.kernel.table import Active, Data, Terminal, Timer, Waiting

KICKOFF_MS = 60_000
RECHECK_MS = 900_000

STALLED = {"code": "stalled", "detail": "it gave no sign of life for too long"}
UNBEGUN = {"code": do.UNBEGUN, "detail": "no worker took it up: they are busy, or none serves it"}
OUT_OF_TIME = {"limit": "time"}
DRAFT = (("activate", "activate"), ("cancel", "cancel"))
PENDING = (("proceed", "dependency_waived"), ("run", "run"), ("cancel", "cancel"))
SUSPENDED = (("resume", "resume"), ("cancel", "cancel"))
PAUSED = (("unpause", "unpause"), ("cancel", "cancel"))
REVIEW = (("run", "run"), ("cancel", "cancel"))
INTERVENTION = (
    ("resubmit", "resubmit"),
    ("review", "resubmit_to_review"),
    ("terminate", "terminate"),
)
SIGN_OFF = (("approve", "approve"), ("reject", "reject"), ("cancel", "cancel"))


def reminder(asked: Callable[[Data], bool]) -> Timer:
    """Return the timer that reminds of what only a person can settle."""
    return Timer(
        "reminder",
        lambda data: int(data["remind_s"]) * 1_000 if asked(data) else None,
        effect=RESOLUTION,
    )


def recheck(asked: Callable[[Data], bool]) -> Timer:
    """Return the timer that looks again at what no person is asked about."""
    return Timer("recheck", lambda data: None if asked(data) else RECHECK_MS, effect=SCHEDULING)


def silence(name: str) -> Timer:
    """Return the timer that each sign of life sets anew."""
    return Timer(
        "stall",
        lambda data: int(data[name]) * 1_000,
        Trigger.RECOVERED,
        payload=STALLED,
        unbegun_payload=UNBEGUN,
        unbegun_deltas=no_run if name == "running_s" else None,
    )


def no_run(data: Data) -> Mapping[str, int]:
    """Return what takes a run back that never began; what only hands in what is done is none."""
    return {} if do.finished(data) else {"runs": -1}


def time_left(data: Data) -> int | None:
    """Return how long it may still work, where its time is limited.

    To wait for a free worker is no work: who begins sets the timer anew, to what is left then.
    """
    left: int | None = data.get("time_left_ms")
    return None if left is None else left + max(data["running_s"], data["reviewing_s"]) * 1_000


def paused_for(data: Data) -> int | None:
    """Return how long it is paused, where that is known."""
    for_s = data.get("paused_s")
    return int(for_s) * 1_000 if for_s else None


def until_lifted(data: Data) -> bool:
    """Whether it is paused until somebody lifts that."""
    return not data.get("paused_s")


def signed_by_person(data: Data) -> bool:
    """Whether a person has to sign it off."""
    return not data["auto_approve"]


def backoff(data: Data) -> int | None:
    """Return how long it waits before it is tried again."""
    ms: int | None = data.get("backoff_ms")
    return ms


LIMIT = Timer("limit", time_left, Trigger.LIMIT_REACHED, payload=OUT_OF_TIME)
STAGES = (
    Waiting(
        State.DRAFT,
        (
            Timer("kickoff", lambda d: None if d["hold"] else KICKOFF_MS, Trigger.ACTIVATE),
            reminder(do.held),
        ),
        asks=do.held,
        card="draft",
        affordances=DRAFT,
    ),
    Waiting(
        State.PENDING,
        (
            Timer("backoff", backoff, Trigger.BACKOFF_ELAPSED),
            reminder(do.asks_pending),
            recheck(do.asks_pending),
        ),
        asks=do.asks_pending,
        notifies=RESOLUTION,
        offers=SCHEDULING,
        offered=do.startable,
        has_slot=do.keeps_slot,
        card="pending",
        affordances=PENDING,
    ),
    Waiting(
        State.SUSPENDED,
        (reminder(lambda _: True),),
        card="suspended",
        affordances=SUSPENDED,
    ),
    Active(
        State.RUNNING,
        (silence("running_s"), LIMIT),
        effect=WORKER,
        has_slot=do.keeps_slot,
        outcomes=(
            Trigger.AGENT_COMPLETED,
            Trigger.STUCK,
            Trigger.RETRY,
            Trigger.PAUSE,
            Trigger.SUSPEND,
            Trigger.LIMIT_REACHED,
        ),
        crash=Trigger.RECOVERED,
        exhausted=Trigger.RECOVERED,
        # A lost worker is recovered by way of pending, where it is counted; none starts beside it.
        once=lambda _: True,
    ),
    Waiting(
        State.PAUSED,
        (Timer("until", paused_for, Trigger.UNPAUSE), reminder(until_lifted)),
        asks=until_lifted,
        has_slot=do.keeps_slot,
        notifies=RESOLUTION,
        card="paused",
        affordances=PAUSED,
    ),
    Waiting(
        State.REVIEW_REQUIRED,
        (
            Timer("backoff", backoff, Trigger.BACKOFF_ELAPSED),
            reminder(do.waits_for_word),
            recheck(do.waits_for_word),
        ),
        asks=do.waits_for_word,
        notifies=RESOLUTION,
        offers=SCHEDULING,
        offered=do.reviewable,
        card="review_required",
        affordances=REVIEW,
    ),
    Active(
        State.REVIEWING,
        (silence("reviewing_s"), LIMIT),
        effect=REVIEWER,
        outcomes=(Trigger.REVIEW_COMPLETED, Trigger.RETRY, Trigger.LIMIT_REACHED),
        crash=Trigger.RECOVERED,
        exhausted=Trigger.RECOVERED,
        once=lambda _: True,
    ),
    Waiting(
        State.INTERVENTION_REQUIRED,
        (reminder(lambda _: True),),
        notifies=RESOLUTION,
        card="intervention",
        affordances=INTERVENTION,
    ),
    Waiting(
        State.APPROVAL_REQUIRED,
        (
            reminder(signed_by_person),
            Timer(
                "recheck",
                lambda data: None if signed_by_person(data) else RECHECK_MS,
                effect=APPROVAL,
            ),
        ),
        asks=signed_by_person,
        notifies=RESOLUTION,
        offers=APPROVAL,
        offered=lambda data: not signed_by_person(data),
        card="sign_off",
        affordances=SIGN_OFF,
    ),
    Terminal(State.SUCCESS, tells=TELL),
    Terminal(State.CANCELED, tells=TELL),
    Terminal(
        State.FAILED,
        external="deprecated: kept for records of others, and nothing of ours enters it",
        tells=TELL,
    ),
)
