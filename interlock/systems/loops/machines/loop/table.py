"""The table of a long-lived agent: the published rows and globals, then ours, each with its reason.

The published CancelSession is the order to interrupt a session whose effect goes on and, on a stop,
the order to stop one whose effect is revoked; so is ForceStopSession. A revoked session has until
its lease and its grace are over, and no other begins before that.
"""

from __future__ import annotations

from interlock import ORPHANS, PERSON, PRODUCER, STALLS, Machine, by, move, reenter, rows
from interlock.system.tables import Placement, carry
from interlock.systems.loops.machines.effects import MAIL_CHECK, PROMPT, SESSION, WORKTREE
from interlock.systems.loops.machines.loop import changes, payloads
from interlock.systems.loops.machines.loop.names import State, Trigger
from interlock.systems.loops.machines.loop.stages import LIVE, STAGES

SET_UP = (State.INITIALIZING, State.BUILDING_PROMPT)
SET_UP_DONE = tuple(state for state in LIVE if state not in SET_UP)
OPERATOR = by(PERSON, PRODUCER)

# Why a row is ours.
LIMITED = "the page has no time limit here; a step that hangs is tried again before it is fatal"
MOVED = "no worker took it up, twice: its computer may be gone, and another makes a worktree"
AWAITED = "a launch that no worker took up is no error of a session: all workers may be away"
NO_ERROR = "a provider's limit is no error; only where the agent says so"

# Why a single row moved a record.
ONE_ERROR_TOO_MANY = "its session failed, which was one error too many"
ONE_TIMEOUT_TOO_MANY = "its session took too long, which was one error too many"
PARKED = "its provider limited the rate, which does not count as an error"
INTERRUPTED = "its session has ended after it was interrupted"
HOST_GONE = "no worker took it up twice, so its worktree is made on another computer"
NOT_TAKEN_UP = "no worker took up its session in time"
STEP_FAILED = "the step took too long, and no try is left"
NEXT_SESSION = "its next session is due"

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
             says=ONE_ERROR_TOO_MANY),
        move(Trigger.SESSION_ERROR, State.COOLING_DOWN, by(SESSION, ORPHANS),
             update=changes.failed),
        move(Trigger.SESSION_TIMEOUT, State.STOPPED, by(STALLS), abandons=True,
             guard=changes.is_one_too_many, update=changes.stopped_by_timeout,
             says=ONE_TIMEOUT_TOO_MANY),
        move(Trigger.SESSION_TIMEOUT, State.COOLING_DOWN, by(STALLS), abandons=True,
             update=changes.timed_out),
    ),
    *rows(State.RUNNING,
        move(Trigger.SESSION_SUCCEEDED, State.SESSION_COMPLETE, by(SESSION),
             update=changes.succeeded),
        move(Trigger.SESSION_ERROR, State.STOPPED, by(SESSION, ORPHANS),
             guard=changes.is_one_too_many, update=changes.stopped_by_error,
             says=ONE_ERROR_TOO_MANY),
        move(Trigger.SESSION_ERROR, State.COOLING_DOWN, by(SESSION, ORPHANS),
             update=changes.failed),
        move(Trigger.SESSION_TIMEOUT, State.STOPPED, by(STALLS), abandons=True,
             guard=changes.is_one_too_many, update=changes.stopped_by_timeout,
             says=ONE_TIMEOUT_TOO_MANY),
        move(Trigger.SESSION_TIMEOUT, State.COOLING_DOWN, by(STALLS), abandons=True,
             update=changes.timed_out),
        carry(Trigger.URGENT_MESSAGE, State.INTERRUPTING, by(MAIL_CHECK), interrupts=True),
    ),
    *rows(State.INTERRUPTING,
        move(Trigger.SESSION_SUCCEEDED, State.BUILDING_PROMPT, by(SESSION),
             update=changes.interrupted, says=INTERRUPTED),
        move(Trigger.SESSION_ERROR, State.BUILDING_PROMPT, by(SESSION, ORPHANS),
             update=changes.interrupted_by_error, says=INTERRUPTED),
        move(Trigger.SESSION_TIMEOUT, State.BUILDING_PROMPT, by(STALLS), abandons=True,
             update=changes.interrupted_by_timeout, says=INTERRUPTED),
        move(Trigger.GRACE_EXCEEDED, State.BUILDING_PROMPT, by(STALLS), abandons=True,
             update=changes.force_stopped),
    ),
    *rows(State.SESSION_COMPLETE,
        move(Trigger.WORKTREE_READY, State.BUILDING_PROMPT, by(MAIL_CHECK),
             update=changes.next_session, says=NEXT_SESSION),
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
        move(Trigger.SESSION_ERROR, State.COOLING_DOWN, by(SESSION), ours=NO_ERROR,
             guard=changes.is_parked, update=changes.parked, says=PARKED),
    ),
    *rows(State.SPAWNING,
        move(Trigger.SESSION_TIMEOUT, State.INITIALIZING, by(STALLS), abandons=True, ours=MOVED,
             guard=changes.host_is_gone, update=changes.step_overdue,
             says=HOST_GONE),
        reenter(Trigger.SESSION_TIMEOUT, by(STALLS), ours=AWAITED,
                guard=changes.is_unbegun, update=changes.step_overdue,
                says=NOT_TAKEN_UP),
    ),
)
OURS = (
    *rows(State.INITIALIZING,
        reenter(Trigger.OVERDUE, by(STALLS), ours=LIMITED,
                guard=changes.may_try_again, update=changes.step_overdue),
        move(Trigger.OVERDUE, State.STOPPED, by(STALLS), abandons=True, ours=LIMITED,
             update=changes.stopped_by_overdue, says=STEP_FAILED),
    ),
    *rows(State.BUILDING_PROMPT,
        move(Trigger.OVERDUE, State.INITIALIZING, by(STALLS), abandons=True, ours=MOVED,
             guard=changes.host_is_gone, update=changes.step_overdue,
             says=HOST_GONE),
        reenter(Trigger.OVERDUE, by(STALLS), ours=LIMITED,
                guard=changes.may_try_again, update=changes.step_overdue),
        move(Trigger.OVERDUE, State.STOPPED, by(STALLS), abandons=True, ours=LIMITED,
             update=changes.stopped_by_overdue, says=STEP_FAILED),
    ),
)
# fmt: on

LOOP = Machine(
    name="loop",
    stages=STAGES,
    transitions=(*AHEAD, *PUBLISHED, *OURS),
    says=Trigger.sentences(created="a life of this agent was started"),
    initial_data=changes.initial_data,
    payloads=Trigger.payloads(),
    ignores={
        Trigger.URGENT_MESSAGE: "the next session's prompt takes it along",
        Trigger.OPERATOR_STOP: "it has stopped already",
        Trigger.FATAL_ERROR: "it has stopped already",
    },
    cancel_triggers=(Trigger.OPERATOR_STOP,),
    placement=Placement(
        id_prefix=("agent",),
        commands=("command",),
        id_pattern=rf"{payloads.NAME.strip('^$')}/[1-9][0-9]{{0,8}}",
        id_in_words="write it as <agent>/<number of its life>",
        host=lambda data: str(data.get("host") or ""),
    ),
    inbox=MAIL_CHECK,
    inbox_data=changes.mail_data,
)
