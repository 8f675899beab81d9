"""The names of a job's states, triggers and evidence folder, and two choices of its payloads."""

from __future__ import annotations

from enum import StrEnum, auto

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


class Trigger(StrEnum):
    """The triggers that can be fired at a job."""

    CONFIGURE = auto()
    ACTIVATE = auto()
    SUSPEND = auto()
    RESUME = auto()
    CANCEL = auto()
    DEPENDENCIES_MET = auto()
    DEPENDENCY_LOST = auto()
    DEPENDENCY_WAIVED = auto()
    SLOT_AWAITED = auto()
    BACKOFF_ELAPSED = auto()
    RUN = auto()
    SCHEDULED = auto()
    PHASE_COMPLETED = auto()
    AGENT_COMPLETED = auto()
    STUCK = auto()
    RETRY = auto()
    PAUSE = auto()
    UNPAUSE = auto()
    RECOVERED = auto()
    LIMIT_REACHED = auto()
    STEP = auto()
    REVIEW_COMPLETED = auto()
    APPROVE = auto()
    REJECT = auto()
    RESUBMIT = auto()
    RESUBMIT_TO_REVIEW = auto()
    TERMINATE = auto()
    FORCE_SUCCESS = auto()
    RESTEP = auto()


class ReviewVerdict(StrEnum):
    """The decisions that a reviewer may take: the state that the job goes to."""

    APPROVAL_REQUIRED = State.APPROVAL_REQUIRED.value
    INTERVENTION_REQUIRED = State.INTERVENTION_REQUIRED.value


class RunUntil(StrEnum):
    """How far a manual job goes on by itself."""

    NEXT = auto()  # it does one step, the one of its state
    GATE = auto()  # it goes on until a person must decide
