"""The fields of a graph's file: models with the names and units that people write.

A field is called as that of the payload for which it stands, and its alias is its name in the file.
Which values are valid, the types of the payloads say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic import Field as Limit

from interlock import Tags
from interlock.system.files import (
    DURATION,
    MONEY,
    PATH,
    PRIORITY,
    Required,
    ValueKind,
)
from interlock.system.tables import Word
from interlock.systems.jobs.machines.graph import payloads as of_graph
from interlock.systems.jobs.machines.job import payloads as of_job
from interlock.systems.jobs.machines.job.limits import PHASES_MAX

# Some fields of a payload. None removes the value of a default.
Fields = dict[str, Any]

_HOURS: TypeAdapter[str] = TypeAdapter(of_job.Hours)
# The value of `review` for a step without a reviewer in a graph whose defaults name one.
NO_REVIEW = "none"
# The fields that a step takes over from its graph if neither the step nor the defaults set them.
INHERITED = ("remind_s", "stewards", "on_cancel", "folder")


def job_payload(payload: Fields) -> Fields:
    """Return the canonical payload of a job, which leaves out every value that is the default.

    Raises pydantic's ValidationError if a field is unknown, invalid or missing.
    """
    return of_job.NewJob.model_validate(payload).model_dump(mode="json", exclude_defaults=True)


def graph_payload(payload: Fields) -> Fields:
    """Return the canonical payload of a graph. Raises as `job_payload` does."""
    return of_graph.NewGraph.model_validate(payload).model_dump(mode="json", exclude_defaults=True)


def merged(*layers: Fields) -> Fields:
    """Return one payload of several, of which a later one wins; limits are merged one by one."""
    found: Fields = {}
    for layer in layers:
        more = layer.get("limits")
        limits = None if more is None else {**(found.get("limits") or {}), **more}
        found |= layer
        if limits is not None:
            found["limits"] = limits
    return {name: value for name, value in found.items() if value is not None}


def _executor(value: Any) -> Any:
    """Return the executor of a step or review as a mapping. A text is a command."""
    if isinstance(value, str):
        return {"command": value}
    if isinstance(value, dict):
        return value
    raise ValueError("write a command, or one of command, capability and model with what it is")


def _checked_executor(executor: BaseModel) -> BaseModel:
    found = merged(executor.model_dump(exclude_unset=True))
    # What is in the parameters is checked where it is written.
    parameters = {"parameters": {"": 0}} if found.get("parameters") else {}
    of_job.JobExecutor.model_validate(found | parameters)
    return executor


def _review(value: Any) -> Any:
    return None if value == NO_REVIEW else _executor(value)


def _hours(value: Any) -> Any:
    try:
        return _HOURS.validate_python(value)
    except ValidationError as refusal:
        raise ValueError("write hours of the day, in UTC, like 22:00-06:00") from refusal


def _slots(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("write a whole number, 1 or more; leave it out to set no limit")
    return int(value)


def _written_executor(executor: Fields) -> Any:
    """Return how an executor is written: as a text if it is only a command."""
    if [*executor] == ["command"] and executor["command"] != NO_REVIEW:
        return executor["command"]
    return written(executor, WrittenExecutor)


class _Written(BaseModel):
    """A mapping of a file. A field may be left out, or be null, which removes a default."""

    model_config = ConfigDict(extra="forbid", strict=True)


class WrittenExecutor(_Written):
    """An executor that is more than a command."""

    command: of_job.Command | None = None
    capability: Word | None = None
    parameters: dict[Any, Any] | None = None
    model: of_job.Prompt | None = None
    cost_micro: Annotated[of_job.Micro, MONEY] | None = Limit(None, alias="cost")


_Executor = Annotated[WrittenExecutor, AfterValidator(_checked_executor)]
_Worker = Annotated[_Executor, ValueKind(_executor, _written_executor)]
_Review = Annotated[_Executor | None, ValueKind(_review, _written_executor)]


class WrittenPhase(_Written):
    """A phase of the work of a step."""

    name: Word | None = None
    worker: Annotated[_Worker, Required("say who works: `worker: <command>`")]


class WrittenHealth(_Written):
    """How long worker and reviewer of a step may be silent, and how often they are recovered."""

    running_s: Annotated[of_job.Seconds, DURATION] | None = Limit(None, alias="running")
    reviewing_s: Annotated[of_job.Seconds, DURATION] | None = Limit(None, alias="reviewing")
    recoveries_max: of_job.Tries | None = Limit(None, alias="recoveries")


class WrittenJobLimits(_Written):
    """The limits of a step."""

    cost_micro: Annotated[of_job.Micro, MONEY] | None = Limit(None, alias="cost")
    time_s: Annotated[of_job.Seconds, DURATION] | None = Limit(None, alias="time")
    iterations: of_job.Runs | None = None


class WrittenGraphLimits(_Written):
    """The limits of all steps together."""

    cost_micro: Annotated[of_graph.Micro, MONEY] | None = Limit(None, alias="cost")
    time_s: Annotated[of_graph.Seconds, DURATION] | None = Limit(None, alias="time")
    iterations: of_graph.Runs | None = None


class WrittenGraph(_Written):
    """The top of a file. What is excluded is read by itself, here as in a step."""

    graph: Any = Limit(None, exclude=True)
    defaults: Any = Limit(None, exclude=True)
    steps: Any = Limit(None, exclude=True)
    description: of_graph.Description | None = None
    slots: Annotated[of_graph.Slots, ValueKind(_slots)] | None = None
    limits: WrittenGraphLimits | None = None
    remind_s: Annotated[of_graph.Remind, DURATION] | None = Limit(None, alias="remind")
    stewards: of_graph.Stewards | None = None
    on_cancel: of_graph.OnCancel | None = None
    folder: Annotated[of_job.Line, PATH] | None = None
    dir: Annotated[of_job.Line, PATH] | None = None


class _Named(_Written):
    name: Any = Limit(None, exclude=True)
    depends_on: Any = Limit(None, exclude=True)


class _What(_Written):
    description: of_job.Text | None = None
    objective: of_job.Text | None = None
    details: of_job.Text | None = None
    acceptance: of_job.Acceptance | None = None
    tags: Tags | None = None


class _Work(_Written):
    worker: _Worker | None = None
    phases: Annotated[list[WrittenPhase], Limit(min_length=1, max_length=PHASES_MAX)] | None = None


class _How(_Written):
    review: _Review | None = None
    auto_approve: bool | None = None
    manual: bool | None = None
    hold: bool | None = None
    queue: Word | None = None
    hours: Annotated[of_job.Hours, ValueKind(_hours)] | None = None
    priority: Annotated[int, PRIORITY] | None = None
    limits: WrittenJobLimits | None = None
    health: WrittenHealth | None = None
    retries_max: of_job.Tries | None = Limit(None, alias="retries")
    retry_delay_s: Annotated[of_job.RetryDelay, DURATION] | None = Limit(None, alias="retry_delay")
    remind_s: Annotated[of_job.Remind, DURATION] | None = Limit(None, alias="remind")
    stewards: of_job.Stewards | None = None
    on_cancel: of_job.OnCancel | None = None
    folder: Annotated[of_job.Line, PATH] | None = None


class _Where(_Written):
    dir: Annotated[of_job.Line, PATH] | None = None


# The fields come in the order of a file: those of the last base first.
class WrittenStep(_Where, _How, _Work, _What, _Named):
    """A step of a file."""


class WrittenDefaults(_How, _What):
    """The values of all steps that set none themselves."""


def payload_of(step: Fields) -> Fields:
    """Return the payload fields of the fields of a step or of defaults."""
    payload = {key: value for key, value in step.items() if key not in ("worker", "health")}
    phases = [{"worker": step["worker"]}] if step.get("worker") else step.get("phases")
    if phases is not None:
        payload["phases"] = [merged(phase, {"worker": merged(phase["worker"])}) for phase in phases]
    if payload.get("review"):
        payload["review"] = merged(payload["review"])
    if "health" in step:
        payload |= step["health"] or dict.fromkeys(WrittenHealth.model_fields)
    return payload


def written_step(payload: Fields) -> dict[str, Any]:
    """Return the fields of a step that `payload_of` turns into this payload."""
    names = WrittenHealth.model_fields
    health = {key: value for key, value in payload.items() if key in names}
    rest = {key: value for key, value in payload.items() if key not in names}
    if "phases" in rest:
        rest["worker"] = _only_worker(rest["phases"])
        del rest["worker" if rest["worker"] is None else "phases"]
    return written(rest | ({"health": health} if health else {}), WrittenStep)


def _only_worker(phases: Sequence[Fields]) -> Any:
    """Return the worker of the only phase; None if there are more, or if it has a name."""
    first, *others = phases
    return None if others or "name" in first else first["worker"]


def written(payload: Fields, model: type[BaseModel]) -> dict[str, Any]:
    """Return the mapping of a file that is read as these fields of a payload."""
    return {
        field.alias or name: _written_value(payload[name], (field.annotation, *field.metadata))
        for name, field in model.model_fields.items()
        if name in payload and not field.exclude
    }


def _written_value(value: Any, marks: Sequence[Any]) -> Any:
    form = _form(marks)
    if value is None or form is None:
        return value
    if isinstance(form, ValueKind):
        return form.write(value)
    return (
        [written(one, form) for one in value] if isinstance(value, list) else written(value, form)
    )


def _form(marks: Sequence[Any]) -> Any:
    """Return the kind of a value, or the model of a mapping; None if it is written as it is."""
    found = [
        mark if isinstance(mark, ValueKind | type) else _form(get_args(mark)) for mark in marks
    ]
    kinds = [form for form in found if isinstance(form, ValueKind)]
    models = [form for form in found if isinstance(form, type) and issubclass(form, BaseModel)]
    return next(iter([*kinds, *models]), None)
