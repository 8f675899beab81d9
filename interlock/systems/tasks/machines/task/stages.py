"""What a task owes in each of its states, and its time limits, queues and cards."""

from __future__ import annotations

from collections.abc import Callable

from interlock import CASCADE, RESOLUTION, Active, Terminal, Timer, Waiting
from interlock.system.tables import Meaning, TransitionReason
from interlock.systems.tasks.machines.deadline import subtasks_limit_s
from interlock.systems.tasks.machines.effects import (
    AGENT,
    ASSIGNMENT,
    FOLLOW_UP,
    MERGE,
    RECOVERY,
    VERIFICATION,
)
from interlock.systems.tasks.machines.task import changes, choices, limits, questions
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import State, Trigger
from interlock.systems.tasks.machines.task.payloads import TaskAnswer

TIMED_OUT = TransitionReason.TIMED_OUT.value
LATE = {"reason": "it took longer than its deadline", "abort": "timeout", "why": TIMED_OUT}
NEVER_STARTED = {"reason": "never started", "why": TIMED_OUT}
NOT_MERGED = {"reason": "it was not verified and merged in time", "why": TIMED_OUT}
NOT_RECOVERED = {"reason": "its recovery took too long", "why": TIMED_OUT}
APPROVAL = (("approve", Trigger.APPROVED), ("reject", Trigger.REJECTED))
MERGE_APPROVAL = (*APPROVAL, ("cancel", Trigger.CANCELLED))
BLOCK = (("unblock", Trigger.UNBLOCKED), ("cancel", Trigger.CANCELLED))
GIVEN_UP = (("retry", Trigger.RETRIED), ("cancel", Trigger.CANCELLED))


def after(ms: int) -> Callable[[TaskData], int | None]:
    """Return a delay that is the same for every task."""
    return lambda _: ms


def reminder(data: TaskData) -> int | None:
    """Return when a person is reminded first."""
    return int(data["remind_s"]) * 1_000


def deadline(data: TaskData) -> int | None:
    """Return how long the work may take: set by the task, by its claim, or the default."""
    of_claim = data.get("claim", {}).get("deadline_s")
    return (data.get("deadline_s") or of_claim or limits.DEADLINE_S) * 1_000


def subtasks_limit(data: TaskData) -> int | None:
    """Return how long the subtasks may take: set by the task, or by their size."""
    return int(data.get("subtasks_s") or subtasks_limit_s(data.get("children", ()))) * 1_000


def done_limit(data: TaskData) -> int:
    """Return how long the verification may take, in ms, or, once the work is verified, the merge.

    A merge may wait for a user, who has changes in the checkout of the target.
    """
    return limits.MERGE_MS if changes.is_verified(data) else limits.VERIFICATION_MS


def queue(data: TaskData) -> str:
    """Return the queue in which an open task waits to be claimed."""
    return str(data["role"])


def owned(data: TaskData) -> tuple[str, ...]:
    """Return the files that no other task of the backlog may work on meanwhile."""
    return tuple(data["owned_files"])


def reminder_while(asked: Callable[[TaskData], bool]) -> Timer:
    """Return the timer that reminds a person as long as one is asked."""
    return Timer(
        "reminder", lambda data: reminder(data) if asked(data) else None, effect=RESOLUTION
    )


REMIND = Timer("reminder", reminder, effect=RESOLUTION)
STAGES = (
    Waiting(
        State.OPEN,
        (Timer("recheck", after(limits.RECHECK_MS), effect=ASSIGNMENT),),
        shown="waiting for an agent",
        queue=queue,
        offers=ASSIGNMENT,
    ),
    Waiting(
        State.PLANNED,
        (REMIND,),
        external="a task is created here where its plan must be approved first",
        notifies=RESOLUTION,
        shown="waiting for approval of the plan",
        card="plan",
        question=questions.approve_plan,
        affordances=APPROVAL,
        words=choices.OF_PLAN,
        answers={Trigger.REJECTED: TaskAnswer},
    ),
    Active(
        State.CLAIMED,
        (Timer("start", after(limits.START_MS), Trigger.RELEASED, payload=NEVER_STARTED),),
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
        shown="being checked",
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
        meaning=Meaning.FAILED,
        outlook=questions.next_try,
        notifies=RESOLUTION,
        card="dead_letter",
        question=questions.try_again,
        affordances=GIVEN_UP,
        words=choices.OF_FAILURE,
    ),
    Waiting(
        State.BLOCKED,
        (
            reminder_while(changes.waits_for_person),
            Timer(
                "recheck",
                lambda data: limits.RECHECK_MS if changes.waits_for_tasks(data) else None,
                effect=FOLLOW_UP,
            ),
        ),
        asks=changes.waits_for_person,
        notifies=RESOLUTION,
        card="block",
        question=questions.is_still_blocked,
        affordances=BLOCK,
        words=choices.OF_BLOCK,
    ),
    Waiting(
        State.WAITING_FOR_SUBTASKS,
        (
            Timer("wait", subtasks_limit, Trigger.TIMEOUT),
            Timer("recheck", after(limits.RECHECK_MS), effect=CASCADE),
        ),
        countdown="subtasks",
    ),
    Active(
        State.ORPHANED,
        (Timer("stall", after(limits.RECOVERY_MS), Trigger.UNRECOVERABLE, payload=NOT_RECOVERED),),
        shown="agent lost, being recovered",
        effect=RECOVERY,
        outcomes=(Trigger.RECOVERED, Trigger.REQUEUED, Trigger.UNRECOVERABLE),
        exhausted=Trigger.UNRECOVERABLE,
    ),
    Waiting(
        State.PENDING_APPROVAL,
        (REMIND,),
        notifies=RESOLUTION,
        shown="waiting for approval",
        card="approval",
        question=questions.approve_merge,
        inspect=questions.diff_command,
        affordances=MERGE_APPROVAL,
        words=choices.of_merge,
    ),
    Terminal(State.CLOSED, shown="merged", meaning=Meaning.DONE),
    Terminal(State.CANCELLED, cleanup=CASCADE),
)
