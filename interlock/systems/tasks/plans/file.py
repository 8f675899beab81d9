"""Reads and checks a plan, a file of tasks that a person wrote in YAML or JSON.

Every problem that the file alone can show is reported at once. The store is not read. The fields of
a task are those of the kernel's model of a new task; a plan renames some of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator
from pydantic import Field as Limit

from interlock.system.files import (
    PATH,
    PRIORITY,
    Field,
    ItemNames,
    Location,
    Node,
    PartialPayload,
    Problems,
    SpecDocument,
    checked_payload,
    file_model,
    read_dependencies,
    read_document,
    read_fields,
    read_name,
)
from interlock.system.tables import PRIORITY_DEFAULT, Dependencies, Word
from interlock.systems.tasks.machines.task.limits import SIGNALS_MAX
from interlock.systems.tasks.machines.task.payloads import NewTask
from interlock.systems.tasks.verification.signals import (
    InvalidSignalError,
    parse_signals,
    problem_of_number,
)

BYTES_MAX = 256 * 1024  # of one file
TASKS_MAX = 200  # of one plan


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


def _text_of(entry: Node) -> str:
    return entry.value if isinstance(entry.value, str) else ""


# The fields that name tasks to wait for, each with that of the payload.
AFTER = {"after": "depends_on", "after_done": "depends_on_done"}
# The fields that differ from those of the payload, and those that every author needs.
PLAN_FIELDS: Mapping[str, Field] = {
    "title": Field("title", required="write what to do: `title: <text>`"),
    "text": Field("text"),
    **{name: Field(field) for name, field in AFTER.items()},
    "verify": Field("verify", form=Commands),
    "signals": Field("signals", form=Signals),
    "owns": Field("owned_files"),
    "priority": Field("priority", PRIORITY),
    "repo": Field("repo", PATH),
}
_NAMED_ABOVE = {"plan", *(field.name for field in PLAN_FIELDS.values())}
FIELDS: Mapping[str, Field] = {
    **PLAN_FIELDS,
    **{name: Field(name) for name in sorted({*NewTask.model_fields} - _NAMED_ABOVE)},
}
_TASK = file_model(NewTask, FIELDS, apart=("name",))
_DEFAULTS = file_model(
    NewTask, {name: field for name, field in FIELDS.items() if name not in ("title", *AFTER)}
)
_TOP = file_model(
    NewTask,
    {"plan": Field("plan", form=Word, required="name the plan: `plan: <name>`")},
    apart=("backlog", "defaults", "tasks"),
)


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """One task of a plan, with the payload to create it from; `target` is only there if written.

    `node` has the fields of the file, also those that the task takes over from the defaults.
    """

    name: str
    node: Node
    priority: int = PRIORITY_DEFAULT
    payload: Mapping[str, Any] = field(default_factory=dict)

    @property
    def after(self) -> tuple[str, ...]:
        """Return the names of the tasks that it waits for."""
        return tuple(name for field in AFTER.values() for name in self.payload.get(field, ()))

    def dependencies(self) -> dict[str, tuple[Node, tuple[str | int, ...]]]:
        """Return the names of the tasks that it waits for, each with its entry and its path."""
        return {
            name: (entry, (field, index))
            for field in AFTER
            if isinstance(entries := self.node.within((field,)).value, list)
            for index, entry in enumerate(entries)
            if (name := _text_of(entry))
        }

    def refuse(self, problems: Problems, problem: str, *path: str | int) -> None:
        """Add a problem of a field of the task, or of the task itself, with its line."""
        location = Location(problems, f"task {self.name!r}").inside(*path)
        location.refuse(self.node.within(path), problem)


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan as it is written. All is checked that can be checked without the store."""

    path: Path
    name: str
    backlog: str
    tasks: tuple[PlannedTask, ...]

    @property
    def graph(self) -> Dependencies:
        """Return what each task waits for."""
        return Dependencies({task.name: task.after for task in self.tasks})

    def refuse_cycles(
        self, problems: Problems, outside: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        """Refuse tasks that wait for each other, also by way of tasks outside of the plan."""
        tasks = {task.name: task for task in reversed(self.tasks) if task.name}
        graph = {name: [*task.dependencies()] for name, task in reversed(tasks.items())}
        for (name, other), problem in Dependencies({**graph, **(outside or {})}).refusals().items():
            if name in tasks:
                entry, _ = tasks[name].dependencies()[other]
                Location(problems, f"task {name!r}").refuse(entry, problem)


def read_plan(path: Path, *, repo: Path | None = None, backlog: str | None = None) -> PlanFile:
    """Read a plan. `repo` and `backlog` replace those in the file. Raises FileError."""
    advice = "split it, tasks may name those of other plans"
    document = read_document(path, bytes_max=BYTES_MAX, advice=advice)
    plan = _TaskPlanReader(path, document).plan(repo, backlog)
    document.problems.raise_if_any()
    return plan


class _TaskPlanReader:
    """Reads one file, and adds everything that is wrong with it to the problems."""

    def __init__(self, path: Path, document: SpecDocument) -> None:
        self._path, self._root, self._problems = path, document.root, document.problems
        self._names = ItemNames(self._problems, "task")
        self._defaults: PartialPayload = {}
        # The defaults as they are written.
        self._written: Mapping[str, Node] = {}

    def plan(self, repo: Path | None, backlog: str | None) -> PlanFile:
        """Return the plan, which is valid only if no problem was found."""
        location = Location(self._problems)
        top = read_fields(_TOP, self._root, location)
        if not isinstance(self._root.value, dict):
            return PlanFile(self._path, "", "", ())
        shared = self._root.at("defaults")
        before = self._problems.count
        if shared.value is not None:
            found = read_fields(_DEFAULTS, shared, Location(self._problems, "defaults"))
            self._defaults = found or {}
            self._written = shared.value if isinstance(shared.value, dict) else {}
        if repo is not None:
            self._defaults["repo"] = str(repo.resolve())
        # A task may lack a default that was refused. That is not a fault of the task.
        complete = self._problems.count == before
        chosen = self._backlog(backlog, self._root.at("backlog"), location, complete=complete)
        name = (top or {}).get("plan", "")
        tasks = [
            self._task(number, entry, name, chosen, complete=complete)
            for number, entry in enumerate(self._entries(self._root.at("tasks")), 1)
        ]
        plan = PlanFile(self._path, name, chosen, tuple(tasks))
        plan.refuse_cycles(self._problems)
        return plan

    def _backlog(
        self, backlog: str | None, written: Node, location: Location, *, complete: bool
    ) -> str:
        """Return the name of the backlog: by default that of the repository's folder."""
        repo = self._defaults.get("repo")
        folder = Path(self._absolute(repo)).name if repo else None
        node = written.holding(backlog or written.value or folder)
        if node.value is None:
            if complete:
                location.refuse(node, "name the backlog: `backlog: <name>`")
            return ""
        return read_name(node, location.inside("backlog"))

    def _entries(self, node: Node) -> list[Node]:
        location = Location(self._problems, path="tasks")
        if not isinstance(node.value, list) or not node.value:
            location.refuse(node, "write a list of at least one task")
            return []
        if len(node.value) > TASKS_MAX:
            problem = f"these are {len(node.value)}, at most {TASKS_MAX} are allowed; split it"
            location.refuse(node, f"{problem}, tasks may name those of other plans")
            return []
        return node.value

    def _task(
        self, number: int, node: Node, plan: str, backlog: str, *, complete: bool
    ) -> PlannedTask:
        """Return a task, with a payload if all its values are valid."""
        before = self._problems.count
        read = partial(read_name, parent=backlog)
        name, location = self._names.read(node, "name", read, kind="task", number=number)
        own = read_fields(_TASK, node, location) or {}
        for key in AFTER:
            if isinstance(node.at(key).value, list):
                read_dependencies(node.at(key), location.inside(key), _text_of)
        # A null removes a default.
        merged = {**self._defaults, **own}
        payload = {key: value for key, value in merged.items() if value is not None}
        priority = payload.pop("priority", PRIORITY_DEFAULT)
        if signals := [*payload.pop("verify", ()), *payload.pop("signals", ())]:
            payload["signals"] = signals
        if "repo" in payload:
            payload["repo"] = self._absolute(payload["repo"])
        written = {**self._written, **(node.value if isinstance(node.value, dict) else {})}
        if complete and self._problems.count == before:
            _check_number_of_signals(payload, node, location)
        if complete and self._problems.count == before:
            payload = checked_payload(
                _task_payload, payload | {"plan": plan or None}, node, location
            )
        return PlannedTask(name, node.holding(written), priority, payload)

    def _absolute(self, repo: str) -> str:
        """Return the absolute path of a repository; a relative one starts at the plan's folder."""
        return str((self._path.parent / repo).resolve())


def _task_payload(payload: PartialPayload) -> PartialPayload:
    return NewTask.model_validate(payload).model_dump(mode="json", exclude_unset=True)


def _check_number_of_signals(payload: PartialPayload, node: Node, location: Location) -> None:
    # Each signal has been checked where it is written, but `verify` and `signals` count together.
    if problem := problem_of_number(len(payload.get("signals", ()))):
        location.refuse(node, problem)
