"""The payloads of an agent: for its creation, and for each of its triggers."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from pydantic import Field

from interlock import Shape
from interlock.system.tables import AbortReason, TransitionReason
from interlock.systems.tasks.machines.agent import limits

Line = Annotated[str, Field(min_length=1, max_length=limits.LINE_LENGTH_MAX)]
Seconds = Annotated[int, Field(ge=1, le=limits.LIMIT_S_MAX)]


class NewAgent(Shape):
    """The agent (name, role and command decide on trust), its task and its time limits.

    `spawn_limit_s` ends an agent that is not `working` so long after its record was created, which
    includes the time for its worktree and its launch; `progress_limit_s` one that works and makes
    no progress, `idle_limit_s` a `session` that gets no other task. Its `parent` is the agent that
    split the task. `tool_to_sibling` and `sibling_to_session` say how far an abort of it goes.
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
    spawn_limit_s: Seconds = limits.SPAWN_S
    progress_limit_s: Seconds = limits.PROGRESS_S
    idle_limit_s: Seconds = limits.IDLE_S


class AgentTaskAssigned(Shape):
    """The task that the agent works on next."""

    task: Line


class AgentConfirmedAlive(Shape):
    """The host and pid of the process, and how the processes that it starts are contained."""

    pid: Annotated[int, Field(ge=1)] | None = None
    containment: Annotated[str, Field(max_length=limits.CODE_LENGTH_MAX)] = ""
    host: Annotated[str, Field(max_length=limits.HOST_LENGTH_MAX)] = ""


class AgentAbort(Shape):
    """The reason of an abort that does not end the agent's own session."""

    reason: Annotated[str, Field(max_length=limits.REASON_LENGTH_MAX)] = ""


class AgentEnd(Shape):
    """The end of the process: its exit code (-n: killed by signal n), and why."""

    exit_code: int | None = None
    why: TransitionReason | None = None
    abort: AbortReason | None = None
    reason: Annotated[str, Field(max_length=limits.REASON_LENGTH_MAX)] = ""
    code: Annotated[str, Field(max_length=limits.CODE_LENGTH_MAX)] = ""
    detail: Annotated[str, Field(max_length=limits.DETAIL_LENGTH_MAX)] = ""
    left_behind: Annotated[int, Field(ge=0)] = 0


class AgentEndData(TypedDict, total=False):
    """How an agent ended: what `AgentEnd` has, without what is empty."""

    exit_code: int
    why: str
    abort: str
    reason: str
    code: str
    detail: str
    left_behind: int


class AgentData(TypedDict):
    """The data of an agent: the fields of `NewAgent`, then where it runs, and how it ended."""

    name: str
    role: str
    command: str
    task: str
    identity: str
    parent: NotRequired[str]
    tool_to_sibling: bool
    sibling_to_session: bool
    session: bool
    spawn_limit_s: int
    progress_limit_s: int
    idle_limit_s: int

    pid: NotRequired[int]
    containment: NotRequired[str]
    host: NotRequired[str]
    end: NotRequired[AgentEndData]
