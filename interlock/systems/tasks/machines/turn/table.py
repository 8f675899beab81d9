"""The turn's payloads, states and table: the 18 published rows, and nothing of ours."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import Annotated, NotRequired, TypedDict

from pydantic import Field

from interlock import (
    Active,
    Ask,
    Machine,
    Shape,
    Terminal,
    Timer,
    Waiting,
    by,
    move,
    rows,
    validated,
)
from interlock.system.tables import (
    AbortReason,
    Meaning,
    Placement,
    TransitionReason,
    Triggers,
)
from interlock.system.tables import RecordData as Data
from interlock.systems.tasks.machines.effects import (
    ASSIGNMENT,
    FOLLOW_UP,
    SUPERVISION,
    TURN_CLEANUP,
)
from interlock.systems.tasks.machines.turn import limits

Line = Annotated[str, Field(min_length=1, max_length=limits.LINE_LENGTH_MAX)]


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

    reason: Annotated[str, Field(max_length=limits.LINE_LENGTH_MAX)] = ""
    code: Annotated[str, Field(max_length=limits.CODE_LENGTH_MAX)] = ""
    why: TransitionReason | None = None
    abort: AbortReason | None = None


class TurnAgentReaped(Shape):
    """Where the work of the claim is that was not merged: at a ref, or in a worktree that stays.

    `why` says why the work in such a worktree cannot be at a ref.
    """

    ref: Line | None = None
    worktree: Line | None = None
    why: Annotated[str, Field(max_length=limits.LINE_LENGTH_MAX)] = ""


class TurnFailureData(TypedDict, total=False):
    """The failure of a turn: what `TurnTaskFailed` has, without what is empty."""

    reason: str
    code: str
    why: str
    abort: str


class LeftData(TypedDict, total=False):
    """Where work is left: what `TurnAgentReaped` has, without what is empty."""

    ref: str
    worktree: str
    why: str


class TurnData(TypedDict):
    """The data of a turn: the fields of `NewTurn`, then how it failed and what it left."""

    task: str
    number: int
    agent: NotRequired[str]
    repo: NotRequired[str]
    target: NotRequired[str]
    worktree: NotRequired[str]
    host: NotRequired[str]

    failure: NotRequired[TurnFailureData]
    left: NotRequired[LeftData]


class TurnTool(Shape):
    """The tool that is called, and how its call ended."""

    tool: Line
    success: bool | None = None


class Trigger(Triggers):
    """The triggers that can be fired at a turn; the names are those of the published events."""

    TASK_CLAIMED = "task_claimed", "its task is claimed"
    AGENT_SPAWNED = "agent_spawned", "the process of its agent was started"
    TOOL_STARTED = "tool_started", "its agent calls the tool {tool}", TurnTool
    TOOL_COMPLETED = "tool_completed", "the call of the tool {tool} has ended", TurnTool
    COMPACT_NEEDED = "compact_needed", "the context of its agent is too long, and is compacted"
    VERIFY_REQUESTED = "verify_requested", "its agent reported that the work is done"
    TASK_COMPLETED = "task_completed", "its task is closed"
    TASK_FAILED = "task_failed", "its claim did not lead to a closed task", TurnTaskFailed
    AGENT_REAPED = (
        "agent_reaped",
        "no process of it is left, and its worktree is cleaned up",
        TurnAgentReaped,
    )


def initial_data(payload: Data) -> Data:
    """Check what a turn is created from and return its first data."""
    return validated(NewTurn, "the turn", payload)


def host(data: TurnData) -> str:
    """Return the computer that the work of the turn is on, or ''."""
    return data.get("host", "")


def failed(ask: Ask[TurnData]) -> Data:
    """Keep why the turn failed."""
    return {**ask.data, "failure": {name: value for name, value in ask.payload.items() if value}}


def reaped(ask: Ask[TurnData]) -> Data:
    """Keep where work of the claim is left."""
    return {**ask.data, "left": {name: value for name, value in ask.payload.items() if value}}


def recheck(delay_ms: int) -> Timer:
    """Return the timer after which an effect checks whether the turn was abandoned."""
    return Timer("recheck", lambda _: delay_ms, effect=TURN_CLEANUP)


def at_work(state: State, recheck_ms: int) -> Waiting:
    """Return a state that ends when the agent's supervisor, or `follow_up`, fires a trigger.

    It has no time limit of its own: that of the task limits it.
    """
    meaning = Meaning.WAITS if state is State.IDLE else Meaning.WORKS
    return Waiting(state, (recheck(recheck_ms),), meaning=meaning)


def ended(state: State, meaning: Meaning | None = None) -> Active:
    """Return a state in which the agent is ended, its work saved and its worktree removed."""
    return Active(
        state,
        (recheck(limits.SET_UP_RECHECK_MS),),
        effect=TURN_CLEANUP,
        outcomes=(Trigger.AGENT_REAPED,),
        meaning=meaning,
    )


STAGES = (
    # The published table has no row from `idle` to `failed`. So the effect `turn_cleanup`, which
    # finds an abandoned turn, fires `task_claimed` at it first, and then `task_failed`.
    at_work(State.IDLE, limits.IDLE_RECHECK_MS),
    at_work(State.CLAIMING, limits.SET_UP_RECHECK_MS),
    at_work(State.SPAWNING, limits.SET_UP_RECHECK_MS),
    at_work(State.RUNNING, limits.WORK_RECHECK_MS),
    at_work(State.TOOL_USE, limits.WORK_RECHECK_MS),
    at_work(State.COMPACTING, limits.WORK_RECHECK_MS),
    at_work(State.VERIFYING, limits.WORK_RECHECK_MS),
    ended(State.COMPLETING),
    ended(State.FAILED, Meaning.FAILED),
    Terminal(State.REAPED, shown="over, cleaned up"),
)
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
    says=Trigger.sentences(created="claim {number} of the task {task} began"),
    initial_data=initial_data,
    payloads=Trigger.payloads(),
    placement=Placement(id_prefix=("backlog",), host=host),
)
