"""The loop's table: the published rows and globals of a long-lived agent, then ours, each with why.

CancelSession is the carried session's order to interrupt, and, on a stop, the revoked session's
order to stop; ForceStopSession is that too: a session that is revoked has until its lease and grace
are over, and no other starts before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from interlock.kernel.machine import Machine
from interlock.kernel.machines.loops.effects import DRAIN, PROMPT, RETIREMENT, SESSION, WORKTREE
from interlock.kernel.machines.loops.loop import changes as c
from interlock.kernel.machines.loops.loop.names import SELF, Next
from interlock.kernel.machines.loops.loop.names import State as S
from interlock.kernel.machines.loops.loop.names import Trigger as T
from interlock.kernel.machines.loops.loop.payloads import (
    NAME,
    LoopFatalError,
    LoopOperatorStop,
    LoopOverdue,
    LoopPromptReady,
    LoopSessionEnd,
    LoopSessionStarted,
    LoopWorktreeReady,
    birth,
    mail,
)
from interlock.kernel.table import Active, Data, Loop, Terminal, Timer, Transition, Waiting

LOOK_MS = 3_600_000
UNBEGUN = {"unbegun": True}


def seconds(name: str) -> Callable[[Data], int | None]:
    """Return the delay that the agent's data hold under this name, in ms."""

    def delay(data: Data) -> int | None:
        return None if data.get(name) is None else int(data[name]) * 1_000

    return delay


def next_ms(data: Data) -> int:
    """Return when to look whether the next session is due."""
    return int(data["every_s"]) * 1_000 if data["next"] == Next.LATER else LOOK_MS


def its_name(data: Data) -> tuple[str, ...]:
    """Hold the agent's name as long as it lives."""
    del data
    return (SELF,)


STAGES = (
    Active(
        S.INITIALIZING,
        (Timer("limit", seconds("initializing_s"), T.OVERDUE, unbegun_payload=UNBEGUN),),
        effect=WORKTREE,
        outcomes=(T.WORKTREE_READY, T.FATAL_ERROR),
        exhausted=T.FATAL_ERROR,
        holds=its_name,
    ),
    Active(
        S.BUILDING_PROMPT,
        (Timer("limit", seconds("building_s"), T.OVERDUE, unbegun_payload=UNBEGUN),),
        effect=PROMPT,
        outcomes=(T.PROMPT_READY, T.FATAL_ERROR),
        exhausted=T.FATAL_ERROR,
        holds=its_name,
    ),
    Active(
        S.SPAWNING,
        (Timer("limit", seconds("spawning_s"), T.SESSION_TIMEOUT, unbegun_payload=UNBEGUN),),
        effect=SESSION,
        outcomes=(T.SESSION_STARTED, T.SESSION_ERROR),
        exhausted=T.SESSION_ERROR,
        holds=its_name,
    ),
    Active(
        S.RUNNING,
        (
            Timer("session", seconds("session_timeout_s"), T.SESSION_TIMEOUT),
            Timer("look", lambda _: LOOK_MS, effect=DRAIN),
        ),
        outcomes=(T.SESSION_SUCCEEDED, T.SESSION_ERROR),
        crash=T.SESSION_ERROR,
        holds=its_name,
    ),
    Active(
        S.INTERRUPTING,
        (
            Timer("grace", seconds("grace_s"), T.GRACE_EXCEEDED),
            # Where a session may take less than its grace, that is over first.
            Timer("session", seconds("session_timeout_s"), T.SESSION_TIMEOUT),
        ),
        outcomes=(T.SESSION_SUCCEEDED, T.SESSION_ERROR),
        crash=T.SESSION_ERROR,
        holds=its_name,
    ),
    Waiting(
        S.SESSION_COMPLETE,
        (Timer("next", next_ms, effect=DRAIN),),
        asks=lambda _: False,
        offers=DRAIN,
        holds=its_name,
    ),
    Waiting(
        S.COOLING_DOWN,
        (Timer("backoff", lambda data: int(data["cooling_ms"]), T.BACKOFF_ELAPSED),),
        asks=lambda _: False,
        holds=its_name,
    ),
    Terminal(S.STOPPED, clears=RETIREMENT),
)
LIMITED = "the page has no time limit here; a step that hangs is tried again before it is fatal"
MOVED = "nobody took it up, twice: its machine may be gone, and another makes a worktree"
AWAITED = "a launch that nobody took up is no error of a session: all workers may be away"
PARKED = "a provider's limit is no error; only where the agent says so"


def by(*names: str) -> tuple[str, ...]:
    """Name who fires a row in the running system."""
    return names


ERROR = by("session", "orphans")
LIVE = tuple(stage.state for stage in STAGES[:-1])
OPERATOR = by("person", "producer")
FATAL: Mapping[str, tuple[str, ...]] = {
    S.INITIALIZING: by("worktree", "orphans", "person", "producer"),
    S.BUILDING_PROMPT: by("prompt", "orphans", "person", "producer"),
}

# fmt: off
PUBLISHED = (
    Transition(S.INITIALIZING,     T.WORKTREE_READY,    S.BUILDING_PROMPT,  update=c.settled_in,             by=by("worktree")),
    Transition(S.BUILDING_PROMPT,  T.PROMPT_READY,      S.SPAWNING,         update=c.prompted,               by=by("prompt")),
    Transition(S.SPAWNING,         T.SESSION_STARTED,   S.RUNNING,          update=c.started, carry=True, effect=DRAIN, by=by("session")),
    Transition(S.SPAWNING,         T.SESSION_ERROR,     S.STOPPED,          guard=c.is_last_straw, update=c.failed_for_good, by=ERROR),
    Transition(S.SPAWNING,         T.SESSION_ERROR,     S.COOLING_DOWN,     update=c.failed,                 by=ERROR),
    Transition(S.SPAWNING,         T.SESSION_TIMEOUT,   S.STOPPED,          guard=c.is_last_straw, update=c.timed_out_for_good, by=by("stalls")),
    Transition(S.SPAWNING,         T.SESSION_TIMEOUT,   S.COOLING_DOWN,     update=c.timed_out,              by=by("stalls")),
    Transition(S.RUNNING,          T.SESSION_SUCCEEDED, S.SESSION_COMPLETE, update=c.succeeded,              by=by("session")),
    Transition(S.RUNNING,          T.SESSION_ERROR,     S.STOPPED,          guard=c.is_last_straw, update=c.failed_for_good, by=ERROR),
    Transition(S.RUNNING,          T.SESSION_ERROR,     S.COOLING_DOWN,     update=c.failed,                 by=ERROR),
    Transition(S.RUNNING,          T.SESSION_TIMEOUT,   S.STOPPED,          guard=c.is_last_straw, update=c.timed_out_for_good, by=by("stalls")),
    Transition(S.RUNNING,          T.SESSION_TIMEOUT,   S.COOLING_DOWN,     update=c.timed_out,              by=by("stalls")),
    Transition(S.RUNNING,          T.URGENT_MESSAGE,    S.INTERRUPTING,     carry=True, interrupts=True,     by=by("drain")),
    Transition(S.INTERRUPTING,     T.SESSION_SUCCEEDED, S.BUILDING_PROMPT,  update=c.interrupted,            by=by("session")),
    Transition(S.INTERRUPTING,     T.SESSION_ERROR,     S.BUILDING_PROMPT,  update=c.interrupted_by_error,   by=ERROR),
    Transition(S.INTERRUPTING,     T.SESSION_TIMEOUT,   S.BUILDING_PROMPT,  update=c.interrupted_by_timeout, by=by("stalls")),
    Transition(S.INTERRUPTING,     T.GRACE_EXCEEDED,    S.BUILDING_PROMPT,  update=c.forced,                 by=by("stalls")),
    Transition(S.SESSION_COMPLETE, T.WORKTREE_READY,    S.BUILDING_PROMPT,  update=c.next_session,           by=by("drain")),
    Transition(S.COOLING_DOWN,     T.BACKOFF_ELAPSED,   S.BUILDING_PROMPT,                                   by=by("stalls")),
    *(Transition(state,            T.OPERATOR_STOP,     S.STOPPED,          update=c.stopped,                by=OPERATOR) for state in LIVE),
    *(Transition(state,            T.FATAL_ERROR,       S.STOPPED,          update=c.fatal,                  by=FATAL.get(str(state), OPERATOR)) for state in LIVE),
)
AHEAD = (
    Transition(S.RUNNING,          T.SESSION_ERROR,     S.COOLING_DOWN,     guard=c.is_parked,  update=c.parked,   by=by("session"), ours=PARKED),
    Transition(S.SPAWNING,         T.SESSION_TIMEOUT,   S.INITIALIZING,     guard=c.is_gone,    update=c.left_waiting, by=by("stalls"), ours=MOVED),
    Transition(S.SPAWNING,         T.SESSION_TIMEOUT,   S.SPAWNING,         guard=c.is_unbegun, update=c.left_waiting, loop=Loop.EXTERNAL, by=by("stalls"), ours=AWAITED),
)
OURS = (
    Transition(S.INITIALIZING,     T.OVERDUE,           S.INITIALIZING,     guard=c.has_patience, update=c.left_waiting, loop=Loop.EXTERNAL, by=by("stalls"), ours=LIMITED),
    Transition(S.INITIALIZING,     T.OVERDUE,           S.STOPPED,          update=c.overdue_for_good, by=by("stalls"), ours=LIMITED),
    Transition(S.BUILDING_PROMPT,  T.OVERDUE,           S.INITIALIZING,     guard=c.is_gone, update=c.left_waiting, by=by("stalls"), ours=MOVED),
    Transition(S.BUILDING_PROMPT,  T.OVERDUE,           S.BUILDING_PROMPT,  guard=c.has_patience, update=c.left_waiting, loop=Loop.EXTERNAL, by=by("stalls"), ours=LIMITED),
    Transition(S.BUILDING_PROMPT,  T.OVERDUE,           S.STOPPED,          update=c.overdue_for_good, by=by("stalls"), ours=LIMITED),
)
# fmt: on

LOOP = Machine(
    name="loop",
    stages=STAGES,
    # What is ours stands ahead where it is narrower than the published row of its cell.
    transitions=(*AHEAD, *PUBLISHED, *OURS),
    initial_data=birth,
    payloads={
        T.WORKTREE_READY: LoopWorktreeReady,
        T.PROMPT_READY: LoopPromptReady,
        T.SESSION_STARTED: LoopSessionStarted,
        T.SESSION_SUCCEEDED: LoopSessionEnd,
        T.SESSION_ERROR: LoopSessionEnd,
        T.SESSION_TIMEOUT: LoopSessionEnd,
        T.OPERATOR_STOP: LoopOperatorStop,
        T.FATAL_ERROR: LoopFatalError,
        T.OVERDUE: LoopOverdue,
    },
    ignores={
        T.URGENT_MESSAGE: "the next session's prompt takes it along",
        T.OPERATOR_STOP: "it has stopped already",
        T.FATAL_ERROR: "it has stopped already",
    },
    mail_data=mail,
    mail_effect=DRAIN,
    cancel_triggers=(T.OPERATOR_STOP,),
    host=lambda data: str(data.get("host") or ""),
    id_prefix=("agent",),
    id_format=(
        rf"{NAME.strip('^$')}/[1-9][0-9]{{0,8}}",
        "write it as <agent>/<number of its life>",
    ),
)
