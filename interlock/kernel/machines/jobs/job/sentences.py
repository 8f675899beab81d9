"""What the rows of a job say: why it moved, in words, by the trigger or for a row of its own."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.kernel.machines.jobs.job.names import Trigger
from interlock.kernel.table import CREATED

LOST_TOO_OFTEN = "its worker or reviewer was lost or silent too often"
NO_TRY_LEFT = "its worker or reviewer asked for another try, and none is left"

SAYS: Mapping[str, str] = {
    CREATED: "it was handed in",
    Trigger.CONFIGURE: "its draft was changed",
    Trigger.ACTIVATE: "its draft was activated",
    Trigger.SUSPEND: "it was suspended",
    Trigger.RESUME: "its suspension is over",
    Trigger.CANCEL: "it is no longer wanted",
    Trigger.DEPENDENCIES_MET: "it waits for no other job any more",
    Trigger.DEPENDENCY_LOST: "{dependency}, which it depends on, is {state}",
    Trigger.DEPENDENCY_WAIVED: "a person lets it go on without a lost dependency",
    Trigger.SLOT_AWAITED: "it waits for a free slot of {slots}",
    Trigger.BACKOFF_ELAPSED: "the delay before its next try is over",
    Trigger.RUN: "a person lets it go on",
    Trigger.SCHEDULED: "nothing is missing, so its worker starts",
    Trigger.PHASE_COMPLETED: "its worker reported that a phase is done",
    Trigger.AGENT_COMPLETED: "its worker reported that the work is done",
    Trigger.STUCK: "its worker cannot go on without a person",
    Trigger.RETRY: "its worker or reviewer asked for another try",
    Trigger.PAUSE: "its work pauses for a while",
    Trigger.UNPAUSE: "its pause is over",
    Trigger.RECOVERED: "its worker or reviewer was lost or silent, and is started again",
    Trigger.LIMIT_REACHED: "the {limit} that the {of} may use is used up",
    Trigger.STEP: "its reviewer starts",
    Trigger.REVIEW_COMPLETED: "the verdict of its reviewer is {verdict}",
    Trigger.APPROVE: "its result was signed off",
    Trigger.REJECT: "a steward rejected its result",
    Trigger.RESUBMIT: "a person wants the work done again",
    Trigger.RESUBMIT_TO_REVIEW: "a steward wants it reviewed again",
    Trigger.TERMINATE: "a steward ended it",
    Trigger.FORCE_SUCCESS: "a steward declared it a success",
    Trigger.RESTEP: "a person sent it back to the phase {phase}",
}
