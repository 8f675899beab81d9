"""The payloads of a task: for its creation, and for each of its triggers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from interlock import CardAnswer, Shape, Tags
from interlock.system.tables import AbortReason, TransitionReason, Word
from interlock.systems.tasks.machines.deadline import Complexity, Scope
from interlock.systems.tasks.machines.task import limits

Line = Annotated[str, Field(min_length=1, max_length=limits.LINE_LENGTH_MAX)]
Text = Annotated[str, Field(max_length=limits.TEXT_LENGTH_MAX)]


def inside(path: str) -> str:
    """Check that a path is below the repository, written as git writes it."""
    segments = path.split("/")
    if any(segment in ("", ".", "..", ".git") for segment in segments) or "\\" in path:
        raise ValueError(f"{path!r} is no path inside the repository: give it as git shows it")
    return path


Inside = Annotated[Line, AfterValidator(inside)]
OwnedFiles = Annotated[list[Inside], Field(max_length=limits.FILES_MAX)]
OtherTasks = Annotated[list[Line], Field(max_length=limits.DEPENDENCIES_MAX)]
Hooks = Annotated[list[Line], Field(max_length=limits.HOOKS_MAX)]
Tries = Annotated[int, Field(ge=0, le=limits.RETRIES_MAX)]
RetryDelay = Annotated[int, Field(ge=1, le=limits.BACKOFF_S_MAX)]
WorkSeconds = Annotated[int, Field(ge=1, le=limits.WORK_S_MAX)]
WaitSeconds = Annotated[int, Field(ge=1, le=limits.WAIT_S_MAX)]
RemindSeconds = Annotated[int, Field(ge=limits.REMIND_S_MIN, le=limits.WAIT_S_MAX)]
Budget = Annotated[int, Field(ge=1, le=limits.BUDGET_MICRO_MAX)]
ToolFailures = Annotated[int, Field(ge=1, le=limits.TOOL_FAILURES_MAX)]
Moment = Annotated[int, Field(ge=0)]
Stream = Literal["plain", "interlock", "claude"]


class CompletionSignal(Shape):
    """One completion signal. A signal of an unknown type fails when it is verified."""

    type: Word
    value: Annotated[str, Field(min_length=1, max_length=limits.SIGNAL_LENGTH_MAX)]


class TaskAbortPolicy(Shape):
    """Whether an abort goes further than its own scope; by default it does not."""

    tool_to_sibling: bool = False
    sibling_to_session: bool = False


class TaskWork(Shape):
    """The work to do, and the signals that show that it is done."""

    title: Line
    text: Text = ""
    role: Word = "any"
    scope: Scope = Scope.MEDIUM
    complexity: Complexity = Complexity.MEDIUM
    model: Line | None = None
    owned_files: OwnedFiles = []
    signals: Annotated[list[CompletionSignal], Field(max_length=limits.SIGNALS_MAX)] = []
    needs_approval: bool = False
    max_retries: Tries = limits.RETRIES
    retry_delay_s: RetryDelay = limits.RETRY_DELAY_S


class NewTask(TaskWork):
    """A task as a producer submits it.

    `agent` is a shell command; an external agent claims a task without one. `depends_on`
    names tasks of the same backlog by their ids without the backlog: the task waits until they are
    closed, that is merged. Those of `depends_on_done` only have to be done, which is before their
    verification.
    `not_before` is a time in ms since the epoch. `push` names a remote of the repository. A
    `session` agent waits `idle_limit_s` for its next task. An agent is cut off when one try costs
    more than `budget_micro` (in micro-dollars), or when `tool_failures_max` calls fail in a row.
    `max_lost` lost agents are followed by another; without it as many as `max_retries`, at most 2.
    `stop_hooks` are commands that may refuse a completion. `parent_agent` is the agent that split
    off this task. Once it is split, its subtasks have `subtasks_s` to end; without that, a time by
    their size.
    """

    tags: Tags = []
    repo: Line | None = None
    target: Line = "main"
    push: Word | None = None
    agent: Line | None = None
    agent_name: Word = "agent"
    session: bool = False
    idle_limit_s: WorkSeconds = limits.IDLE_S
    stop_hooks: Hooks = []
    max_lost: Tries | None = None
    budget_micro: Budget | None = None
    tool_failures_max: ToolFailures = limits.TOOL_FAILURES
    abort_policy: TaskAbortPolicy = TaskAbortPolicy()
    parent_agent: Line | None = None
    stream: Stream = "plain"
    tenant: Word = "default"
    depends_on: OtherTasks = []
    depends_on_done: OtherTasks = []
    not_before: Moment = 0
    plan: Word | None = None
    deadline_s: WorkSeconds | None = None
    remind_s: RemindSeconds = limits.REMIND_S
    subtasks_s: WaitSeconds | None = None
    stage_failures: bool = False

    @model_validator(mode="after")
    def _runs_somewhere(self) -> NewTask:
        if self.agent and not self.repo:
            raise ValueError("an agent needs a repo to work in")
        if self.repo and not self.agent:
            raise ValueError(
                "a repository needs the command of an agent (--agent); "
                "an external agent (one that you run yourself) takes tasks without a repository"
            )
        if self.signals and not self.repo:
            raise ValueError("signals are checked in a repository, but it names none (--repo)")
        return self

    @model_validator(mode="after")
    def _waits_once_for_each(self) -> NewTask:
        names = [*self.depends_on, *self.depends_on_done]
        if len(set(names)) != len(names):
            raise ValueError("it names a task twice among those that it waits for")
        return self


class TaskClaimed(Shape):
    """Who claims a task: `owner` is a name for people, `identity` and `agent` are ids of records.

    `at_ms` is the store's time; `host` is the computer that the work is done on, and `sandbox` the
    level of its sandbox. An owner without an identity is not trusted.
    """

    owner: Line
    identity: Line = "unknown"
    agent: Line | None = None
    host: Line | None = None
    sandbox: Word | None = None
    at_ms: Annotated[int, Field(ge=0)] = 0
    role: Word | None = None
    tenant: Word | None = None
    deadline_s: WorkSeconds | None = None
    deadline_reasons: Annotated[list[str], Field(max_length=limits.DEADLINE_REASONS_MAX)] = []


class TaskCompleted(Shape):
    """A summary of the work, which may not be blank, and the branch and commit that hold it."""

    summary: Annotated[
        str, Field(min_length=1, max_length=limits.SUMMARY_LENGTH_MAX, pattern=r"\S")
    ]
    branch: Line | None = None
    commit: Line | None = None
    worktree: Line | None = None
    took_s: Annotated[float, Field(ge=0)] | None = None


class TaskReason(Shape):
    """The reason why something happened, in words and in codes.

    `final`: another try cannot help. `retry_after_s`: a provider asked to wait at least so long
    before the next try. `paths` are the files that are at fault, `results` what each completion
    signal of the verification came to.
    """

    reason: Annotated[str, Field(max_length=limits.REASON_LENGTH_MAX)] = ""
    code: Annotated[str, Field(max_length=limits.CODE_LENGTH_MAX)] = ""
    detail: Annotated[str, Field(max_length=limits.DETAIL_LENGTH_MAX)] = ""
    why: TransitionReason | None = None
    abort: AbortReason | None = None
    final: bool = False
    retry_after_s: Annotated[int, Field(ge=0, le=limits.WORK_S_MAX)] | None = None
    paths: Annotated[list[str], Field(max_length=limits.PATHS_MAX)] = []
    results: Annotated[list[dict[str, Any]], Field(max_length=limits.RESULTS_MAX)] = []


class TaskRequeued(TaskReason):
    """Why a task is taken from its agent or offered anew, and who shall have it next.

    `to` is the owner who alone may claim a task without a command. `agent` is the command, and
    `agent_name` the name, of the agent that works on a task with one. With `not_same` the agent
    that had it last does not get it again. Without any of them, any agent may have it.
    """

    to: Line | None = None
    agent: Line | None = None
    agent_name: Word | None = None
    not_same: bool = False

    @model_validator(mode="after")
    def _names_one_agent(self) -> TaskRequeued:
        if self.agent_name and not self.agent:
            raise ValueError("agent_name needs the command of that agent, in agent")
        if self.to and (self.agent or self.not_same):
            raise ValueError("`to` names who gets it: leave out agent and not_same")
        return self


class TaskAnswer(CardAnswer):
    """The reason of a person's decision, in words."""

    reason: Annotated[str, Field(max_length=limits.REASON_LENGTH_MAX)] = ""


class TaskRejected(TaskAnswer):
    """The reason why work is not accepted. `final`: it is not tried again by itself."""

    final: bool = False


class TaskBlocked(Shape):
    """The cause of a block: another task of the backlog, or something that a person resolves."""

    on: Line
    kind: Literal["task", "text"] = "text"


class TaskChildCancelled(Shape):
    """The whole id of a subtask that is no longer wanted."""

    child: Line
    reason: Annotated[str, Field(max_length=limits.REASON_LENGTH_MAX)] = ""


class TaskPart(TaskWork):
    """One part of a task that is split. `after` has the numbers, from 1, of parts before it.

    The part starts when those are closed.
    """

    after: Annotated[
        list[Annotated[int, Field(ge=1)]], Field(max_length=limits.DEPENDENCIES_MAX)
    ] = []


class TaskSplit(Shape):
    """The parts in their order; each becomes a task below this one."""

    subtasks: Annotated[list[TaskPart], Field(min_length=1, max_length=limits.SUBTASKS_MAX)]

    @model_validator(mode="after")
    def _waits_for_earlier_parts(self) -> TaskSplit:
        for number, part in enumerate(self.subtasks, start=1):
            later = [other for other in part.after if other >= number]
            if later or len(set(part.after)) < len(part.after):
                raise ValueError(
                    f"part {number} has after {part.after}: give the numbers of parts that are "
                    "listed before it, from 1, each once"
                )
        return self


class TaskSubtasksEnded(Shape):
    """The number of subtasks that ended, by the state in which they ended."""

    tally: dict[str, Annotated[int, Field(ge=0)]]


class TaskSubtasksChecked(TaskSubtasksEnded):
    """The states of the subtasks now; `unfinished` tells of each that has not ended well."""

    unfinished: Annotated[list[Line], Field(max_length=limits.UNFINISHED_MAX)] = []


class TaskChanges(Shape):
    """How much the work changes: files, and the lines in those that are not binary."""

    files: Annotated[int, Field(ge=0)]
    added: Annotated[int, Field(ge=0)]
    removed: Annotated[int, Field(ge=0)]
    binary: Annotated[int, Field(ge=0)] = 0


class TaskVerified(Shape):
    """The results of the completion signals, and the commit that was checked.

    `branch` has the commit, and `changes` is what it would bring to the target. `asks` says why a
    person must agree to it, where the task itself does not ask for that.
    """

    commit: Line | None = None
    branch: Line | None = None
    asks: Annotated[str, Field(max_length=limits.ASKS_LENGTH_MAX)] = ""
    changes: TaskChanges | None = None
    results: Annotated[list[dict[str, Any]], Field(max_length=limits.RESULTS_MAX)] = []


class TaskMerged(Shape):
    """The commit that the target branch now has; none where nothing was merged."""

    commit: Line | None = None


class TaskRecovered(Shape):
    """The work of a lost agent, now a commit of its branch."""

    commit: Line
    branch: Line | None = None
