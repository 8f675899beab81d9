"""The task's table: the 30 published edges, then ours, each with its reason."""

from __future__ import annotations

from interlock import (
    CASCADE,
    ORPHANS,
    PERSON,
    PRODUCER,
    RESOLUTION,
    SPAWN,
    STALLS,
    Bookkeeping,
    Children,
    Machine,
    by,
    move,
    reenter,
    rows,
    stay,
)
from interlock.system.tables import Placement, TransitionReason, carry
from interlock.systems.tasks.machines.effects import (
    AGENT,
    ASSIGNMENT,
    FOLLOW_UP,
    MERGE,
    RECOVERY,
    VERIFICATION,
)
from interlock.systems.tasks.machines.task import (
    changes,
    choice,
    lost,
    parts,
    subtasks,
    tries,
)
from interlock.systems.tasks.machines.task.names import State, Trigger
from interlock.systems.tasks.machines.task.stages import STAGES

# Why a row is ours.
APPROVAL = "pending_approval is published outside the table; here each act of a person is a row"
SERIAL = "one merge at a time into a target branch: the task that merges holds its name"
FREED = "a merge that is tried again later, or whose push is left to do, keeps no other one waiting"
REWRITTEN = "what a person dropped from the target stays out: the rest is verified and shown anew"
TWO_STEPS = "verified work is merged by an effect of its own"
MIXED = "published as an escalation of its time limit; a mix of ends is known before the limit"
NO_MORE_TRIES = "a task that would be tried again by itself can be ended, also with its parent"
STAGE = "a whole stage is failed at once only where that was asked for; the page has no such edge"
OWN_CHILDREN = "an agent that has earned it may end parts of its own; the page names no such act"
STARVED = "a task that waits for something that can never come is shown to a person"
NO_MORE_CRASHES = "a task whose agents are lost again and again is given to a person"
NO_MORE_CLAIMS = "a task that is claimed again and again and never started is given to a person"
LATE_SUBTASKS = "a task that was blocked on its subtasks goes on once all have ended well"
CHOSEN_AGENT = "a person chooses who gets a task next, or lifts that choice"

# Why a published row asks a guard; the page lets every row through.
CLAIMABLE = "dependencies, time, role, tenant and a person's choice decide who may have it when"
NO_STORM = "a task that is never started, or whose agents are always lost, comes to a person"
ALL_CLOSED = "the page says all subtasks completed; others are a person's question"

BY_PERSON = "only a person opens a task again that waits for a person or for its subtasks"

# Why a guard refuses.
MERGING = "its merge has begun already"
NOT_MERGING = "it does not hold the target of its merge"
STARVED_ALREADY = "a person is asked about it already"
NO_NEWS = "it is not blocked on its subtasks, or the same ones have not ended well as before"

# Why a single row moved a record.
WORK_APPROVED = "a person approved the verified work"
WORK_REJECTED = "a person rejected the verified work"
NEEDS_APPROVAL = "its work was verified, and a person has to approve it"
CLAIMED_TOO_OFTEN = "it was claimed too often without being started"
LOST_TOO_OFTEN = "its agents were lost too often"
MAY_CRASH_AGAIN = "its agent was lost, and another may try"
OPENED_AGAIN = "a person opened it again"
SUBTASKS_SUCCEEDED_LATE = "all of its subtasks have succeeded by now"
SUBTASKS_MIXED = "its subtasks have ended, and not all of them succeeded"

# A claim that `abandons` its agent: the supervisor of the agent learns at its next renewal that the
# lease is void, and ends the agent.
# fmt: off
PUBLISHED = (
    *rows(State.PLANNED,
        move(Trigger.APPROVED, State.OPEN, by(PERSON), names_proposal=True),
        move(Trigger.REJECTED, State.CANCELLED, by(PERSON), names_proposal=True,
             update=changes.cancelled, reason=TransitionReason.ABORTED),
    ),
    *rows(State.OPEN,
        move(Trigger.CLAIMED, State.CLAIMED, by(ASSIGNMENT, PRODUCER, PERSON), reads=True,
             guard=changes.claimable, guarded=CLAIMABLE,
             refusal=changes.why_not_claimable, update=changes.claimed),
        move(Trigger.SPLIT, State.WAITING_FOR_SUBTASKS, by(PRODUCER, PERSON),
             update=parts.split, effect=SPAWN, spawns="subtasks"),
        move(Trigger.CANCELLED, State.CANCELLED, by(PRODUCER, PERSON),
             update=changes.cancelled, effect=FOLLOW_UP, reason=TransitionReason.ABORTED),
    ),
    *rows(State.CLAIMED,
        carry(Trigger.STARTED, State.IN_PROGRESS, by(AGENT)),
        move(Trigger.RELEASED, State.OPEN, by(AGENT, ORPHANS, STALLS, PERSON), reads=True,
             abandons=True, guard=changes.claims_left, guarded=NO_STORM,
             update=changes.unclaimed, effect=FOLLOW_UP,
             reason_by_hand=TransitionReason.ABORTED),
        move(Trigger.COMPLETED, State.DONE, by(AGENT),
             update=changes.completed, reason=TransitionReason.COMPLETED),
        move(Trigger.FAILED, State.FAILED, by(AGENT),
             update=changes.failed, effect=FOLLOW_UP, reason=TransitionReason.FAILED),
        move(Trigger.CANCELLED, State.CANCELLED, by(PRODUCER, PERSON),
             update=changes.cancelled, effect=FOLLOW_UP, reason=TransitionReason.ABORTED),
        move(Trigger.SPLIT, State.WAITING_FOR_SUBTASKS, by(AGENT), reads=True,
             update=parts.split, effect=SPAWN, spawns="subtasks"),
        move(Trigger.BLOCKED, State.BLOCKED, by(AGENT), reads=True,
             update=changes.blocked, effect=FOLLOW_UP),
    ),
    *rows(State.IN_PROGRESS,
        move(Trigger.COMPLETED, State.DONE, by(AGENT),
             update=changes.completed, reason=TransitionReason.COMPLETED),
        move(Trigger.FAILED, State.FAILED, by(AGENT, STALLS),
             update=changes.failed, effect=FOLLOW_UP, reason=TransitionReason.FAILED),
        move(Trigger.BLOCKED, State.BLOCKED, by(AGENT), reads=True,
             update=changes.blocked, effect=FOLLOW_UP),
        move(Trigger.SPLIT, State.WAITING_FOR_SUBTASKS, by(AGENT), reads=True,
             update=parts.split, effect=SPAWN, spawns="subtasks"),
        move(Trigger.REQUEUED, State.OPEN, by(PERSON), guard=choice.is_possible,
             guarded=CHOSEN_AGENT, refusal=choice.why_not,
             update=tries.taken_away, effect=FOLLOW_UP, reason=TransitionReason.ABORTED),
        move(Trigger.CANCELLED, State.CANCELLED, by(PRODUCER, PERSON),
             update=changes.cancelled, effect=FOLLOW_UP, reason=TransitionReason.ABORTED),
        move(Trigger.ORPHANED, State.ORPHANED, by(AGENT, ORPHANS),
             update=lost.orphaned, reason=TransitionReason.LOST),
    ),
    *rows(State.ORPHANED,
        move(Trigger.RECOVERED, State.DONE, by(RECOVERY),
             update=changes.recovered, reason=TransitionReason.ORPHAN_RECOVERED),
        move(Trigger.UNRECOVERABLE, State.FAILED, by(RECOVERY, ORPHANS, STALLS),
             update=changes.failed, effect=FOLLOW_UP, reason=TransitionReason.LOST),
        move(Trigger.REQUEUED, State.OPEN, by(RECOVERY),
             guard=lost.may_be_followed, guarded=NO_STORM,
             update=tries.lost_and_followed, effect=FOLLOW_UP,
             reason=TransitionReason.ORPHAN_RECOVERED, says=MAY_CRASH_AGAIN),
    ),
    *rows(State.BLOCKED,
        move(Trigger.UNBLOCKED, State.OPEN, by(FOLLOW_UP, PERSON),
             guard=changes.waits_for_task, guarded=BY_PERSON, update=tries.unblocked),
        move(Trigger.CANCELLED, State.CANCELLED, by(PRODUCER, PERSON),
             update=changes.cancelled, effect=FOLLOW_UP, reason=TransitionReason.ABORTED),
    ),
    *rows(State.WAITING_FOR_SUBTASKS,
        move(Trigger.SUBTASKS_ENDED, State.DONE, by(CASCADE), guard=subtasks.all_succeeded,
             guarded=ALL_CLOSED, update=subtasks.done, reason=TransitionReason.COMPLETED),
        move(Trigger.TIMEOUT, State.BLOCKED, by(STALLS),
             update=subtasks.blocked, effect=FOLLOW_UP, reason=TransitionReason.TIMED_OUT),
        move(Trigger.CANCELLED, State.CANCELLED, by(PRODUCER, PERSON),
             update=changes.cancelled, effect=FOLLOW_UP, reason=TransitionReason.ABORTED),
    ),
    *rows(State.FAILED,
        move(Trigger.RETRIED, State.OPEN, by(STALLS, PERSON),
             update=tries.retried, reason=TransitionReason.RETRY),
    ),
    *rows(State.DONE,
        move(Trigger.MERGED, State.CLOSED, by(MERGE),
             update=changes.merged, effect=FOLLOW_UP, reason=TransitionReason.COMPLETED),
        move(Trigger.VERIFICATION_REJECTED, State.FAILED,
             by(VERIFICATION, MERGE, ORPHANS, STALLS),
             update=changes.verification_rejected, effect=FOLLOW_UP,
             reason=TransitionReason.VERIFICATION_FAILED),
    ),
)
OURS = (
    *rows(State.DONE,
        move(Trigger.VERIFIED, State.PENDING_APPROVAL, by(VERIFICATION), ours=APPROVAL,
             guard=changes.needs_approval, update=changes.verified,
             reason=TransitionReason.COMPLETED, says=NEEDS_APPROVAL),
        reenter(Trigger.VERIFIED, by(VERIFICATION), ours=TWO_STEPS,
                update=changes.verified, reason=TransitionReason.COMPLETED),
        stay(Trigger.MERGE_BEGUN, by(MERGE), ours=SERIAL,
             guard=changes.not_merging, refusal=MERGING, update=changes.merging),
        stay(Trigger.TARGET_FREED, by(MERGE), ours=FREED,
             guard=changes.is_merging, refusal=NOT_MERGING, update=changes.target_freed),
        reenter(Trigger.TARGET_REWRITTEN, by(MERGE), ours=REWRITTEN,
                guard=changes.is_merging, refusal=NOT_MERGING, update=changes.target_rewritten),
    ),
    *rows(State.PENDING_APPROVAL,
        move(Trigger.APPROVED, State.DONE, by(PERSON), names_proposal=True, ours=APPROVAL,
             update=changes.approved, says=WORK_APPROVED),
        move(Trigger.REJECTED, State.FAILED, by(PERSON), names_proposal=True, ours=APPROVAL,
             update=changes.rejected, effect=FOLLOW_UP, reason=TransitionReason.ABORTED,
             says=WORK_REJECTED),
        move(Trigger.CANCELLED, State.CANCELLED, by(PERSON), ours=APPROVAL,
             update=changes.cancelled, effect=FOLLOW_UP, reason=TransitionReason.ABORTED),
    ),
    *rows(State.CLAIMED,
        move(Trigger.RELEASED, State.FAILED, by(AGENT, ORPHANS, STALLS, PERSON), reads=True,
             ours=NO_MORE_CLAIMS, update=changes.failed, effect=FOLLOW_UP,
             reason=TransitionReason.FAILED, reason_by_hand=TransitionReason.ABORTED,
             says=CLAIMED_TOO_OFTEN),
    ),
    *rows(State.ORPHANED,
        move(Trigger.REQUEUED, State.FAILED, by(RECOVERY), ours=NO_MORE_CRASHES,
             update=changes.lost_too_often, effect=FOLLOW_UP, reason=TransitionReason.LOST,
             says=LOST_TOO_OFTEN),
    ),
    *rows(State.WAITING_FOR_SUBTASKS,
        move(Trigger.SUBTASKS_ENDED, State.BLOCKED, by(CASCADE), ours=MIXED,
             update=subtasks.blocked, effect=FOLLOW_UP, says=SUBTASKS_MIXED),
    ),
    *rows(State.FAILED,
        move(Trigger.CANCELLED, State.CANCELLED, by(PRODUCER, PERSON), ours=NO_MORE_TRIES,
             update=changes.cancelled, effect=FOLLOW_UP, reason=TransitionReason.ABORTED),
    ),
    *rows(State.ORPHANED,
        move(Trigger.CANCELLED, State.CANCELLED, by(PRODUCER, PERSON), ours=NO_MORE_TRIES,
             update=changes.cancelled, effect=FOLLOW_UP, reason=TransitionReason.ABORTED),
    ),
    *rows(State.IN_PROGRESS,
        stay(Trigger.CHILD_CANCELLED, by(AGENT), reads=True, ours=OWN_CHILDREN,
             update=parts.child_cancelled, effect=FOLLOW_UP),
    ),
    *rows(State.BLOCKED,
        move(Trigger.UNBLOCKED, State.OPEN, by(PERSON), ours=BY_PERSON,
             update=tries.unblocked, says=OPENED_AGAIN),
        reenter(Trigger.STARVED, by(FOLLOW_UP), ours=STARVED,
                guard=changes.waits_for_task, refusal=STARVED_ALREADY, update=changes.starved),
    ),
    *rows(State.BLOCKED,
        move(Trigger.SUBTASKS_CHECKED, State.DONE, by(FOLLOW_UP), ours=LATE_SUBTASKS,
             guard=subtasks.succeeded_late, update=subtasks.done,
             reason=TransitionReason.COMPLETED, says=SUBTASKS_SUCCEEDED_LATE),
        stay(Trigger.SUBTASKS_CHECKED, by(FOLLOW_UP), ours=LATE_SUBTASKS,
             guard=subtasks.has_news, refusal=NO_NEWS,
             update=subtasks.listed, effect=RESOLUTION),
    ),
    *rows(State.OPEN,
        reenter(Trigger.REQUEUED, by(PERSON), ours=CHOSEN_AGENT, guard=choice.is_possible,
                refusal=choice.why_not, update=tries.taken_away,
                reason=TransitionReason.ABORTED),
    ),
    *rows(State.CLAIMED,
        move(Trigger.REQUEUED, State.OPEN, by(PERSON), ours=CHOSEN_AGENT,
             guard=choice.is_possible, refusal=choice.why_not,
             update=tries.taken_away, effect=FOLLOW_UP, reason=TransitionReason.ABORTED),
    ),
    *rows((State.PLANNED, State.OPEN, State.BLOCKED, State.WAITING_FOR_SUBTASKS),
        move(Trigger.STAGE_FAILED, State.FAILED, by(PERSON), ours=STAGE,
             guard=changes.fails_by_stage, refusal=STAGE, update=changes.failed,
             effect=FOLLOW_UP, reason=TransitionReason.ABORTED),
    ),
)
# fmt: on

TASK = Machine(
    name="task",
    stages=STAGES,
    transitions=(*PUBLISHED, *OURS),
    says=Trigger.sentences(created="it was handed in"),
    initial_data=changes.initial_data,
    initial_state=changes.initial_state,
    payloads=Trigger.payloads(),
    cancel_triggers=(Trigger.CANCELLED, Trigger.REJECTED),
    placement=Placement(
        id_prefix=("backlog",),
        host=changes.host,
        commands=("agent", "stop_hooks", "signals", "subtasks.*.signals"),
    ),
    bookkeeping=Bookkeeping(bounds=changes.bounds),
    children=(
        Children(
            countdown="subtasks",
            payload=parts.child_payload,
            advance_trigger=Trigger.SUBTASKS_ENDED,
        ),
    ),
    close_trigger=Trigger.CANCELLED,
    fact_sources=changes.fact_sources,
    holder_refusal=changes.trust_refusal,
)
