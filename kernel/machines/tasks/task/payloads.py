"""What a task is born from and what each of its triggers carries; shapes only, no decisions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from interlock.kernel.machines.tasks.deadline import Complexity, Scope
from interlock.kernel.payload import Shape
from interlock.kernel.reason import AbortReason, TransitionReason

SUBTASKS_MAX = 1_000
FILES_MAX = 1_000
Line = Annotated[str, Field(min_length=1, max_length=2_000)]
Text = Annotated[str, Field(max_length=64_000)]
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~-]{0,63}$")]


def inside(path: str) -> str:
    """Check a path below the repository, as git writes it."""
    segments = path.split("/")
    if any(segment in ("", ".", "..", ".git") for segment in segments) or "\\" in path:
        raise ValueError(f"{path!r} is no path inside the repository: give it as git shows it")
    return path


Inside = Annotated[Line, AfterValidator(inside)]


class CompletionSignal(Shape):
    """One completion signal; an unknown type is refused when it is judged, and fails."""

    type: Word
    value: Line


class TaskAbortPolicy(Shape):
    """Whether an abort goes further than its own scope; by default none does."""

    tool_to_sibling: bool = False
    sibling_to_session: bool = False


class TaskWork(Shape):
    """What is to be done, and how one will know that it is."""

    title: Line
    text: Text = ""
    role: Word = "any"
    scope: Scope = Scope.MEDIUM
    complexity: Complexity = Complexity.MEDIUM
    model: Line | None = None
    owned_files: Annotated[list[Inside], Field(max_length=FILES_MAX)] = []
    signals: Annotated[list[CompletionSignal], Field(max_length=100)] = []
    needs_approval: bool = False
    max_retries: Annotated[int, Field(ge=0, le=100)] = 3
    retry_delay_s: Annotated[int, Field(ge=1, le=300)] = 30


class NewTask(TaskWork):
    """What a producer hands in. `agent` is a command template; without one others must claim it.

    `depends_on` names tasks of the same backlog, without it, `not_before` a time in ms since the epoch.
    `push` names a remote of the repository. A `session` agent stays `idle_limit_s` for the next task. A breaker
    trips over `budget_micro` (micro-dollars a try) and `tool_failures_max` (calls in a row).
    `stop_hooks` are commands that may refuse a completion; `parent_agent` split the task it is part of.
    """

    repo: Line | None = None
    target: Line = "main"
    push: Word | None = None
    agent: Line | None = None
    agent_name: Word = "agent"
    session: bool = False
    idle_limit_s: Annotated[int, Field(ge=1, le=86_400)] = 300
    stop_hooks: Annotated[list[Line], Field(max_length=20)] = []
    budget_micro: Annotated[int, Field(ge=1, le=10**15)] | None = None
    tool_failures_max: Annotated[int, Field(ge=1, le=1_000)] = 5
    abort_policy: TaskAbortPolicy = TaskAbortPolicy()
    parent_agent: Line | None = None
    stream: Literal["plain", "interlock", "claude"] = "plain"
    tenant: Word = "default"
    depends_on: Annotated[list[Line], Field(max_length=100)] = []
    not_before: Annotated[int, Field(ge=0)] = 0
    plan: Word | None = None
    deadline_s: Annotated[int, Field(ge=1, le=86_400)] | None = None
    remind_s: Annotated[int, Field(ge=60, le=31_536_000)] = 86_400
    stage_failures: bool = False

    @model_validator(mode="after")
    def _runs_somewhere(self) -> NewTask:
        if self.agent and not self.repo:
            raise ValueError("an agent needs a repo to work in")
        if self.repo and not self.agent:
            raise ValueError("a repo is for an agent's command; without one, others do the work")
        if self.signals and not self.repo:
            raise ValueError("signals are judged in a repo, and there is none")
        return self


class TaskClaimed(Shape):
    """Who takes it: an owner for people, the records of its identity and of its agent, a time.

    The time is the store's, in ms; `host` is the machine that the work is on. Without an identity
    it is trusted as a stranger.
    """

    owner: Line
    identity: Line = "unknown"
    agent: Line | None = None
    host: Line | None = None
    at_ms: Annotated[int, Field(ge=0)] = 0
    role: Word | None = None
    tenant: Word | None = None
    deadline_s: Annotated[int, Field(ge=1, le=86_400)] | None = None
    deadline_reasons: Annotated[list[str], Field(max_length=20)] = []


class TaskCompleted(Shape):
    """What was done, in words, and the branch and commit that hold it; a blank is no completion."""

    summary: Annotated[str, Field(min_length=1, max_length=8_000, pattern=r"\S")]
    branch: Line | None = None
    commit: Line | None = None
    worktree: Line | None = None
    took_s: Annotated[float, Field(ge=0)] | None = None


class TaskReason(Shape):
    """Why, in words and in codes. `final`: no further try can help; `paths`: where it shows.

    `retry_after_s`: what a provider asked for; the next try waits at least as long.
    """

    reason: Annotated[str, Field(max_length=2_000)] = ""
    code: Annotated[str, Field(max_length=100)] = ""
    detail: Annotated[str, Field(max_length=8_000)] = ""
    why: TransitionReason | None = None
    abort: AbortReason | None = None
    final: bool = False
    retry_after_s: Annotated[int, Field(ge=0, le=86_400)] | None = None
    paths: Annotated[list[str], Field(max_length=200)] = []
    results: Annotated[list[dict[str, Any]], Field(max_length=200)] = []


class TaskBlocked(Shape):
    """What it waits for: another task of the backlog, or something that a person settles."""

    on: Line
    kind: Literal["task", "text"] = "text"


class TaskChildCancelled(Shape):
    """Which of its own parts is no longer wanted: its whole id."""

    child: Line
    reason: Annotated[str, Field(max_length=2_000)] = ""


class TaskSplit(Shape):
    """The parts, in order; each becomes a task below this one."""

    subtasks: Annotated[list[TaskWork], Field(min_length=1, max_length=SUBTASKS_MAX)]


class TaskSubtasksEnded(Shape):
    """How many subtasks left, by the state that they left in."""

    tally: dict[str, Annotated[int, Field(ge=0)]]


class TaskVerified(Shape):
    """What the judges of the completion signals found, and which commit they looked at."""

    commit: Line | None = None
    results: Annotated[list[dict[str, Any]], Field(max_length=200)] = []


class TaskMerged(Shape):
    """The commit that the target branch now has, or none where nothing was to be merged."""

    commit: Line | None = None


class TaskRecovered(Shape):
    """What a lost agent left behind, now a commit of its branch."""

    commit: Line
    branch: Line | None = None
