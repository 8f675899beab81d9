"""The names of a task's states and triggers."""

from __future__ import annotations

from enum import StrEnum, auto


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


class Trigger(StrEnum):
    """The triggers that can be fired at a task."""

    APPROVED = auto()
    REJECTED = auto()
    CLAIMED = auto()
    STARTED = auto()
    COMPLETED = auto()
    FAILED = auto()
    BLOCKED = auto()
    UNBLOCKED = auto()
    SPLIT = auto()
    RELEASED = auto()
    REQUEUED = auto()
    CANCELLED = auto()
    ORPHANED = auto()
    RECOVERED = auto()
    UNRECOVERABLE = auto()
    SUBTASKS_ENDED = auto()
    SUBTASKS_CHECKED = auto()
    TIMEOUT = auto()
    RETRIED = auto()
    VERIFIED = auto()
    VERIFICATION_REJECTED = auto()
    MERGE_BEGUN = auto()
    TARGET_FREED = auto()
    TARGET_REWRITTEN = auto()
    MERGED = auto()
    STAGE_FAILED = auto()
    CHILD_CANCELLED = auto()
    STARVED = auto()
