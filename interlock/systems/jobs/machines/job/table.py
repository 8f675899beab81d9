"""The job's table: the published matrix, pause and health, then ours, each with its reason."""

from __future__ import annotations

from interlock import (
    CASCADE,
    NOTIFICATION,
    ORPHANS,
    PERSON,
    PRODUCER,
    STALLS,
    Ask,
    Bookkeeping,
    Machine,
    by,
    move,
    reenter,
    rows,
    stay,
)
from interlock.system.tables import Placement, Prerequisites
from interlock.systems.jobs.machines.effects import (
    APPROVAL,
    MANIFEST,
    REVIEWER,
    SCHEDULING,
    SUBSCRIPTION,
    WORKER,
)
from interlock.systems.jobs.machines.job import changes, following, repairs
from interlock.systems.jobs.machines.job.data import JobData
from interlock.systems.jobs.machines.job.names import State, Trigger
from interlock.systems.jobs.machines.job.stages import STAGES
from interlock.systems.jobs.machines.stewards import only_stewards, steward

# Why a guard refuses.
NOT_YET = (
    "a dependency is missing or lost, or it waits for a person or before a retry: "
    "`interlock job show` says which"
)
ALREADY_MET = "its dependencies are met already, or one of them is lost"
ALREADY_LOST = "it is known already that this dependency is lost"
LAST_PHASE = "it is in its last phase, which ends with agent_completed"
HELD_ALREADY = "it is suspended already, until a person resumes it"


def not_waivable(ask: Ask[JobData]) -> str:
    """Return why a dependency is not waived."""
    if not steward(ask):
        return only_stewards(ask)
    if not ask.data["lost"]:
        return "it has lost no dependency"
    return f"{ask.payload['dependency']} is not among the dependencies that it has lost"


def no_phase(ask: Ask[JobData]) -> str:
    """Return why the job does not go back to a phase."""
    if not steward(ask):
        return only_stewards(ask)
    reached = ", ".join(changes.phases_reached(ask.data)["phase"])
    return f"{ask.payload['phase']!r} is none of the phases that it has come to: {reached}"


def not_resubmitted(ask: Ask[JobData]) -> str:
    """Return why the job is not worked on again."""
    return no_phase(ask) if not changes.knows_phase(ask) else _no_place(ask)


def not_reviewed_again(ask: Ask[JobData]) -> str:
    """Return why the job is not reviewed again."""
    return only_stewards(ask) if not steward(ask) else _no_place(ask)


def _no_place(ask: Ask[JobData]) -> str:
    return (
        f"its {repairs.placeless(ask)} can only be a capability: the job has only capabilities, "
        "and no host on which a command or a model would run; create a new job for that"
    )


DEPENDENCIES = "dependencies"
SUSPENDABLE = (
    State.DRAFT,
    State.PENDING,
    State.RUNNING,
    State.REVIEW_REQUIRED,
    State.REVIEWING,
    State.APPROVAL_REQUIRED,
    State.INTERVENTION_REQUIRED,
)
SUSPENDABLE_BY_PERSON = tuple(
    state for state in SUSPENDABLE if state not in (State.PENDING, State.RUNNING)
)
CANCELABLE = (*SUSPENDABLE, State.SUSPENDED)
FORCED = (
    State.PENDING,
    State.SUSPENDED,
    State.RUNNING,
    State.PAUSED,
    State.REVIEW_REQUIRED,
    State.REVIEWING,
    State.INTERVENTION_REQUIRED,
    State.APPROVAL_REQUIRED,
)
IDLE_GATES = (State.REVIEW_REQUIRED, State.INTERVENTION_REQUIRED, State.APPROVAL_REQUIRED)
WAITS_TO_RUN = (State.PENDING, State.REVIEW_REQUIRED)
AT_WORK = (State.RUNNING, State.REVIEWING)

# Why a row is ours.
CONFIG = "the page says in words that a draft is configured; its matrix has no such row"
ALONE = "a job that depends on no other needs no subscription"
MET = "the page names DEPENDENCIES_MET as a way into PENDING and gives no row"
LOST = "the page does not say what happens to jobs that depend on a canceled job"
PLACE = "it reports why it does not start yet"
BY_HAND = (
    "the page runs one command at a time; here a person asks for a step, or a run to the next gate"
)
PHASES = "its manifest has phases, its matrix none; they follow each other while it runs"
STUCK = "a worker that cannot go on asks for a person; the page has only its completion"
RETRY = "a worker or reviewer may ask to be tried again; bounded, then a person is asked"
GIVEN_UP = "a job that is lost again and again is given to a person"
LIMITED = "its limits stop it before it uses more, and a person is asked"
HALT = "the page says that every active state can be suspended; its matrix has no row for this one"
HOLD = "the scheduler suspends for some time; a person can make that last until it is resumed"
FORCE = "the page names FORCE_SUCCESS and no state; a steward, with a reason, from any but a draft"
BACK = "its command line can go back to an earlier phase; nothing may be at work meanwhile"

# Why a single row moved a record.
LOST_TOO_OFTEN = "its worker or reviewer was lost or silent too often"
NO_TRY_LEFT = "its worker or reviewer asked for another try, and none is left"

# fmt: off
PUBLISHED = (
    *rows(State.DRAFT,
        move(Trigger.ACTIVATE, State.PENDING, by(PRODUCER, PERSON, STALLS),
             guard=changes.depends, guarded=ALONE, effect=SUBSCRIPTION, spawns=DEPENDENCIES),
    ),
    *rows(State.PENDING,
        move(Trigger.SCHEDULED, State.RUNNING, by(SCHEDULING),
             guard=changes.may_start, refusal=NOT_YET, update=changes.started),
    ),
    *rows(State.SUSPENDED,
        move(Trigger.RESUME, State.PENDING, by(STALLS, PERSON),
             update=changes.resumed, effect=SUBSCRIPTION, spawns=DEPENDENCIES),
    ),
    *rows(State.RUNNING,
        move(Trigger.AGENT_COMPLETED, State.REVIEW_REQUIRED, by(WORKER), update=changes.completed),
    ),
    *rows(State.REVIEW_REQUIRED,
        move(Trigger.STEP, State.REVIEWING, by(SCHEDULING), update=changes.reviewing,
             follows=following.step),
    ),
    *rows(State.REVIEWING,
        move(Trigger.REVIEW_COMPLETED, State.APPROVAL_REQUIRED, by(REVIEWER),
             guard=changes.approved, update=changes.reviewed, follows=following.review),
        move(Trigger.REVIEW_COMPLETED, State.INTERVENTION_REQUIRED, by(REVIEWER),
             update=changes.reviewed),
    ),
    *rows(State.APPROVAL_REQUIRED,
        move(Trigger.APPROVE, State.SUCCESS, by(APPROVAL, PERSON), names_proposal=True,
             guard=changes.signed_off, refusal=only_stewards, update=changes.ended,
             follows=following.sign_off),
        move(Trigger.REJECT, State.PENDING, by(PERSON), names_proposal=True,
             guard=changes.knows_phase, refusal=no_phase, update=repairs.resubmitted),
    ),
    *rows(State.INTERVENTION_REQUIRED,
        move(Trigger.RESUBMIT, State.PENDING, by(PERSON), bounds=True,
             guard=repairs.may_resubmit, refusal=not_resubmitted,
             update=repairs.resubmitted),
        move(Trigger.RESUBMIT_TO_REVIEW, State.REVIEW_REQUIRED, by(PERSON), bounds=True,
             guard=repairs.may_review_again, refusal=not_reviewed_again,
             update=repairs.resubmitted_to_review),
        move(Trigger.TERMINATE, State.CANCELED, by(PERSON),
             guard=steward, refusal=only_stewards, update=changes.ended),
    ),
    *rows(State.RUNNING,
        move(Trigger.PAUSE, State.PAUSED, by(WORKER, PERSON), update=changes.paused),
    ),
    *rows(State.PAUSED,
        move(Trigger.UNPAUSE, State.RUNNING, by(STALLS, PERSON), update=changes.unpaused),
        move(Trigger.CANCEL, State.CANCELED, by(PRODUCER, PERSON), update=changes.ended),
    ),
    *rows(State.RUNNING,
        move(Trigger.RECOVERED, State.PENDING, by(ORPHANS, STALLS),
             guard=changes.may_recover, update=changes.recovered),
    ),
    *rows(State.REVIEWING,
        move(Trigger.RECOVERED, State.REVIEW_REQUIRED, by(ORPHANS, STALLS),
             guard=changes.may_recover, update=changes.recovered),
    ),
    *rows(SUSPENDABLE_BY_PERSON,
        move(Trigger.SUSPEND, State.SUSPENDED, by(PERSON), update=changes.suspended),
    ),
    *rows(State.PENDING,
        move(Trigger.SUSPEND, State.SUSPENDED, by(SCHEDULING, PERSON), update=changes.suspended),
    ),
    *rows(State.RUNNING,
        move(Trigger.SUSPEND, State.SUSPENDED, by(WORKER, PERSON), update=changes.suspended),
    ),
    *rows(CANCELABLE,
        move(Trigger.CANCEL, State.CANCELED, by(PRODUCER, PERSON), update=changes.ended),
    ),
)
OURS = (
    *rows(State.DRAFT,
        reenter(Trigger.CONFIGURE, by(PRODUCER, PERSON), bounds=True, ours=CONFIG,
                update=changes.configured),
        move(Trigger.ACTIVATE, State.PENDING, by(PRODUCER, PERSON, STALLS), ours=ALONE),
    ),
    *rows(State.PENDING,
        reenter(Trigger.DEPENDENCIES_MET, by(CASCADE, SCHEDULING), ours=MET,
                guard=changes.all_met, refusal=ALREADY_MET, update=changes.met,
                follows=following.no_dependencies),
    ),
    *rows(State.SUSPENDED,
        stay(Trigger.DEPENDENCIES_MET, by(CASCADE, SCHEDULING), ours=MET,
             guard=changes.all_met, refusal=ALREADY_MET, update=changes.met),
    ),
    *rows((State.PENDING, State.SUSPENDED),
        move(Trigger.DEPENDENCY_LOST, State.CANCELED,
             by(NOTIFICATION, SUBSCRIPTION, SCHEDULING), ours=LOST,
             guard=changes.canceled_by_loss, update=changes.ended_by_loss),
    ),
    *rows(State.PENDING,
        reenter(Trigger.DEPENDENCY_LOST, by(NOTIFICATION, SUBSCRIPTION, SCHEDULING), ours=LOST,
                guard=changes.newly_lost, refusal=ALREADY_LOST, update=changes.lost),
    ),
    *rows(State.SUSPENDED,
        stay(Trigger.DEPENDENCY_LOST, by(NOTIFICATION, SUBSCRIPTION, SCHEDULING), ours=LOST,
             guard=changes.newly_lost, refusal=ALREADY_LOST, update=changes.lost),
    ),
    *rows(State.PENDING,
        reenter(Trigger.DEPENDENCY_WAIVED, by(PERSON), ours=LOST,
                guard=changes.may_be_waived, refusal=not_waivable,
                update=changes.waived, effect=SCHEDULING),
        stay(Trigger.SLOT_AWAITED, by(SCHEDULING), ours=PLACE, update=changes.slot_awaited),
    ),
    *rows(WAITS_TO_RUN,
        reenter(Trigger.BACKOFF_ELAPSED, by(STALLS), ours=RETRY, update=changes.resumed),
        reenter(Trigger.RUN, by(PERSON), ours=BY_HAND, update=changes.run_until),
    ),
    *rows(State.RUNNING,
        stay(Trigger.PHASE_COMPLETED, by(WORKER), ours=PHASES,
             guard=changes.more_phases, refusal=LAST_PHASE,
             update=changes.phase_completed),
        move(Trigger.STUCK, State.INTERVENTION_REQUIRED, by(WORKER), ours=STUCK,
             update=changes.stuck),
        move(Trigger.RETRY, State.PENDING, by(WORKER), ours=RETRY,
             guard=changes.may_retry, update=changes.retried),
        move(Trigger.RETRY, State.INTERVENTION_REQUIRED, by(WORKER), ours=RETRY,
             update=changes.retries_exhausted, says=NO_TRY_LEFT),
    ),
    *rows(State.REVIEWING,
        move(Trigger.RETRY, State.REVIEW_REQUIRED, by(REVIEWER), ours=RETRY,
             guard=changes.may_retry, update=changes.review_retried),
        move(Trigger.RETRY, State.INTERVENTION_REQUIRED, by(REVIEWER), ours=RETRY,
             update=changes.given_up, says=NO_TRY_LEFT),
    ),
    *rows(AT_WORK,
        move(Trigger.RECOVERED, State.INTERVENTION_REQUIRED, by(ORPHANS, STALLS), ours=GIVEN_UP,
             update=changes.given_up, says=LOST_TOO_OFTEN),
    ),
    *rows(WAITS_TO_RUN,
        move(Trigger.LIMIT_REACHED, State.INTERVENTION_REQUIRED, by(SCHEDULING), ours=LIMITED,
             update=changes.limited),
    ),
    *rows(State.RUNNING,
        move(Trigger.LIMIT_REACHED, State.INTERVENTION_REQUIRED, by(WORKER, STALLS), ours=LIMITED,
             update=changes.limited),
    ),
    *rows(State.REVIEWING,
        move(Trigger.LIMIT_REACHED, State.INTERVENTION_REQUIRED, by(REVIEWER, STALLS), ours=LIMITED,
             update=changes.limited),
    ),
    *rows(State.PAUSED,
        move(Trigger.SUSPEND, State.SUSPENDED, by(PERSON), ours=HALT, update=changes.suspended),
    ),
    *rows(State.SUSPENDED,
        reenter(Trigger.SUSPEND, by(PERSON), ours=HOLD,
                guard=changes.ends_by_itself, refusal=HELD_ALREADY,
                update=changes.suspended),
    ),
    *rows(FORCED,
        move(Trigger.FORCE_SUCCESS, State.SUCCESS, by(PERSON), names_proposal=True, ours=FORCE,
             guard=steward, refusal=only_stewards, update=changes.ended),
    ),
    *rows(State.PENDING,
        reenter(Trigger.RESTEP, by(PERSON), ours=BACK,
                guard=changes.knows_phase, refusal=no_phase, update=repairs.resubmitted),
    ),
    *rows(State.SUSPENDED,
        stay(Trigger.RESTEP, by(PERSON), ours=BACK,
             guard=changes.knows_phase, refusal=no_phase, update=repairs.resubmitted),
    ),
    *rows(IDLE_GATES,
        move(Trigger.RESTEP, State.PENDING, by(PERSON), ours=BACK,
             guard=changes.knows_phase, refusal=no_phase, update=repairs.resubmitted),
    ),
)
# fmt: on

JOB = Machine(
    name="job",
    stages=STAGES,
    transitions=(*PUBLISHED, *OURS),
    says=Trigger.sentences(created="it was handed in"),
    initial_data=changes.initial_data,
    payloads=Trigger.payloads(),
    first_trigger=Trigger.ACTIVATE,
    cancel_triggers=(Trigger.CANCEL,),
    placement=Placement(
        id_prefix=("graph",),
        host=changes.host,
        # The last is of answers, which name another worker for one phase.
        commands=("phases.*.worker.command", "review.command", "worker.command"),
    ),
    bookkeeping=Bookkeeping(bounds=changes.bounds),
    prerequisites=Prerequisites(
        countdown=DEPENDENCIES,
        advance_trigger=Trigger.DEPENDENCIES_MET,
        lost_trigger=Trigger.DEPENDENCY_LOST,
    ),
    mirror=MANIFEST,
)
