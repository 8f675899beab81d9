"""The task's table: the 30 published edges, then ours, each with its reason."""

from __future__ import annotations

from interlock.kernel.effect import CASCADE, SPAWN
from interlock.kernel.machine import Machine
from interlock.kernel.machines.tasks.effects import AFTERMATH
from interlock.kernel.machines.tasks.task import changes as do
from interlock.kernel.machines.tasks.task import payloads as carry
from interlock.kernel.machines.tasks.task.names import State as S
from interlock.kernel.machines.tasks.task.names import Trigger as T
from interlock.kernel.machines.tasks.task.stages import STAGES
from interlock.kernel.table import Loop, Transition

APPROVAL = "pending_approval is published outside the table; here a person's act is a row like any"
SERIAL = "one merge at a time into a target branch: whoever is at it holds its name"
MERGING = "it is at it already"
TWO_STEPS = "what was verified is merged by an effect of its own"
MIXED = "published as an escalation of its time limit; a mix of ends is known before the limit"
NO_MORE_TRIES = "what would be tried again by itself can be ended, also with its parent"
STAGE = "a whole stage is failed at once only where that was asked for; the page has no such edge"
OWN_CHILDREN = "an agent that has earned it may end parts of its own; the page names no such act"
HOPELESS = "what waits for something that can never come is shown to a person"
ASKED = "a person is asked about it already"
NOT_NOW = (
    "a dependency is not done, it is too early, or its role or tenant is another's; "
    "`interlock task list` says which"
)
NO_MORE_CRASHES = "a task whose agents are lost again and again is given to a person"
NO_MORE_CLAIMS = "a task that is claimed again and again and never started is given to a person"


def by(*names: str) -> tuple[str, ...]:
    """Name who fires a row in the running system."""
    return names


# fmt: off
PUBLISHED = (
    Transition(S.PLANNED,              T.APPROVED,              S.OPEN,                                                 names_proposal=True, by=by("person")),
    Transition(S.PLANNED,              T.REJECTED,              S.CANCELLED,            update=do.cancelled,            names_proposal=True, by=by("person")),
    Transition(S.OPEN,                 T.CLAIMED,               S.CLAIMED,              guard=do.claimable, update=do.claimed, refusal=NOT_NOW, reads=True, by=by("assignment", "producer", "person")),
    Transition(S.OPEN,                 T.SPLIT,                 S.WAITING_FOR_SUBTASKS, update=do.split, effect=SPAWN, spawns="subtasks", by=by("producer", "person")),
    Transition(S.OPEN,                 T.CANCELLED,             S.CANCELLED,            update=do.cancelled,            by=by("producer", "person")),
    Transition(S.CLAIMED,              T.STARTED,               S.IN_PROGRESS,          carry=True,                     by=by("agent")),
    Transition(S.CLAIMED,              T.RELEASED,              S.OPEN,                 guard=do.claims_left, update=do.given_back, effect=AFTERMATH, reads=True, by=by("agent", "orphans", "stalls", "person")),
    Transition(S.CLAIMED,              T.COMPLETED,             S.DONE,                 update=do.completed,            by=by("agent")),
    Transition(S.CLAIMED,              T.FAILED,                S.FAILED,               update=do.failed,               effect=AFTERMATH, by=by("agent")),
    Transition(S.CLAIMED,              T.CANCELLED,             S.CANCELLED,            update=do.cancelled,            effect=AFTERMATH, by=by("producer", "person")),
    Transition(S.CLAIMED,              T.SPLIT,                 S.WAITING_FOR_SUBTASKS, update=do.split, effect=SPAWN, spawns="subtasks", reads=True, by=by("agent")),
    Transition(S.CLAIMED,              T.BLOCKED,               S.BLOCKED,              update=do.blocked,              effect=AFTERMATH, reads=True, by=by("agent")),
    Transition(S.IN_PROGRESS,          T.COMPLETED,             S.DONE,                 update=do.completed,            by=by("agent")),
    Transition(S.IN_PROGRESS,          T.FAILED,                S.FAILED,               update=do.failed,               effect=AFTERMATH, by=by("agent", "stalls")),
    Transition(S.IN_PROGRESS,          T.BLOCKED,               S.BLOCKED,              update=do.blocked,              effect=AFTERMATH, reads=True, by=by("agent")),
    Transition(S.IN_PROGRESS,          T.SPLIT,                 S.WAITING_FOR_SUBTASKS, update=do.split, effect=SPAWN, spawns="subtasks", reads=True, by=by("agent")),
    Transition(S.IN_PROGRESS,          T.REQUEUED,              S.OPEN,                 update=do.given_back,           effect=AFTERMATH, by=by("person")),
    Transition(S.IN_PROGRESS,          T.CANCELLED,             S.CANCELLED,            update=do.cancelled,            effect=AFTERMATH, by=by("producer", "person")),
    Transition(S.IN_PROGRESS,          T.ORPHANED,              S.ORPHANED,             update=do.orphaned,             by=by("agent", "orphans")),
    Transition(S.ORPHANED,             T.RECOVERED,             S.DONE,                 update=do.recovered,            by=by("recovery")),
    Transition(S.ORPHANED,             T.UNRECOVERABLE,         S.FAILED,               update=do.failed,               effect=AFTERMATH, by=by("recovery", "orphans", "stalls")),
    Transition(S.ORPHANED,             T.REQUEUED,              S.OPEN,                 guard=do.may_crash_again, update=do.given_back, effect=AFTERMATH, by=by("recovery")),
    Transition(S.BLOCKED,              T.UNBLOCKED,             S.OPEN,                 update=do.given_back,           by=by("aftermath", "person")),
    Transition(S.BLOCKED,              T.CANCELLED,             S.CANCELLED,            update=do.cancelled,            effect=CASCADE, by=by("producer", "person")),
    Transition(S.WAITING_FOR_SUBTASKS, T.SUBTASKS_ENDED,        S.DONE,                 guard=do.all_good, update=do.joined, by=by("cascade")),
    Transition(S.WAITING_FOR_SUBTASKS, T.TIMEOUT,               S.BLOCKED,              update=do.overdue,              by=by("stalls")),
    Transition(S.WAITING_FOR_SUBTASKS, T.CANCELLED,             S.CANCELLED,            update=do.cancelled,            effect=CASCADE, by=by("producer", "person")),
    Transition(S.FAILED,               T.RETRIED,               S.OPEN,                 update=do.retried,              by=by("stalls", "person")),
    Transition(S.DONE,                 T.MERGED,                S.CLOSED,               update=do.merged, effect=AFTERMATH, by=by("merge")),
    Transition(S.DONE,                 T.VERIFICATION_REJECTED, S.FAILED,               update=do.rejected,             effect=AFTERMATH, by=by("verification", "merge", "orphans", "stalls")),
)
OURS = (
    Transition(S.DONE,                 T.VERIFIED,              S.PENDING_APPROVAL,     guard=do.needs_approval, update=do.verified, by=by("verification"), ours=APPROVAL),
    Transition(S.DONE,                 T.VERIFIED,              S.DONE,                 update=do.verified, loop=Loop.EXTERNAL, by=by("verification"), ours=TWO_STEPS),
    Transition(S.DONE,                 T.MERGE_BEGUN,           S.DONE,                 guard=do.not_merging, update=do.merging, refusal=MERGING, loop=Loop.EXTERNAL, by=by("merge"), ours=SERIAL),
    Transition(S.PENDING_APPROVAL,     T.APPROVED,              S.DONE,                 update=do.approved, names_proposal=True,  by=by("person"), ours=APPROVAL),
    Transition(S.PENDING_APPROVAL,     T.REJECTED,              S.FAILED,               update=do.failed,   names_proposal=True,  effect=AFTERMATH, by=by("person"), ours=APPROVAL),
    Transition(S.PENDING_APPROVAL,     T.CANCELLED,             S.CANCELLED,            update=do.cancelled, effect=AFTERMATH, by=by("person"), ours=APPROVAL),
    Transition(S.CLAIMED,              T.RELEASED,              S.FAILED,               update=do.failed,               effect=AFTERMATH, reads=True, by=by("agent", "orphans", "stalls", "person"), ours=NO_MORE_CLAIMS),
    Transition(S.ORPHANED,             T.REQUEUED,              S.FAILED,               update=do.lost,                 effect=AFTERMATH, by=by("recovery"), ours=NO_MORE_CRASHES),
    Transition(S.WAITING_FOR_SUBTASKS, T.SUBTASKS_ENDED,        S.BLOCKED,              update=do.mixed,                by=by("cascade"), ours=MIXED),
    Transition(S.FAILED,               T.CANCELLED,             S.CANCELLED,            update=do.cancelled,            by=by("producer", "person"), ours=NO_MORE_TRIES),
    Transition(S.ORPHANED,             T.CANCELLED,             S.CANCELLED,            update=do.cancelled, effect=AFTERMATH, by=by("producer", "person"), ours=NO_MORE_TRIES),
    Transition(S.IN_PROGRESS,          T.CHILD_CANCELLED,       S.IN_PROGRESS,          update=do.child_cancelled, effect=AFTERMATH, loop=Loop.INTERNAL, reads=True, by=by("agent"), ours=OWN_CHILDREN),
    Transition(S.BLOCKED,              T.STARVED,               S.BLOCKED,              guard=do.waits_for_task, update=do.starved, refusal=ASKED, loop=Loop.EXTERNAL, by=by("aftermath"), ours=HOPELESS),
    *(
        Transition(state,              T.STAGE_FAILED,          S.FAILED,               guard=do.stage_failures, update=do.failed, refusal=STAGE, by=by("person"), ours=STAGE)
        for state in (S.PLANNED, S.OPEN, S.BLOCKED, S.WAITING_FOR_SUBTASKS)
    ),
)
# fmt: on

TASK = Machine(
    name="task",
    stages=STAGES,
    transitions=(*PUBLISHED, *OURS),
    initial_data=do.birth,
    bounds=do.bounds,
    child_payload=do.part,
    initial_state=do.begins_in,
    fact_sources=do.relies,
    gate=do.gate,
    host=do.place,
    payloads={
        T.REJECTED: carry.TaskReason,
        T.CLAIMED: carry.TaskClaimed,
        T.COMPLETED: carry.TaskCompleted,
        T.FAILED: carry.TaskReason,
        T.BLOCKED: carry.TaskBlocked,
        T.SPLIT: carry.TaskSplit,
        T.RELEASED: carry.TaskReason,
        T.ORPHANED: carry.TaskReason,
        T.RETRIED: carry.TaskReason,
        T.UNBLOCKED: carry.TaskReason,
        T.TIMEOUT: carry.TaskReason,
        T.APPROVED: carry.TaskReason,
        T.REQUEUED: carry.TaskReason,
        T.CANCELLED: carry.TaskReason,
        T.RECOVERED: carry.TaskRecovered,
        T.UNRECOVERABLE: carry.TaskReason,
        T.SUBTASKS_ENDED: carry.TaskSubtasksEnded,
        T.VERIFIED: carry.TaskVerified,
        T.VERIFICATION_REJECTED: carry.TaskReason,
        T.MERGED: carry.TaskMerged,
        T.STAGE_FAILED: carry.TaskReason,
        T.CHILD_CANCELLED: carry.TaskChildCancelled,
        T.STARVED: carry.TaskReason,
    },
    cancel_triggers=(T.CANCELLED, T.REJECTED),
    close_trigger=T.CANCELLED,
    advance_trigger=T.SUBTASKS_ENDED,
    id_prefix=("backlog",),
)
