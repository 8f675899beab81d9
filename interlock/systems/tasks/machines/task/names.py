"""The names of a task's states and triggers."""

from __future__ import annotations

from enum import StrEnum, auto

from interlock.system.tables import Triggers
from interlock.systems.tasks.machines.task import payloads


class State(StrEnum):
    """The states of a task."""

    OPEN = auto()
    PLANNED = auto()
    CLAIMED = auto()
    IN_PROGRESS = auto()
    DONE = auto()
    FAILED = auto()
    BLOCKED = auto()
    WAITING_FOR_SUBTASKS = auto()
    ORPHANED = auto()
    PENDING_APPROVAL = auto()
    CLOSED = auto()
    CANCELLED = auto()


class Trigger(Triggers):
    """The triggers that can be fired at a task."""

    APPROVED = "approved", "a person approved its plan", payloads.TaskAnswer
    REJECTED = "rejected", "a person rejected its plan", payloads.TaskRejected
    CLAIMED = "claimed", "{owner} claimed it", payloads.TaskClaimed
    STARTED = "started", "its agent began to work"
    COMPLETED = "completed", "its agent reported that the work is done", payloads.TaskCompleted
    FAILED = "failed", "this try did not succeed", payloads.TaskReason
    BLOCKED = (
        "blocked",
        "its agent reported that it waits for something: {on}",
        payloads.TaskBlocked,
    )
    UNBLOCKED = "unblocked", "it no longer waits for another task", payloads.TaskAnswer
    SPLIT = "split", "it was split into subtasks", payloads.TaskSplit
    RELEASED = "released", "its claim ended before the work began", payloads.TaskReason
    REQUEUED = "requeued", "a person put it back into the queue", payloads.TaskRequeued
    CANCELLED = "cancelled", "it is no longer wanted", payloads.TaskAnswer
    ORPHANED = "orphaned", "its agent was lost at work", payloads.TaskReason
    RECOVERED = (
        "recovered",
        "the work of its lost agent was saved, and its completion signals pass",
        payloads.TaskRecovered,
    )
    UNRECOVERABLE = (
        "unrecoverable",
        "the work of its lost agent could not be saved",
        payloads.TaskReason,
    )
    SUBTASKS_ENDED = "subtasks_ended", "all of its subtasks succeeded", payloads.TaskSubtasksEnded
    SUBTASKS_CHECKED = (
        "subtasks_checked",
        "some of its subtasks have not ended well",
        payloads.TaskSubtasksChecked,
    )
    TIMEOUT = "timeout", "its subtasks did not end in time", payloads.TaskReason
    RETRIED = "retried", "it is tried again", payloads.TaskAnswer
    VERIFIED = "verified", "its work was verified", payloads.TaskVerified
    VERIFICATION_REJECTED = (
        "verification_rejected",
        "its work was not accepted",
        payloads.TaskReason,
    )
    MERGE_BEGUN = "merge_begun", "its merge is next, and no other one into the target is at work"
    TARGET_FREED = (
        "target_freed",
        "it lets other merges into its target go first",
        payloads.TaskMerged,
    )
    TARGET_REWRITTEN = (
        "target_rewritten",
        "its target was reset or rebased, so its work is put on top of that and verified again",
    )
    MERGED = (
        "merged",
        "its verified work was merged, or nothing was left to merge",
        payloads.TaskMerged,
    )
    STAGE_FAILED = "stage_failed", "a person gave up its whole stage", payloads.TaskReason
    CHILD_CANCELLED = (
        "child_cancelled",
        "its agent no longer wants the subtask {child}",
        payloads.TaskChildCancelled,
    )
    STARVED = "starved", "it waits for something that can never come", payloads.TaskReason
