"""The job's table: the published matrix, pause and health, then ours, each with its reason."""

from __future__ import annotations

from interlock.kernel.machine import Machine
from interlock.kernel.machines.jobs.effects import MANIFEST, REGISTRATION, SCHEDULING, VACANCY
from interlock.kernel.machines.jobs.job import changes as do
from interlock.kernel.machines.jobs.job import payloads as carry
from interlock.kernel.machines.jobs.job.names import State as S
from interlock.kernel.machines.jobs.job.names import Trigger as T
from interlock.kernel.machines.jobs.job.stages import STAGES
from interlock.kernel.table import Loop, Transition

DEPENDENCIES = "dependencies"
SUSPENDABLE = (
    S.DRAFT,
    S.PENDING,
    S.RUNNING,
    S.REVIEW_REQUIRED,
    S.REVIEWING,
    S.APPROVAL_REQUIRED,
    S.INTERVENTION_REQUIRED,
)
CANCELABLE = (*SUSPENDABLE, S.SUSPENDED)
FORCED = (
    S.PENDING,
    S.SUSPENDED,
    S.RUNNING,
    S.PAUSED,
    S.REVIEW_REQUIRED,
    S.REVIEWING,
    S.INTERVENTION_REQUIRED,
    S.APPROVAL_REQUIRED,
)
IDLE_GATES = (S.REVIEW_REQUIRED, S.INTERVENTION_REQUIRED, S.APPROVAL_REQUIRED)

CONFIG = "the page says in words that a draft is configured; its matrix has no such row"
MET = "the page names DEPENDENCIES_MET as a way into PENDING and gives no row"
LOST = "the page leaves open what becomes of those that depend on a canceled job"
PLACE = "why it does not start yet is told, not guessed"
BY_HAND = "the page runs one command at a time; a step and a run until the next gate are told"
PHASES = "its manifest has phases, its matrix none; they follow each other while it runs"
STUCK = "a worker that cannot go on asks for a person; the page has only its completion"
RETRY = "a worker or reviewer may ask to be tried again; bounded, then a person is asked"
GIVEN_UP = "what is lost again and again is given to a person"
LIMITED = "its limits stop it before it uses more, and a person is asked"
ASIDE = "every active state can be suspended, and the page's matrix forgets this one"
FORCE = "the page names FORCE_SUCCESS and no state; a steward, with a reason, from any but a draft"
BACK = "its command line can go back to an earlier phase; nothing may be at work meanwhile"

NO_STEWARD = "only one of its stewards decides: `interlock job show` names them"
NOT_YET = "a dependency is missing or lost, it waits for a word or before a retry: `interlock job show` says which"
ALREADY_MET = "they are met already, or one of them is lost"
ALREADY_LOST = "that is known already"
NOT_LOST = "a steward waives what is lost; this is not, or somebody else is steward"
LAST_PHASE = "it is in its last phase: the end of that is the end of its work"
NO_PHASE = "a steward names a phase that it has come to: `interlock job show` lists them"


def by(*names: str) -> tuple[str, ...]:
    """Name who fires a row in the running system."""
    return names


# fmt: off
PUBLISHED = (
    Transition(S.DRAFT,                 T.ACTIVATE,            S.PENDING,               effect=REGISTRATION, spawns=DEPENDENCIES, by=by("producer", "person", "stalls")),
    Transition(S.PENDING,               T.SCHEDULED,           S.RUNNING,               guard=do.may_start, update=do.started, refusal=NOT_YET, by=by("scheduling")),
    Transition(S.SUSPENDED,             T.RESUME,              S.PENDING,               update=do.resumed, effect=REGISTRATION, spawns=DEPENDENCIES, by=by("person")),
    Transition(S.RUNNING,               T.AGENT_COMPLETED,     S.REVIEW_REQUIRED,       update=do.completed, by=by("worker")),
    Transition(S.REVIEW_REQUIRED,       T.STEP,                S.REVIEWING,             update=do.reviewing, by=by("scheduling")),
    Transition(S.REVIEWING,             T.REVIEW_COMPLETED,    S.APPROVAL_REQUIRED,     guard=do.approved, update=do.reviewed, by=by("reviewer")),
    Transition(S.REVIEWING,             T.REVIEW_COMPLETED,    S.INTERVENTION_REQUIRED, update=do.reviewed, by=by("reviewer")),
    Transition(S.APPROVAL_REQUIRED,     T.APPROVE,             S.SUCCESS,               guard=do.signed, update=do.ended, refusal=NO_STEWARD, names_proposal=True, by=by("approval", "person")),
    Transition(S.APPROVAL_REQUIRED,     T.REJECT,              S.PENDING,               guard=do.knows_phase, update=do.again, refusal=NO_PHASE, names_proposal=True, by=by("person")),
    Transition(S.INTERVENTION_REQUIRED, T.RESUBMIT,            S.PENDING,               guard=do.knows_phase, update=do.again, refusal=NO_PHASE, bounds=True, by=by("person")),
    Transition(S.INTERVENTION_REQUIRED, T.RESUBMIT_TO_REVIEW,  S.REVIEW_REQUIRED,       guard=do.steward, update=do.review_again, refusal=NO_STEWARD, bounds=True, by=by("person")),
    Transition(S.INTERVENTION_REQUIRED, T.TERMINATE,           S.CANCELED,              guard=do.steward, update=do.ended, refusal=NO_STEWARD, by=by("person")),
    Transition(S.RUNNING,               T.PAUSE,               S.PAUSED,                update=do.paused, by=by("worker", "person")),
    Transition(S.PAUSED,                T.UNPAUSE,             S.RUNNING,               update=do.unpaused, by=by("stalls", "person")),
    Transition(S.PAUSED,                T.CANCEL,              S.CANCELED,              update=do.ended, by=by("producer", "person")),
    Transition(S.RUNNING,               T.RECOVERED,           S.PENDING,               guard=do.may_recover, update=do.recovered, by=by("orphans", "stalls")),
    Transition(S.REVIEWING,             T.RECOVERED,           S.REVIEW_REQUIRED,       guard=do.may_recover, update=do.recovered, by=by("orphans", "stalls")),
    *(Transition(state,                 T.SUSPEND,             S.SUSPENDED,             update=do.suspended, by=by("person")) for state in SUSPENDABLE if state is not S.RUNNING),
    Transition(S.RUNNING,               T.SUSPEND,             S.SUSPENDED,             update=do.suspended, by=by("worker", "person")),
    *(Transition(state,                 T.CANCEL,              S.CANCELED,              update=do.ended, by=by("producer", "person")) for state in CANCELABLE),
)
OURS = (
    Transition(S.DRAFT,                 T.CONFIGURE,           S.DRAFT,                 update=do.configured, loop=Loop.EXTERNAL, bounds=True, by=by("producer", "person"), ours=CONFIG),
    Transition(S.PENDING,               T.DEPENDENCIES_MET,    S.PENDING,               guard=do.all_met, update=do.met, refusal=ALREADY_MET, loop=Loop.EXTERNAL, by=by("cascade", "scheduling"), ours=MET),
    Transition(S.SUSPENDED,             T.DEPENDENCIES_MET,    S.SUSPENDED,             guard=do.all_met, update=do.met, refusal=ALREADY_MET, loop=Loop.INTERNAL, by=by("cascade", "scheduling"), ours=MET),
    *(Transition(state,                 T.DEPENDENCY_LOST,     S.CANCELED,              guard=do.dies_with_it, update=do.lost_and_ended, by=by("tell", "registration", "scheduling"), ours=LOST) for state in (S.PENDING, S.SUSPENDED)),
    Transition(S.PENDING,               T.DEPENDENCY_LOST,     S.PENDING,               guard=do.newly_lost, update=do.lost, refusal=ALREADY_LOST, loop=Loop.EXTERNAL, by=by("tell", "registration", "scheduling"), ours=LOST),
    Transition(S.SUSPENDED,             T.DEPENDENCY_LOST,     S.SUSPENDED,             guard=do.newly_lost, update=do.lost, refusal=ALREADY_LOST, loop=Loop.INTERNAL, by=by("tell", "registration", "scheduling"), ours=LOST),
    Transition(S.PENDING,               T.DEPENDENCY_WAIVED,   S.PENDING,               guard=do.may_be_waived, update=do.waived, refusal=NOT_LOST, effect=SCHEDULING, loop=Loop.EXTERNAL, by=by("person"), ours=LOST),
    Transition(S.PENDING,               T.SLOT_AWAITED,        S.PENDING,               update=do.awaiting, loop=Loop.INTERNAL, by=by("scheduling"), ours=PLACE),
    Transition(S.PENDING,               T.BACKOFF_ELAPSED,     S.PENDING,               update=do.resumed, loop=Loop.EXTERNAL, by=by("stalls"), ours=RETRY),
    Transition(S.REVIEW_REQUIRED,       T.BACKOFF_ELAPSED,     S.REVIEW_REQUIRED,       update=do.resumed, loop=Loop.EXTERNAL, by=by("stalls"), ours=RETRY),
    Transition(S.PENDING,               T.RUN,                 S.PENDING,               update=do.told_to_go, loop=Loop.EXTERNAL, by=by("person"), ours=BY_HAND),
    Transition(S.REVIEW_REQUIRED,       T.RUN,                 S.REVIEW_REQUIRED,       update=do.told_to_go, loop=Loop.EXTERNAL, by=by("person"), ours=BY_HAND),
    Transition(S.RUNNING,               T.PHASE_COMPLETED,     S.RUNNING,               guard=do.more_phases, update=do.phase_completed, refusal=LAST_PHASE, loop=Loop.INTERNAL, by=by("worker"), ours=PHASES),
    Transition(S.RUNNING,               T.STUCK,               S.INTERVENTION_REQUIRED, update=do.stuck, by=by("worker"), ours=STUCK),
    Transition(S.RUNNING,               T.RETRY,               S.PENDING,               guard=do.may_retry, update=do.retried, by=by("worker"), ours=RETRY),
    Transition(S.RUNNING,               T.RETRY,               S.INTERVENTION_REQUIRED, update=do.tried_in_vain, by=by("worker"), ours=RETRY),
    Transition(S.REVIEWING,             T.RETRY,               S.REVIEW_REQUIRED,       guard=do.may_retry, update=do.review_retried, by=by("reviewer"), ours=RETRY),
    Transition(S.REVIEWING,             T.RETRY,               S.INTERVENTION_REQUIRED, update=do.given_up, by=by("reviewer"), ours=RETRY),
    Transition(S.RUNNING,               T.RECOVERED,           S.INTERVENTION_REQUIRED, update=do.given_up, by=by("orphans", "stalls"), ours=GIVEN_UP),
    Transition(S.REVIEWING,             T.RECOVERED,           S.INTERVENTION_REQUIRED, update=do.given_up, by=by("orphans", "stalls"), ours=GIVEN_UP),
    Transition(S.PENDING,               T.LIMIT_REACHED,       S.INTERVENTION_REQUIRED, update=do.limited, by=by("scheduling"), ours=LIMITED),
    Transition(S.REVIEW_REQUIRED,       T.LIMIT_REACHED,       S.INTERVENTION_REQUIRED, update=do.limited, by=by("scheduling"), ours=LIMITED),
    Transition(S.RUNNING,               T.LIMIT_REACHED,       S.INTERVENTION_REQUIRED, update=do.limited, by=by("worker", "stalls"), ours=LIMITED),
    Transition(S.REVIEWING,             T.LIMIT_REACHED,       S.INTERVENTION_REQUIRED, update=do.limited, by=by("reviewer", "stalls"), ours=LIMITED),
    Transition(S.PAUSED,                T.SUSPEND,             S.SUSPENDED,             update=do.suspended, by=by("person"), ours=ASIDE),
    *(Transition(state,                 T.FORCE_SUCCESS,       S.SUCCESS,               guard=do.steward, update=do.ended, refusal=NO_STEWARD, names_proposal=True, by=by("person"), ours=FORCE) for state in FORCED),
    Transition(S.PENDING,               T.RESTEP,              S.PENDING,               guard=do.knows_phase, update=do.again, refusal=NO_PHASE, loop=Loop.EXTERNAL, by=by("person"), ours=BACK),
    Transition(S.SUSPENDED,             T.RESTEP,              S.SUSPENDED,             guard=do.knows_phase, update=do.again, refusal=NO_PHASE, loop=Loop.INTERNAL, by=by("person"), ours=BACK),
    *(Transition(state,                 T.RESTEP,              S.PENDING,               guard=do.knows_phase, update=do.again, refusal=NO_PHASE, by=by("person"), ours=BACK) for state in IDLE_GATES),
)
# fmt: on

JOB = Machine(
    name="job",
    stages=STAGES,
    transitions=(*PUBLISHED, *OURS),
    initial_data=do.birth,
    bounds=do.bounds,
    host=do.place,
    mirror=MANIFEST,
    is_mirrored=do.mirrored,
    slot_release=VACANCY,
    payloads={
        T.CONFIGURE: carry.JobConfiguration,
        T.ACTIVATE: carry.JobReason,
        T.SUSPEND: carry.JobReason,
        T.RESUME: carry.JobReason,
        T.CANCEL: carry.JobReason,
        T.DEPENDENCIES_MET: carry.JobDependenciesMet,
        T.DEPENDENCY_LOST: carry.JobDependencyLost,
        T.DEPENDENCY_WAIVED: carry.JobDependencyWaived,
        T.SLOT_AWAITED: carry.JobSlotAwaited,
        T.RUN: carry.JobRun,
        T.SCHEDULED: carry.JobScheduled,
        T.PHASE_COMPLETED: carry.JobWorkDone,
        T.AGENT_COMPLETED: carry.JobWorkDone,
        T.STUCK: carry.JobStuck,
        T.RETRY: carry.JobRetry,
        T.PAUSE: carry.JobPause,
        T.UNPAUSE: carry.JobReason,
        T.RECOVERED: carry.JobReason,
        T.LIMIT_REACHED: carry.JobLimitReached,
        T.STEP: carry.JobScheduled,
        T.REVIEW_COMPLETED: carry.JobReviewCompleted,
        T.APPROVE: carry.JobReason,
        T.REJECT: carry.JobReject,
        T.RESUBMIT: carry.JobResubmit,
        T.RESUBMIT_TO_REVIEW: carry.JobResubmit,
        T.TERMINATE: carry.JobReason,
        T.FORCE_SUCCESS: carry.JobRequiredReason,
        T.RESTEP: carry.JobRestep,
    },
    first_trigger=T.ACTIVATE,
    cancel_triggers=(T.CANCEL,),
    advance_trigger=T.DEPENDENCIES_MET,
    dependency_lost_trigger=T.DEPENDENCY_LOST,
    lasting_countdowns=(DEPENDENCIES,),
    id_prefix=("graph",),
)
