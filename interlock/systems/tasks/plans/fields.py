"""The fields of a plan's file: models with the names that people write.

A field is called as that of the payload for which it stands, and its alias is its name in the file.
The types of the payloads say which values are valid.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic import Field as Limit

from interlock import Tags
from interlock.system.files import PATH, PRIORITY, Required
from interlock.system.tables import Word
from interlock.systems.tasks.machines.deadline import Complexity, Scope
from interlock.systems.tasks.machines.task import payloads as of_task
from interlock.systems.tasks.machines.task.limits import SIGNALS_MAX
from interlock.systems.tasks.verification.signals import InvalidSignalError, parse_signals

# The fields that name tasks to wait for, as a file has them.
AFTER = ("after", "after_done")
# Some fields of a payload. None removes the value of a default.
Fields = dict[str, Any]


def _signal(signal: Any) -> Any:
    try:
        parse_signals([signal])
    except InvalidSignalError as error:
        raise ValueError(error.problem) from error
    return signal


def _command(command: Any) -> Any:
    """Read a command as the signal that it passes."""
    return _signal({"type": "test_passes", "value": command})


Signals = Annotated[list[Annotated[Any, AfterValidator(_signal)]], Limit(max_length=SIGNALS_MAX)]
Commands = Annotated[list[Annotated[Any, AfterValidator(_command)]], Limit(max_length=SIGNALS_MAX)]


class _OfFile(BaseModel):
    """A mapping of a file. A field may be left out, or be null, which removes a default."""

    model_config = ConfigDict(extra="forbid", strict=True)


class PlanTop(_OfFile):
    """The top of a file. Fields with `exclude=True` are read by the reader of the plan."""

    backlog: Any = Limit(None, exclude=True)
    defaults: Any = Limit(None, exclude=True)
    tasks: Any = Limit(None, exclude=True)
    plan: Annotated[Word, Required("name the plan: `plan: <name>`")]


class _Titled(_OfFile):
    name: Any = Limit(None, exclude=True)
    title: Annotated[of_task.Line, Required("write what to do: `title: <text>`")]


class _Told(_OfFile):
    text: of_task.Text | None = None


class _After(_OfFile):
    depends_on: of_task.OtherTasks | None = Limit(None, alias="after")
    depends_on_done: of_task.OtherTasks | None = Limit(None, alias="after_done")


class _WrittenPolicy(of_task.TaskAbortPolicy):
    model_config = ConfigDict(strict=True)


class _Done(_OfFile):
    verify: Commands | None = None
    signals: Signals | None = None
    owned_files: of_task.OwnedFiles | None = Limit(None, alias="owns")
    priority: Annotated[int, PRIORITY] | None = None
    repo: Annotated[of_task.Line, PATH] | None = None
    abort_policy: _WrittenPolicy | None = None
    agent: of_task.Line | None = None
    agent_name: Word | None = None
    budget_micro: of_task.Budget | None = None
    complexity: Annotated[Complexity, Limit(strict=False)] | None = None
    deadline_s: of_task.WorkSeconds | None = None
    idle_limit_s: of_task.WorkSeconds | None = None
    max_lost: of_task.Tries | None = None
    max_retries: of_task.Tries | None = None
    model: of_task.Line | None = None
    needs_approval: bool | None = None
    not_before: of_task.Moment | None = None
    parent_agent: of_task.Line | None = None
    push: Word | None = None
    remind_s: of_task.RemindSeconds | None = None
    retry_delay_s: of_task.RetryDelay | None = None
    role: Word | None = None
    scope: Annotated[Scope, Limit(strict=False)] | None = None
    session: bool | None = None
    stage_failures: bool | None = None
    stop_hooks: of_task.Hooks | None = None
    stream: of_task.Stream | None = None
    subtasks_s: of_task.WaitSeconds | None = None
    tags: Tags | None = None
    target: of_task.Line | None = None
    tenant: Word | None = None
    tool_failures_max: of_task.ToolFailures | None = None


# The fields come in the order of a file: those of the last base first.
class TaskOfPlan(_Done, _After, _Told, _Titled):
    """A task of a file."""


class TaskDefaults(_Done, _Told):
    """The values of all tasks that set none themselves."""
