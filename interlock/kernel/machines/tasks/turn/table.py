"""The turn's payloads, states and table: the 18 published rows, and nothing of ours."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import Annotated

from pydantic import Field

from interlock.kernel.machine import Machine
from interlock.kernel.machines.tasks.effects import ASSIGNMENT, FOLLOW_UP, SUPERVISION, TURN_CLEANUP
from interlock.kernel.payload import Shape, validated
from interlock.kernel.reason import AbortReason, TransitionReason
from interlock.kernel.table import CREATED, Active, Ask, Data, Terminal, Waiting, by, move, rows
from interlock.kernel.timer import Timer
from interlock.kernel.traits import Placement

BEGIN_MS = 60_000
SET_UP_MS = 900_000
WORK_MS = 3_600_000
Line = Annotated[str, Field(min_length=1, max_length=2_000)]


class State(StrEnum):
    """The states of a turn."""

    IDLE = auto()
    CLAIMING = auto()
    SPAWNING = auto()
    RUNNING = auto()
    TOOL_USE = auto()
    COMPACTING = auto()
    VERIFYING = auto()
    COMPLETING = auto()
    FAILED = auto()
    REAPED = auto()


class Trigger(StrEnum):
    """The triggers that can be fired at a turn; the names are those of the published events."""

    TASK_CLAIMED = auto()
    AGENT_SPAWNED = auto()
    TOOL_STARTED = auto()
    TOOL_COMPLETED = auto()
    COMPACT_NEEDED = auto()
    VERIFY_REQUESTED = auto()
    TASK_COMPLETED = auto()
    TASK_FAILED = auto()
    AGENT_REAPED = auto()


class NewTurn(Shape):
    """The task, the number of its claim, and the agent that works on it."""

    task: Line
    number: Annotated[int, Field(ge=1)]
    agent: Line | None = None
    repo: Line | None = None
    target: Line | None = None
    worktree: Line | None = None
    host: Line | None = None


class TurnTaskFailed(Shape):
    """The failure of a turn, in words and in codes."""

    reason: Annotated[str, Field(max_length=2_000)] = ""
    code: Annotated[str, Field(max_length=100)] = ""
    why: TransitionReason | None = None
    abort: AbortReason | None = None


class TurnAgentReaped(Shape):
    """Where the work of the claim is that was not merged: at a ref, or in a worktree that stays.

    `why` says why the work in such a worktree cannot be at a ref.
    """

    ref: Line | None = None
    worktree: Line | None = None
    why: Annotated[str, Field(max_length=2_000)] = ""


class TurnTool(Shape):
    """The tool that is called, and how its call ended."""

    tool: Line
    success: bool | None = None


def initial_data(payload: Data) -> Data:
    """Check what a turn is created from and return its first data."""
    return validated(NewTurn, "the turn", payload)


def failed(ask: Ask) -> Data:
    """Keep why the turn failed."""
    return {**ask.data, "failure": {name: value for name, value in ask.payload.items() if value}}


def reaped(ask: Ask) -> Data:
    """Keep where work of the claim is left."""
    return {**ask.data, "left": {name: value for name, value in ask.payload.items() if value}}


def recheck(delay_ms: int) -> Timer:
    """Return the timer after which an effect checks whether the turn was abandoned."""
    return Timer("recheck", lambda _: delay_ms, effect=TURN_CLEANUP)


def at_work(state: State, recheck_ms: int) -> Waiting:
    """Return a state that ends when the agent's supervisor, or `follow_up`, fires a trigger.

    It has no time limit of its own: that of the task limits it.
    """
    return Waiting(state, (recheck(recheck_ms),))


def ended(state: State) -> Active:
    """Return a state in which the agent is ended, its work saved and its worktree removed."""
    return Active(
        state,
        (recheck(SET_UP_MS),),
        effect=TURN_CLEANUP,
        outcomes=(Trigger.AGENT_REAPED,),
    )


STAGES = (
    # The published table has no row from `idle` to `failed`. So the effect `turn_cleanup`, which
    # finds an abandoned turn, fires `task_claimed` at it first, and then `task_failed`.
    at_work(State.IDLE, BEGIN_MS),
    at_work(State.CLAIMING, SET_UP_MS),
    at_work(State.SPAWNING, SET_UP_MS),
    at_work(State.RUNNING, WORK_MS),
    at_work(State.TOOL_USE, WORK_MS),
    at_work(State.COMPACTING, WORK_MS),
    at_work(State.VERIFYING, WORK_MS),
    ended(State.COMPLETING),
    ended(State.FAILED),
    Terminal(State.REAPED),
)
# What its rows say: why it moved.
SAYS = {
    CREATED: "claim {number} of the task {task} began",
    Trigger.TASK_CLAIMED: "its task is claimed",
    Trigger.AGENT_SPAWNED: "the process of its agent was started",
    Trigger.TOOL_STARTED: "its agent calls the tool {tool}",
    Trigger.TOOL_COMPLETED: "the call of the tool {tool} has ended",
    Trigger.COMPACT_NEEDED: "the context of its agent is too long, and is compacted",
    Trigger.VERIFY_REQUESTED: "its agent reported that the work is done",
    Trigger.TASK_COMPLETED: "its task is closed",
    Trigger.TASK_FAILED: "its claim did not lead to a closed task",
    Trigger.AGENT_REAPED: "no process of it is left, and its worktree is cleaned up",
}
AT_WORK = "its agent is at work"
COMPACTED = "the context of its agent is compacted"
FAILERS = by(ASSIGNMENT, SUPERVISION, FOLLOW_UP, TURN_CLEANUP)

# fmt: off
PUBLISHED = (
    *rows(State.IDLE,
        move(Trigger.TASK_CLAIMED, State.CLAIMING, by(ASSIGNMENT, TURN_CLEANUP)),
    ),
    *rows(State.CLAIMING,
        move(Trigger.AGENT_SPAWNED, State.SPAWNING, by(SUPERVISION)),
        move(Trigger.TASK_FAILED, State.FAILED, FAILERS, update=failed),
    ),
    *rows(State.SPAWNING,
        move(Trigger.AGENT_SPAWNED, State.RUNNING, by(SUPERVISION), says=AT_WORK),
        move(Trigger.TASK_FAILED, State.FAILED, FAILERS, update=failed),
    ),
    *rows(State.RUNNING,
        move(Trigger.TOOL_STARTED, State.TOOL_USE, by(SUPERVISION)),
        move(Trigger.COMPACT_NEEDED, State.COMPACTING, by(SUPERVISION)),
        move(Trigger.VERIFY_REQUESTED, State.VERIFYING, by(SUPERVISION)),
        move(Trigger.TASK_FAILED, State.FAILED, FAILERS, update=failed),
    ),
    *rows(State.TOOL_USE,
        move(Trigger.TOOL_COMPLETED, State.RUNNING, by(SUPERVISION)),
        move(Trigger.TASK_FAILED, State.FAILED, FAILERS, update=failed),
    ),
    *rows(State.COMPACTING,
        move(Trigger.VERIFY_REQUESTED, State.RUNNING, by(SUPERVISION), says=COMPACTED),
        move(Trigger.TASK_FAILED, State.FAILED, FAILERS, update=failed),
    ),
    *rows(State.VERIFYING,
        move(Trigger.TASK_COMPLETED, State.COMPLETING, by(FOLLOW_UP),
             reason=TransitionReason.COMPLETED),
        move(Trigger.COMPACT_NEEDED, State.RUNNING, by(SUPERVISION)),
        move(Trigger.TASK_FAILED, State.FAILED, FAILERS, update=failed),
    ),
    *rows(State.COMPLETING,
        move(Trigger.AGENT_REAPED, State.REAPED, by(TURN_CLEANUP), update=reaped),
    ),
    *rows(State.FAILED,
        move(Trigger.AGENT_REAPED, State.REAPED, by(TURN_CLEANUP), update=reaped),
    ),
)
# fmt: on

TURN = Machine(
    name="turn",
    stages=STAGES,
    transitions=PUBLISHED,
    says=SAYS,
    initial_data=initial_data,
    payloads={
        Trigger.TASK_FAILED: TurnTaskFailed,
        Trigger.AGENT_REAPED: TurnAgentReaped,
        Trigger.TOOL_STARTED: TurnTool,
        Trigger.TOOL_COMPLETED: TurnTool,
    },
    placement=Placement(id_prefix=("backlog",), host=lambda data: str(data.get("host") or "")),
)
