"""What a task owes in each of its states, and its time limits, queues and cards."""

from __future__ import annotations

from collections.abc import Callable

from interlock.kernel.effect import CASCADE, RESOLUTION
from interlock.kernel.machines.tasks.deadline import subtasks_limit_s
from interlock.kernel.machines.tasks.effects import (
    AGENT,
    ASSIGNMENT,
    FOLLOW_UP,
    MERGE,
    RECOVERY,
    VERIFICATION,
)
from interlock.kernel.machines.tasks.task import changes, questions
from interlock.kernel.machines.tasks.task.names import State, Trigger
from interlock.kernel.machines.tasks.task.payloads import TaskAnswer
from interlock.kernel.reason import TransitionReason
from interlock.kernel.table import Active, Data, Terminal, Waiting
from interlock.kernel.timer import Timer

RECHECK_MS = 60_000
START_MS = 900_000
VERIFICATION_MS = 3_600_000
MERGE_MS = 86_400_000
RECOVERY_MS = 900_000
DEADLINE_S = 1_800

TIMED_OUT = TransitionReason.TIMED_OUT.value
LATE = {"reason": "it took longer than its deadline", "abort": "timeout", "why": TIMED_OUT}
NEVER_STARTED = {"reason": "never started", "why": TIMED_OUT}
NOT_MERGED = {"reason": "it was not verified and merged in time", "why": TIMED_OUT}
NOT_RECOVERED = {"reason": "its recovery took too long", "why": TIMED_OUT}
APPROVAL = (("approve", "approved"), ("reject", "rejected"))
MERGE_APPROVAL = (*APPROVAL, ("cancel", "cancelled"))
BLOCK = (("unblock", "unblocked"), ("cancel", "cancelled"))
GIVEN_UP = (("retry", "retried"), ("cancel", "cancelled"))


def after(ms: int) -> Callable[[Data], int | None]:
    """Return a delay that is the same for every task."""
    return lambda _: ms


def reminder(data: Data) -> int | None:
    """Return when a person is reminded first."""
    return int(data["remind_s"]) * 1_000


def deadline(data: Data) -> int | None:
    """Return how long the work may take: set by the task, by its claim, or the default."""
    claim = data.get("claim") or {}
    return int(data.get("deadline_s") or claim.get("deadline_s") or DEADLINE_S) * 1_000


def subtasks_limit(data: Data) -> int | None:
    """Return how long the subtasks may take: set by the task, or by their size."""
    return int(data.get("subtasks_s") or subtasks_limit_s(data.get("children", ()))) * 1_000


def done_limit(data: Data) -> int:
    """Return how long the verification may take, in ms, or, once the work is verified, the merge.

    A merge may wait for a user, who has changes in the checkout of the target.
    """
    return MERGE_MS if changes.is_verified(data) else VERIFICATION_MS


def queue(data: Data) -> str:
    """Return the queue in which an open task waits to be claimed."""
    return str(data["role"])


def owned(data: Data) -> tuple[str, ...]:
    """Return the files that no other task of the backlog may work on meanwhile."""
    return tuple(data["owned_files"])


def reminder_while(asked: Callable[[Data], bool]) -> Timer:
    """Return the timer that reminds a person as long as one is asked."""
    return Timer(
        "reminder", lambda data: reminder(data) if asked(data) else None, effect=RESOLUTION
    )


REMIND = Timer("reminder", reminder, effect=RESOLUTION)
STAGES = (
    Waiting(
        State.OPEN,
        (Timer("recheck", after(RECHECK_MS), effect=ASSIGNMENT),),
        queue=queue,
        offers=ASSIGNMENT,
    ),
    Waiting(
        State.PLANNED,
        (REMIND,),
        external="a task is created here where its plan must be approved first",
        notifies=RESOLUTION,
        card="plan",
        question=questions.approve_plan,
        affordances=APPROVAL,
        answers={Trigger.REJECTED: TaskAnswer},
    ),
    Active(
        State.CLAIMED,
        (Timer("start", after(START_MS), Trigger.RELEASED, payload=NEVER_STARTED),),
        holds=owned,
        effect=AGENT,
        outcomes=(
            Trigger.COMPLETED,
            Trigger.FAILED,
            Trigger.BLOCKED,
            Trigger.SPLIT,
            Trigger.RELEASED,
        ),
        failures=(Trigger.FAILED,),
        crash=Trigger.RELEASED,
        # A holder may have begun to set up a worktree: no second one is set up beside it.
        once=lambda _: True,
    ),
    Active(
        State.IN_PROGRESS,
        (Timer("deadline", deadline, Trigger.FAILED, payload=LATE),),
        holds=owned,
        outcomes=(
            Trigger.COMPLETED,
            Trigger.FAILED,
            Trigger.BLOCKED,
            Trigger.SPLIT,
            Trigger.ORPHANED,
        ),
        crash=Trigger.ORPHANED,
    ),
    Active(
        State.DONE,
        (Timer("stall", done_limit, Trigger.VERIFICATION_REJECTED, payload=NOT_MERGED),),
        effect=VERIFICATION,
        holds=changes.merge_hold,
        outlook=questions.next_step,
        later=MERGE,
        is_later=changes.is_verified,
        outcomes=(Trigger.VERIFIED, Trigger.VERIFICATION_REJECTED, Trigger.MERGED),
        exhausted=Trigger.VERIFICATION_REJECTED,
    ),
    Waiting(
        State.FAILED,
        (
            Timer("backoff", changes.backoff_ms, Trigger.RETRIED),
            reminder_while(changes.given_up),
        ),
        asks=changes.given_up,
        counts_as_ended=changes.given_up,
        outlook=questions.next_try,
        notifies=RESOLUTION,
        card="dead_letter",
        question=questions.try_again,
        affordances=GIVEN_UP,
    ),
    Waiting(
        State.BLOCKED,
        (
            reminder_while(changes.waits_for_person),
            Timer(
                "recheck",
                lambda data: RECHECK_MS if changes.waits_for_tasks(data) else None,
                effect=FOLLOW_UP,
            ),
        ),
        asks=changes.waits_for_person,
        notifies=RESOLUTION,
        card="block",
        question=questions.is_still_blocked,
        affordances=BLOCK,
    ),
    Waiting(
        State.WAITING_FOR_SUBTASKS,
        (
            Timer("wait", subtasks_limit, Trigger.TIMEOUT),
            Timer("recheck", after(RECHECK_MS), effect=CASCADE),
        ),
        countdown="subtasks",
    ),
    Active(
        State.ORPHANED,
        (Timer("stall", after(RECOVERY_MS), Trigger.UNRECOVERABLE, payload=NOT_RECOVERED),),
        effect=RECOVERY,
        outcomes=(Trigger.RECOVERED, Trigger.REQUEUED, Trigger.UNRECOVERABLE),
        exhausted=Trigger.UNRECOVERABLE,
    ),
    Waiting(
        State.PENDING_APPROVAL,
        (REMIND,),
        notifies=RESOLUTION,
        card="approval",
        question=questions.approve_merge,
        inspect=questions.diff_command,
        affordances=MERGE_APPROVAL,
    ),
    Terminal(State.CLOSED),
    Terminal(State.CANCELLED, cleanup=CASCADE),
)
