"""The table of a long-lived agent: the published rows and globals, then ours, each with its reason.

The published CancelSession is the order to interrupt a session whose effect goes on and, on a stop,
the order to stop one whose effect is revoked; so is ForceStopSession. A revoked session has until
its lease and its grace are over, and no other begins before that.
"""

from __future__ import annotations

from interlock.kernel.machine import Machine
from interlock.kernel.machines.loops.effects import MAIL_CHECK, PROMPT, SESSION, WORKTREE
from interlock.kernel.machines.loops.loop import changes, payloads, sentences
from interlock.kernel.machines.loops.loop.names import State, Trigger
from interlock.kernel.machines.loops.loop.stages import LIVE, STAGES
from interlock.kernel.table import (
    ORPHANS,
    PERSON,
    PRODUCER,
    STALLS,
    by,
    carry,
    move,
    reenter,
    rows,
)
from interlock.kernel.traits import FamilyInbox, IdFormat, Placement

SET_UP = (State.INITIALIZING, State.BUILDING_PROMPT)
SET_UP_DONE = tuple(state for state in LIVE if state not in SET_UP)
OPERATOR = by(PERSON, PRODUCER)

# Why a row is ours.
LIMITED = "the page has no time limit here; a step that hangs is tried again before it is fatal"
MOVED = "no worker took it up, twice: its computer may be gone, and another makes a worktree"
AWAITED = "a launch that no worker took up is no error of a session: all workers may be away"
PARKED = "a provider's limit is no error; only where the agent says so"

# A row that `abandons` an effect: its holder learns at its next renewal that its lease is void, and
# ends the session. Effects of a loop are exclusive: none begins before that is over.
# fmt: off
PUBLISHED = (
    *rows(State.INITIALIZING,
        move(Trigger.WORKTREE_READY, State.BUILDING_PROMPT, by(WORKTREE),
             update=changes.worktree_ready),
    ),
    *rows(State.BUILDING_PROMPT,
        move(Trigger.PROMPT_READY, State.SPAWNING, by(PROMPT), update=changes.prompt_ready),
    ),
    *rows(State.SPAWNING,
        carry(Trigger.SESSION_STARTED, State.RUNNING, by(SESSION),
              update=changes.started, effect=MAIL_CHECK),
        move(Trigger.SESSION_ERROR, State.STOPPED, by(SESSION, ORPHANS),
             guard=changes.is_one_too_many, update=changes.stopped_by_error,
             says=sentences.ONE_ERROR_TOO_MANY),
        move(Trigger.SESSION_ERROR, State.COOLING_DOWN, by(SESSION, ORPHANS),
             update=changes.failed),
        move(Trigger.SESSION_TIMEOUT, State.STOPPED, by(STALLS), abandons=True,
             guard=changes.is_one_too_many, update=changes.stopped_by_timeout,
             says=sentences.ONE_TIMEOUT_TOO_MANY),
        move(Trigger.SESSION_TIMEOUT, State.COOLING_DOWN, by(STALLS), abandons=True,
             update=changes.timed_out),
    ),
    *rows(State.RUNNING,
        move(Trigger.SESSION_SUCCEEDED, State.SESSION_COMPLETE, by(SESSION),
             update=changes.succeeded),
        move(Trigger.SESSION_ERROR, State.STOPPED, by(SESSION, ORPHANS),
             guard=changes.is_one_too_many, update=changes.stopped_by_error,
             says=sentences.ONE_ERROR_TOO_MANY),
        move(Trigger.SESSION_ERROR, State.COOLING_DOWN, by(SESSION, ORPHANS),
             update=changes.failed),
        move(Trigger.SESSION_TIMEOUT, State.STOPPED, by(STALLS), abandons=True,
             guard=changes.is_one_too_many, update=changes.stopped_by_timeout,
             says=sentences.ONE_TIMEOUT_TOO_MANY),
        move(Trigger.SESSION_TIMEOUT, State.COOLING_DOWN, by(STALLS), abandons=True,
             update=changes.timed_out),
        carry(Trigger.URGENT_MESSAGE, State.INTERRUPTING, by(MAIL_CHECK), interrupts=True),
    ),
    *rows(State.INTERRUPTING,
        move(Trigger.SESSION_SUCCEEDED, State.BUILDING_PROMPT, by(SESSION),
             update=changes.interrupted, says=sentences.INTERRUPTED),
        move(Trigger.SESSION_ERROR, State.BUILDING_PROMPT, by(SESSION, ORPHANS),
             update=changes.interrupted_by_error, says=sentences.INTERRUPTED),
        move(Trigger.SESSION_TIMEOUT, State.BUILDING_PROMPT, by(STALLS), abandons=True,
             update=changes.interrupted_by_timeout, says=sentences.INTERRUPTED),
        move(Trigger.GRACE_EXCEEDED, State.BUILDING_PROMPT, by(STALLS), abandons=True,
             update=changes.force_stopped),
    ),
    *rows(State.SESSION_COMPLETE,
        move(Trigger.WORKTREE_READY, State.BUILDING_PROMPT, by(MAIL_CHECK),
             update=changes.next_session, says=sentences.NEXT_SESSION),
    ),
    *rows(State.COOLING_DOWN,
        move(Trigger.BACKOFF_ELAPSED, State.BUILDING_PROMPT, by(STALLS)),
    ),
    *rows(LIVE,
        move(Trigger.OPERATOR_STOP, State.STOPPED, OPERATOR, update=changes.stopped),
    ),
    *rows(State.INITIALIZING,
        move(Trigger.FATAL_ERROR, State.STOPPED, by(WORKTREE, ORPHANS, PERSON, PRODUCER),
             update=changes.fatal),
    ),
    *rows(State.BUILDING_PROMPT,
        move(Trigger.FATAL_ERROR, State.STOPPED, by(PROMPT, ORPHANS, PERSON, PRODUCER),
             update=changes.fatal),
    ),
    *rows(SET_UP_DONE,
        move(Trigger.FATAL_ERROR, State.STOPPED, OPERATOR, update=changes.fatal),
    ),
)
# These are asked before the published rows of their cells, because they are narrower.
AHEAD = (
    *rows(State.RUNNING,
        move(Trigger.SESSION_ERROR, State.COOLING_DOWN, by(SESSION), ours=PARKED,
             guard=changes.is_parked, update=changes.parked, says=sentences.PARKED),
    ),
    *rows(State.SPAWNING,
        move(Trigger.SESSION_TIMEOUT, State.INITIALIZING, by(STALLS), abandons=True, ours=MOVED,
             guard=changes.host_is_gone, update=changes.step_overdue,
             says=sentences.HOST_GONE),
        reenter(Trigger.SESSION_TIMEOUT, by(STALLS), ours=AWAITED,
                guard=changes.is_unbegun, update=changes.step_overdue,
                says=sentences.NOT_TAKEN_UP),
    ),
)
OURS = (
    *rows(State.INITIALIZING,
        reenter(Trigger.OVERDUE, by(STALLS), ours=LIMITED,
                guard=changes.may_try_again, update=changes.step_overdue),
        move(Trigger.OVERDUE, State.STOPPED, by(STALLS), abandons=True, ours=LIMITED,
             update=changes.stopped_by_overdue, says=sentences.STEP_FAILED),
    ),
    *rows(State.BUILDING_PROMPT,
        move(Trigger.OVERDUE, State.INITIALIZING, by(STALLS), abandons=True, ours=MOVED,
             guard=changes.host_is_gone, update=changes.step_overdue,
             says=sentences.HOST_GONE),
        reenter(Trigger.OVERDUE, by(STALLS), ours=LIMITED,
                guard=changes.may_try_again, update=changes.step_overdue),
        move(Trigger.OVERDUE, State.STOPPED, by(STALLS), abandons=True, ours=LIMITED,
             update=changes.stopped_by_overdue, says=sentences.STEP_FAILED),
    ),
)
# fmt: on

LOOP = Machine(
    name="loop",
    stages=STAGES,
    transitions=(*AHEAD, *PUBLISHED, *OURS),
    says=sentences.SAYS,
    initial_data=changes.initial_data,
    payloads={
        Trigger.WORKTREE_READY: payloads.LoopWorktreeReady,
        Trigger.PROMPT_READY: payloads.LoopPromptReady,
        Trigger.SESSION_STARTED: payloads.LoopSessionStarted,
        Trigger.SESSION_SUCCEEDED: payloads.LoopSessionEnd,
        Trigger.SESSION_ERROR: payloads.LoopSessionEnd,
        Trigger.SESSION_TIMEOUT: payloads.LoopSessionEnd,
        Trigger.OPERATOR_STOP: payloads.LoopOperatorStop,
        Trigger.FATAL_ERROR: payloads.LoopFatalError,
        Trigger.OVERDUE: payloads.LoopOverdue,
    },
    ignores={
        Trigger.URGENT_MESSAGE: "the next session's prompt takes it along",
        Trigger.OPERATOR_STOP: "it has stopped already",
        Trigger.FATAL_ERROR: "it has stopped already",
    },
    cancel_triggers=(Trigger.OPERATOR_STOP,),
    placement=Placement(
        id_prefix=("agent",),
        commands=("command",),
        id_format=IdFormat(
            rf"{payloads.NAME.strip('^$')}/[1-9][0-9]{{0,8}}",
            "write it as <agent>/<number of its life>",
        ),
        host=lambda data: str(data.get("host") or ""),
    ),
    inbox=FamilyInbox(changes.mail_data, MAIL_CHECK),
)
