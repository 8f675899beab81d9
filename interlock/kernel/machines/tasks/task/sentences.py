"""The sentences that say why a task moved: one for each trigger, and some for single rows."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.kernel.machines.tasks.task.names import Trigger
from interlock.kernel.table import CREATED

WORK_APPROVED = "a person approved the verified work"
WORK_REJECTED = "a person rejected the verified work"
NEEDS_APPROVAL = "its work was verified, and a person has to approve it"
CLAIMED_TOO_OFTEN = "it was claimed too often without being started"
LOST_TOO_OFTEN = "its agents were lost too often"
MAY_CRASH_AGAIN = "its agent was lost, and another may try"
OPENED_AGAIN = "a person opened it again"
SUBTASKS_SUCCEEDED_LATE = "all of its subtasks have succeeded by now"
SUBTASKS_MIXED = "its subtasks have ended, and not all of them succeeded"

SAYS: Mapping[str, str] = {
    CREATED: "it was handed in",
    Trigger.APPROVED: "a person approved its plan",
    Trigger.REJECTED: "a person rejected its plan",
    Trigger.CLAIMED: "{owner} claimed it",
    Trigger.STARTED: "its agent began to work",
    Trigger.COMPLETED: "its agent reported that the work is done",
    Trigger.FAILED: "this try did not succeed",
    Trigger.BLOCKED: "its agent reported that it waits for something: {on}",
    Trigger.UNBLOCKED: "it no longer waits for another task",
    Trigger.SPLIT: "it was split into subtasks",
    Trigger.RELEASED: "its claim ended before the work began",
    Trigger.REQUEUED: "a person put it back into the queue",
    Trigger.CANCELLED: "it is no longer wanted",
    Trigger.ORPHANED: "its agent was lost at work",
    Trigger.RECOVERED: "the work of its lost agent was saved, and its completion signals pass",
    Trigger.UNRECOVERABLE: "the work of its lost agent could not be saved",
    Trigger.SUBTASKS_ENDED: "all of its subtasks succeeded",
    Trigger.SUBTASKS_CHECKED: "some of its subtasks have not ended well",
    Trigger.TIMEOUT: "its subtasks did not end in time",
    Trigger.RETRIED: "it is tried again",
    Trigger.VERIFIED: "its work was verified",
    Trigger.VERIFICATION_REJECTED: "its work was not accepted",
    Trigger.MERGE_BEGUN: "its merge is next, and no other one into the target is at work",
    Trigger.TARGET_REWRITTEN: (
        "its target was reset or rebased, so its work is put on top of that and verified again"
    ),
    Trigger.TARGET_FREED: "it lets other merges into its target go first",
    Trigger.MERGED: "its verified work was merged, or nothing was left to merge",
    Trigger.STAGE_FAILED: "a person gave up its whole stage",
    Trigger.CHILD_CANCELLED: "its agent no longer wants the subtask {child}",
    Trigger.STARVED: "it waits for something that can never come",
}
