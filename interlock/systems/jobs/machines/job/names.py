"""The names of a job's states, triggers and evidence folder, and two choices of its payloads."""

from __future__ import annotations

from enum import StrEnum, auto

from interlock.system.tables import Triggers
from interlock.systems.jobs.machines.job import payloads

EVIDENCE_FOLDER = ".evidence"  # below the job's directory


class State(StrEnum):
    """The states of a job."""

    DRAFT = auto()
    PENDING = auto()
    SUSPENDED = auto()
    RUNNING = auto()
    PAUSED = auto()
    REVIEW_REQUIRED = auto()
    REVIEWING = auto()
    INTERVENTION_REQUIRED = auto()
    APPROVAL_REQUIRED = auto()
    SUCCESS = auto()
    CANCELED = auto()
    FAILED = auto()


class Trigger(Triggers):
    """The triggers that can be fired at a job."""

    CONFIGURE = "configure", "its draft was changed", payloads.JobConfiguration
    ACTIVATE = "activate", "its draft was activated", payloads.JobAnswer
    SUSPEND = "suspend", "it was suspended", payloads.JobPause
    RESUME = "resume", "its suspension is over", payloads.JobAnswer
    CANCEL = "cancel", "it is no longer wanted", payloads.JobAnswer
    DEPENDENCIES_MET = (
        "dependencies_met",
        "it waits for no other job any more",
        payloads.JobDependenciesMet,
    )
    DEPENDENCY_LOST = (
        "dependency_lost",
        "{dependency}, which it depends on, is {state}",
        payloads.JobDependencyLost,
    )
    DEPENDENCY_WAIVED = (
        "dependency_waived",
        "a person lets it go on without a lost dependency",
        payloads.JobDependencyWaived,
    )
    SLOT_AWAITED = "slot_awaited", "it waits for a free slot of {slots}", payloads.JobSlotAwaited
    BACKOFF_ELAPSED = "backoff_elapsed", "the delay before its next try is over"
    RUN = "run", "a person lets it go on", payloads.JobRun
    SCHEDULED = "scheduled", "nothing is missing, so its worker starts", payloads.JobScheduled
    PHASE_COMPLETED = (
        "phase_completed",
        "its worker reported that a phase is done",
        payloads.JobWorkDone,
    )
    AGENT_COMPLETED = (
        "agent_completed",
        "its worker reported that the work is done",
        payloads.JobWorkDone,
    )
    STUCK = "stuck", "its worker cannot go on without a person", payloads.JobStuck
    RETRY = "retry", "its worker or reviewer asked for another try", payloads.JobRetry
    PAUSE = "pause", "its work pauses for a while", payloads.JobPause
    UNPAUSE = "unpause", "its pause is over", payloads.JobAnswer
    RECOVERED = (
        "recovered",
        "its worker or reviewer was lost or silent, and is started again",
        payloads.JobReason,
    )
    LIMIT_REACHED = (
        "limit_reached",
        "the {limit} that the {of} may use is used up",
        payloads.JobLimitReached,
    )
    STEP = "step", "its reviewer starts", payloads.JobScheduled
    REVIEW_COMPLETED = (
        "review_completed",
        "the verdict of its reviewer is {verdict}",
        payloads.JobReviewCompleted,
    )
    APPROVE = "approve", "its result was signed off", payloads.JobAnswer
    REJECT = "reject", "a steward rejected its result", payloads.JobReject
    RESUBMIT = "resubmit", "a person wants the work done again", payloads.JobResubmit
    RESUBMIT_TO_REVIEW = (
        "resubmit_to_review",
        "a steward wants it reviewed again",
        payloads.JobReviewAgain,
    )
    TERMINATE = "terminate", "a steward ended it", payloads.JobAnswer
    FORCE_SUCCESS = "force_success", "a steward declared it a success", payloads.JobRequiredReason
    RESTEP = "restep", "a person sent it back to the phase {phase}", payloads.JobRestep
