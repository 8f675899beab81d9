"""Reads and checks a plan, a YAML file of tasks that a person wrote. Writes nothing.

The fields of a task are those of the kernel's model of a new task; a plan renames some of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from interlock.kernel.errors import CallError, InvalidIdError, InvalidPayloadError
from interlock.kernel.machines.tasks.task.changes import initial_data
from interlock.kernel.machines.tasks.task.payloads import NewTask
from interlock.kernel.record import record_id
from interlock.kernel.store.codec import encode
from interlock.workers.specs.dependencies import cycle_in
from interlock.workers.specs.json_line import shown
from interlock.workers.specs.yaml_document import (
    UnreadableError,
    YamlDocument,
    read_text,
    read_yaml,
)
from interlock.workers.tasks.verification.signals import InvalidSignalError, parse_signals

BYTES_MAX = 256 * 1024
TASKS_MAX = 200
PRIORITY_MAX = 9
PRIORITY_DEFAULT = 5
TOP_FIELDS = ("plan", "backlog", "defaults", "tasks")
# Fields of a plan's task that have another name in its payload. The plan is named at the top.
PAYLOAD_NAMES = {"after": "depends_on", "owns": "owned_files"}
PLAN_FIELDS = ("name", "title", "text", "after", "verify", "owns", "priority")
FIELDS = (
    *PLAN_FIELDS,
    *sorted({*NewTask.model_fields} - {*PLAN_FIELDS, *PAYLOAD_NAMES.values(), "plan"}),
)
DEFAULT_FIELDS = tuple(field for field in FIELDS if field not in ("name", "title", "after"))
YamlPath: TypeAlias = tuple[str | int, ...]


class PlanError(CallError):
    """A plan is invalid, and nothing was written. Correct it at the line that the error names."""

    def __init__(self, path: Path, line: int, problem: str) -> None:
        super().__init__(f"{path}:{line}: {problem}" if line else f"{path}: {problem}")
        self.path, self.line, self.problem = path, line, problem


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """One task of a plan, with the payload to create it from; `target` is only there if written.

    `locations` has the plan's name and line of each part of the payload.
    """

    name: str
    locations: Mapping[str, tuple[str, int]]
    priority: int = PRIORITY_DEFAULT
    payload: Mapping[str, Any] = field(default_factory=dict)

    @property
    def after(self) -> tuple[str, ...]:
        """Return the names of the tasks that it waits for."""
        return tuple(self.payload.get("depends_on", ()))


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan as it is written. All is checked that can be checked without the store."""

    path: Path
    name: str
    backlog: str
    tasks: tuple[PlannedTask, ...]

    def refuse_cycle(self, graph: Mapping[str, tuple[str, ...]]) -> None:
        """Refuse tasks that wait for each other. The graph may have tasks of other plans too."""
        cycle = cycle_in(graph)
        if cycle:
            first = next(task for task in self.tasks if task.name in cycle)
            problem = f"{' -> '.join(cycle)} is a cycle; remove one of these dependencies"
            raise plan_error(self.path, first, "depends_on", problem)


def plan_error(path: Path, task: PlannedTask, part: str, problem: str) -> PlanError:
    """Return the refusal of one part of a task's payload, by its name and line in the plan."""
    known, inner = part, ""
    while known not in task.locations:
        known, _, last = known.rpartition(".")
        inner = f".{last}{inner}"
    field_name, line = task.locations[known]
    location = f"{field_name}{inner}".strip(".")
    problem = f"{location}: {problem}" if location else problem
    return PlanError(path, line, f"task {task.name!r}: {problem}")


def read_plan(path: Path, *, repo: Path | None = None, backlog: str | None = None) -> PlanFile:
    """Read a plan. `repo` and `backlog` replace those in the file. Raises PlanError."""
    advice = "split it, tasks may name those of other plans"
    try:
        document = read_yaml(read_text(path, bytes_max=BYTES_MAX, advice=advice))
    except UnreadableError as error:
        raise PlanError(path, error.line, error.problem) from error
    return _PlanReader(path, document).plan(repo, backlog)


class _PlanReader:
    """Reads one file. Each value is checked, and each refusal names its line."""

    def __init__(self, path: Path, document: YamlDocument) -> None:
        self._path, self._document = path, document

    def plan(self, repo: Path | None, backlog: str | None) -> PlanFile:
        top = self._mapping(self._document.value, (), TOP_FIELDS, "the plan")
        shared = self._mapping(top.get("defaults") or {}, ("defaults",), DEFAULT_FIELDS, "defaults")
        defaults = {field: value for field, value in shared.items() if value is not None}
        if repo is not None:
            defaults["repo"] = str(repo.resolve())
        name = self._name(top, "plan", "name the plan: `plan: <name>`")
        folder = Path(self._absolute(str(defaults["repo"]))).name if "repo" in defaults else None
        named = top | {"backlog": backlog or top.get("backlog") or folder}
        chosen = self._name(named, "backlog", "name the backlog: `backlog: <name>`")
        entries = top.get("tasks")
        if not isinstance(entries, list) or not entries:
            raise self._error(("tasks",), "tasks: write a list of at least one task")
        if len(entries) > TASKS_MAX:
            problem = f"tasks: these are {len(entries)}, at most {TASKS_MAX} are allowed; split it"
            raise self._error(("tasks",), f"{problem}, tasks may name those of other plans")
        tasks = [
            self._task(index, entry, defaults, chosen, name) for index, entry in enumerate(entries)
        ]
        plan = PlanFile(self._path, name, chosen, tuple(tasks))
        self._refuse_duplicates(tasks)
        plan.refuse_cycle({task.name: task.after for task in tasks})
        return plan

    def _task(
        self, index: int, entry: Any, defaults: Mapping[str, Any], backlog: str, plan: str
    ) -> PlannedTask:
        path = ("tasks", index)
        written = self._mapping(entry, path, FIELDS, f"task {index + 1}")
        name = self._name(written, "name", f"task {index + 1}: name it: `name: <name>`", path)
        # A null removes a default.
        merged = {**defaults, **written}
        fields = {key: value for key, value in merged.items() if value is not None}
        for key in ("verify", "signals"):
            if not isinstance(fields.get(key, []), list):
                problem = f"{key}: {shown(fields[key])}: write a list"
                raise self._error((*(path if key in written else ("defaults",)), key), problem)
        task = PlannedTask(name, self._locations(index, written, fields))
        self._check_id(task, backlog)
        self._check_signals(task, fields)
        priority = fields.get("priority", PRIORITY_DEFAULT)
        if type(priority) is not int or not 0 <= priority <= PRIORITY_MAX:
            problem = f"{shown(priority)}: write 0 (first) to {PRIORITY_MAX} (last)"
            raise plan_error(self._path, task, "priority", problem)
        payload = self._validated(task, self._payload(fields) | {"plan": plan})
        return replace(task, priority=priority, payload=payload)

    def _locations(
        self, index: int, written: Mapping[str, Any], fields: Mapping[str, Any]
    ) -> dict[str, tuple[str, int]]:
        found = {
            "": ("", self._document.line("tasks", index)),
            "plan": ("plan", self._document.line("plan")),
        }
        commands = len(fields.get("verify", ()))
        for key, value in fields.items():
            path = ("tasks", index, key) if key in written else ("defaults", key)
            part = PAYLOAD_NAMES.get(key, key)
            found[part] = (key, self._document.line(*path))
            shift = commands if key == "signals" else 0
            for n in range(len(value) if isinstance(value, list) else 0):
                found[f"{part}.{n + shift}"] = (f"{key}.{n}", self._document.line(*path, n))
        # The commands of `verify` are the first signals of the payload.
        verify = {f"signals.{n}": found[f"verify.{n}"] for n in range(commands)}
        return found | verify

    def _payload(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a task under their names in the payload."""
        own = ("name", "priority", "verify")
        payload = {
            PAYLOAD_NAMES.get(key, key): value for key, value in fields.items() if key not in own
        }
        if isinstance(payload.get("repo"), str):
            payload["repo"] = self._absolute(payload["repo"])
        signals = _signals(fields)
        return payload | ({"signals": signals} if signals else {})

    def _check_signals(self, task: PlannedTask, fields: Mapping[str, Any]) -> None:
        try:
            parse_signals(_signals(fields))
        except InvalidSignalError as error:
            problem = f"{shown(error.value)}: {error.problem}"
            raise plan_error(self._path, task, f"signals.{error.index}", problem) from error

    def _validated(self, task: PlannedTask, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return the payload of a task as the kernel's model validates it."""
        try:
            validated = NewTask.model_validate(payload).model_dump(mode="json", exclude_unset=True)
            initial_data(validated)
            encode(validated, "the task")
        except ValidationError as invalid:
            first = invalid.errors(include_url=False)[0]
            part = ".".join(map(str, first["loc"]))
            value = f"{shown(first['input'])}: " if part and first["type"] != "missing" else ""
            advice = "; put it in quotation marks" if first["type"] == "string_type" else ""
            problem = value + first["msg"].removeprefix("Value error, ") + advice
            raise plan_error(self._path, task, part, problem) from invalid
        except InvalidPayloadError as refusal:
            part, _, problem = refusal.problems[0].rpartition(": ")
            raise plan_error(self._path, task, part, problem) from refusal
        return validated

    def _refuse_duplicates(self, tasks: Iterable[PlannedTask]) -> None:
        seen: dict[str, int] = {}
        for task in tasks:
            line = task.locations["name"][1]
            if task.name in seen:
                problem = f"line {seen[task.name]} has a task of this name; choose another"
                raise plan_error(self._path, task, "name", problem)
            seen[task.name] = line

    def _check_id(self, task: PlannedTask, backlog: str) -> None:
        try:
            record_id(f"{backlog}/{task.name}")
        except InvalidIdError as error:
            raise plan_error(self._path, task, "name", str(error)) from error

    def _mapping(
        self, value: Any, path: YamlPath, known: tuple[str, ...], title: str
    ) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._error(
                path, f"{title} is {shown(value)}; write lines of the form key: value"
            )
        for key in value:
            if key not in known:
                problem = f"{title}: {shown(key)} is not a field; known: {', '.join(known)}"
                raise self._error((*path, str(key)), problem)
        return value

    def _name(self, fields: Mapping[str, Any], key: str, missing: str, path: YamlPath = ()) -> str:
        """Return a name that can be a part of an id."""
        value = fields.get(key)
        if value is None:
            raise self._error(path, missing)
        problem = ""
        if not isinstance(value, str):
            problem = "it is not text; put it in quotation marks"
        elif "/" in value:
            problem = "a slash separates a subtask from its task; leave it out"
        if problem:
            raise self._error((*path, key), f"{key}: {shown(value)}: {problem}")
        try:
            return record_id(value)
        except InvalidIdError as error:
            raise self._error((*path, key), f"{key}: {error}") from error

    def _absolute(self, repo: str) -> str:
        """Return the absolute path of a repository; a relative one starts at the plan's folder."""
        return str((self._path.parent / repo).resolve())

    def _error(self, path: YamlPath, problem: str) -> PlanError:
        return PlanError(self._path, self._document.line(*path), problem)


def _signals(fields: Mapping[str, Any]) -> list[Any]:
    """Return the signals of a task: the commands of `verify` first, then those of `signals`."""
    commands = [{"type": "test_passes", "value": command} for command in fields.get("verify", ())]
    return [*commands, *fields.get("signals", ())]
