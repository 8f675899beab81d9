"""The turn's table: the 18 published rows, and nothing of ours."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum, auto
from typing import Annotated

from pydantic import Field

from interlock.kernel.machine import Machine
from interlock.kernel.machines.tasks.effects import REAPING
from interlock.kernel.payload import Shape, validated
from interlock.kernel.reason import AbortReason, TransitionReason
from interlock.kernel.table import Active, Ask, Data, Terminal, Timer, Transition, Waiting

BEGIN_MS = 60_000
SET_UP_MS = 900_000
WORK_MS = 3_600_000
Line = Annotated[str, Field(min_length=1, max_length=2_000)]


class S(StrEnum):
    """Where a turn can stand."""

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


class T(StrEnum):
    """What can be fired at a turn; the names are the published events'."""

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
    """Which claim of which task it is about, and which agent does it."""

    task: Line
    number: Annotated[int, Field(ge=1)]
    agent: Line | None = None
    repo: Line | None = None
    target: Line | None = None
    worktree: Line | None = None
    host: Line | None = None


class TurnTaskFailed(Shape):
    """What went wrong, in words and in codes."""

    reason: Annotated[str, Field(max_length=2_000)] = ""
    code: Annotated[str, Field(max_length=100)] = ""
    why: TransitionReason | None = None
    abort: AbortReason | None = None


class TurnTool(Shape):
    """Which tool, and how its call ended."""

    tool: Line
    success: bool | None = None


def birth(payload: Data) -> Data:
    """Check what a turn is about."""
    return validated(NewTurn, "the turn", payload)


def failed(ask: Ask) -> Data:
    """Keep why."""
    return {**ask.data, "failure": {name: value for name, value in ask.payload.items() if value}}


def after(ms: int) -> Callable[[Data], int | None]:
    """Return a delay that is the same for every turn."""
    return lambda _: ms


def driven(state: S, limit_ms: int) -> Waiting:
    """Return a state that the agent's keeper or a judge leads on from.

    How long that may take is the task's matter; now and then its turn is asked whether it is over.
    """
    return Waiting(state, (Timer("look", after(limit_ms), effect=REAPING),), asks=lambda _: False)


def reaped(state: S) -> Active:
    """Return a state in which worktree and process are cleared away."""
    return Active(
        state,
        (Timer("look", after(SET_UP_MS), effect=REAPING),),
        effect=REAPING,
        outcomes=(T.AGENT_REAPED,),
    )


STAGES = (
    # The page gives it no failure: whoever finds it left alone claims it first, and then fails it.
    Waiting(S.IDLE, (Timer("look", after(BEGIN_MS), effect=REAPING),), asks=lambda _: False),
    driven(S.CLAIMING, SET_UP_MS),
    driven(S.SPAWNING, SET_UP_MS),
    driven(S.RUNNING, WORK_MS),
    driven(S.TOOL_USE, WORK_MS),
    driven(S.COMPACTING, WORK_MS),
    driven(S.VERIFYING, WORK_MS),
    reaped(S.COMPLETING),
    reaped(S.FAILED),
    Terminal(S.REAPED),
)


def by(*names: str) -> tuple[str, ...]:
    """Name who fires a row in the running system."""
    return names


LAYERS = by("assignment", "supervision", "aftermath", "reaping")

# fmt: off
PUBLISHED = (
    Transition(S.IDLE,       T.TASK_CLAIMED,     S.CLAIMING,   by=by("assignment", "reaping")),
    Transition(S.CLAIMING,   T.AGENT_SPAWNED,    S.SPAWNING,   by=by("assignment")),
    Transition(S.CLAIMING,   T.TASK_FAILED,      S.FAILED,     update=failed, by=LAYERS),
    Transition(S.SPAWNING,   T.AGENT_SPAWNED,    S.RUNNING,    by=by("supervision")),
    Transition(S.SPAWNING,   T.TASK_FAILED,      S.FAILED,     update=failed, by=LAYERS),
    Transition(S.RUNNING,    T.TOOL_STARTED,     S.TOOL_USE,   by=by("supervision")),
    Transition(S.RUNNING,    T.COMPACT_NEEDED,   S.COMPACTING, by=by("supervision")),
    Transition(S.RUNNING,    T.VERIFY_REQUESTED, S.VERIFYING,  by=by("supervision")),
    Transition(S.RUNNING,    T.TASK_FAILED,      S.FAILED,     update=failed, by=LAYERS),
    Transition(S.TOOL_USE,   T.TOOL_COMPLETED,   S.RUNNING,    by=by("supervision")),
    Transition(S.TOOL_USE,   T.TASK_FAILED,      S.FAILED,     update=failed, by=LAYERS),
    Transition(S.COMPACTING, T.VERIFY_REQUESTED, S.RUNNING,    by=by("supervision")),
    Transition(S.COMPACTING, T.TASK_FAILED,      S.FAILED,     update=failed, by=LAYERS),
    Transition(S.VERIFYING,  T.TASK_COMPLETED,   S.COMPLETING, by=by("aftermath")),
    Transition(S.VERIFYING,  T.COMPACT_NEEDED,   S.RUNNING,    by=by("supervision")),
    Transition(S.VERIFYING,  T.TASK_FAILED,      S.FAILED,     update=failed, by=LAYERS),
    Transition(S.COMPLETING, T.AGENT_REAPED,     S.REAPED,     by=by("reaping")),
    Transition(S.FAILED,     T.AGENT_REAPED,     S.REAPED,     by=by("reaping")),
)
# fmt: on

TURN = Machine(
    name="turn",
    stages=STAGES,
    transitions=PUBLISHED,
    initial_data=birth,
    payloads={
        T.TASK_FAILED: TurnTaskFailed,
        T.TOOL_STARTED: TurnTool,
        T.TOOL_COMPLETED: TurnTool,
    },
    host=lambda data: str(data.get("host") or ""),
    id_prefix=("backlog",),
)
