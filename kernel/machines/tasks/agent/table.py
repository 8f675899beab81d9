"""The agent's table: the six published edges, then ours, each with its reason."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum, auto
from typing import Annotated, Literal

from pydantic import Field

from interlock.kernel.machine import Machine
from interlock.kernel.machines.tasks.effects import ABORT, SUPERVISION
from interlock.kernel.payload import Shape, validated
from interlock.kernel.reason import AbortReason, TransitionReason
from interlock.kernel.table import Active, Ask, Data, Loop, Terminal, Timer, Transition

SPAWN_S = 60
PROGRESS_S = 900
IDLE_S = 300
Line = Annotated[str, Field(min_length=1, max_length=2_000)]
Seconds = Annotated[int, Field(ge=1, le=86_400)]


class S(StrEnum):
    """Where an agent can stand."""

    STARTING = auto()
    WORKING = auto()
    IDLE = auto()
    DEAD = auto()


class T(StrEnum):
    """What can be fired at an agent."""

    CONFIRMED_ALIVE = auto()
    SPAWN_FAILED = auto()
    TASK_FINISHED = auto()
    TASK_ASSIGNED = auto()
    ENDED = auto()
    RECYCLED = auto()
    ABORT_RAISED = auto()


class NewAgent(Shape):
    """Who it is, for trust: name, role and command together; what it works on; its limits.

    Silence of its process is the lease's matter; `progress_limit_s` is for a process that lives and
    does nothing. A `session` takes its next task when it is idle, until `idle_limit_s`. Its
    `parent` is the agent that split the task; who hears of its abort is told by the two policies.
    """

    name: Line
    role: Line
    command: Line
    task: Line
    identity: Line = "unknown"
    parent: Line | None = None
    tool_to_sibling: bool = False
    sibling_to_session: bool = False
    session: bool = False
    spawn_limit_s: Seconds = SPAWN_S
    progress_limit_s: Seconds = PROGRESS_S
    idle_limit_s: Seconds = IDLE_S


class AgentTaskAssigned(Shape):
    """The task that it turns to."""

    task: Line


class AgentConfirmedAlive(Shape):
    """Where its process is, and how what it starts is held together."""

    pid: Annotated[int, Field(ge=1)] | None = None
    containment: Annotated[str, Field(max_length=100)] = ""
    host: Annotated[str, Field(max_length=255)] = ""


class AgentAbortRaised(Shape):
    """An abort that ends no session of its own: of one tool call, or of its siblings."""

    scope: Literal["tool", "sibling"]
    reason: Annotated[str, Field(max_length=2_000)] = ""


class AgentEnd(Shape):
    """How it ended: an exit code (negative: a signal's number), and why."""

    exit_code: int | None = None
    why: TransitionReason | None = None
    abort: AbortReason | None = None
    reason: Annotated[str, Field(max_length=2_000)] = ""
    code: Annotated[str, Field(max_length=100)] = ""
    detail: Annotated[str, Field(max_length=8_000)] = ""
    left_behind: Annotated[int, Field(ge=0)] = 0


def birth(payload: Data) -> Data:
    """Check what an agent is started with."""
    return validated(NewAgent, "the agent", payload)


def limit(name: str) -> Callable[[Data], int | None]:
    """Return the delay of a limit that the agent's data hold, in ms."""
    return lambda data: int(data[name]) * 1_000


def alive(ask: Ask) -> Data:
    """Keep where it runs. Its pid is for people: it may be another's by now."""
    return {**ask.data, **ask.payload}


def ended(ask: Ask) -> Data:
    """Keep how it ended."""
    return {**ask.data, "end": {name: value for name, value in ask.payload.items() if value}}


def turned_to(ask: Ask) -> Data:
    """Note the task that it works on now."""
    return {**ask.data, "task": ask.payload["task"]}


SILENT = {"reason": "it gave no sign of life", "abort": "timeout"}
IDLING = {"reason": "it made no progress", "abort": "timeout"}
STAGES = (
    Active(
        S.STARTING,
        (Timer("spawn", limit("spawn_limit_s"), T.SPAWN_FAILED, payload=SILENT),),
        effect=SUPERVISION,
        outcomes=(T.SPAWN_FAILED,),
        crash=T.SPAWN_FAILED,
        once=lambda _: True,
    ),
    Active(
        S.WORKING,
        (Timer("progress", limit("progress_limit_s"), T.ENDED, payload=IDLING),),
        outcomes=(T.ENDED, T.TASK_FINISHED),
        crash=T.ENDED,
    ),
    Active(
        S.IDLE,
        (Timer("idle", limit("idle_limit_s"), T.RECYCLED),),
        outcomes=(T.ENDED, T.TASK_ASSIGNED),
        crash=T.ENDED,
    ),
    Terminal(S.DEAD),
)
KILLED = "a person may end an agent before it works"
IDLE_DEATH = "a process may also die while it is idle"
CHAIN = "the page has an abort chain beside the table; who must hear of it is told by an effect"


def by(*names: str) -> tuple[str, ...]:
    """Name who fires a row in the running system."""
    return names


# fmt: off
PUBLISHED = (
    Transition(S.STARTING, T.CONFIRMED_ALIVE, S.WORKING, update=alive, carry=True,     by=by("supervision")),
    Transition(S.STARTING, T.SPAWN_FAILED,    S.DEAD,    update=ended,                 by=by("supervision", "orphans", "stalls")),
    Transition(S.WORKING,  T.TASK_FINISHED,   S.IDLE,    carry=True,                   by=by("supervision")),
    Transition(S.WORKING,  T.ENDED,           S.DEAD,    update=ended, effect=ABORT,   by=by("supervision", "orphans", "stalls", "abort", "person")),
    Transition(S.IDLE,     T.TASK_ASSIGNED,   S.WORKING, update=turned_to, carry=True, by=by("supervision")),
    Transition(S.IDLE,     T.RECYCLED,        S.DEAD,    update=ended,                 by=by("stalls")),
)
OURS = (
    Transition(S.STARTING, T.ENDED,           S.DEAD,    update=ended, effect=ABORT,   by=by("abort", "person"), ours=KILLED),
    Transition(S.IDLE,     T.ENDED,           S.DEAD,    update=ended, effect=ABORT,   by=by("supervision", "orphans", "abort", "person"), ours=IDLE_DEATH),
    Transition(S.WORKING,  T.ABORT_RAISED,    S.WORKING, effect=ABORT, loop=Loop.INTERNAL, by=by("supervision", "person"), ours=CHAIN),
)
# fmt: on

AGENT = Machine(
    name="agent",
    stages=STAGES,
    transitions=(*PUBLISHED, *OURS),
    initial_data=birth,
    payloads={
        T.CONFIRMED_ALIVE: AgentConfirmedAlive,
        T.SPAWN_FAILED: AgentEnd,
        T.ABORT_RAISED: AgentAbortRaised,
        T.ENDED: AgentEnd,
        T.RECYCLED: AgentEnd,
        T.TASK_ASSIGNED: AgentTaskAssigned,
    },
    cancel_triggers=(T.ENDED,),
    id_prefix=("backlog",),
)
