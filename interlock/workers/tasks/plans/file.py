"""Reads and checks a plan, a file of tasks that a person wrote in YAML or JSON.

Every problem that the file alone can show is reported at once. The store is not read. The fields of
a task are those of the kernel's model of a new task; a plan renames some of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from interlock.kernel.machines.tasks.task.changes import awaited
from interlock.kernel.machines.tasks.task.payloads import NewTask
from interlock.workers.specs.dependencies import read_dependencies, refuse_cycles
from interlock.workers.specs.document import SpecDocument, read_document
from interlock.workers.specs.fields import (
    Field,
    PartialPayload,
    checked_payload,
    payload_field,
    read_fields,
    read_name,
    single_field,
)
from interlock.workers.specs.json_line import shown
from interlock.workers.specs.problems import ItemNames, Location, Problems, node_within
from interlock.workers.specs.values import PATH, PLAIN, PRIORITY, PRIORITY_DEFAULT, read_value
from interlock.workers.specs.yaml_document import Node
from interlock.workers.tasks.verification.signals import (
    InvalidSignalError,
    parse_signals,
    problem_of_number,
)

BYTES_MAX = 256 * 1024
TASKS_MAX = 200
TOP_FIELDS = ("plan", "backlog", "defaults", "tasks")


def _signals(node: Node, location: Location) -> Any:
    before = location.problems.count
    for index, entry in enumerate(location.entries(node)):
        try:
            parse_signals([entry.plain()])
        except InvalidSignalError as error:
            location.inside(index).refuse(entry.line, f"{shown(error.value)}: {error.problem}")
    if location.problems.count > before:
        return None
    return read_value(NewTask, "signals", PLAIN, node, location)


def _verify(node: Node, location: Location) -> Any:
    """Read commands as signals that they pass."""
    test_passes = Node(node.line, "test_passes")
    signals = [
        Node(entry.line, {"type": test_passes, "value": entry}) for entry in location.entries(node)
    ]
    return _signals(Node(node.line, signals), location) if isinstance(node.value, list) else None


def _after(field: str, node: Node, location: Location) -> Any:
    names = read_value(NewTask, field, PLAIN, node, location)
    if isinstance(node.value, list):
        read_dependencies(node, location, _text_of)
    return names


def _text_of(entry: Node) -> str:
    return entry.value if isinstance(entry.value, str) else ""


# The fields that name tasks to wait for, each with that of the payload.
AFTER = {"after": "depends_on", "after_done": "depends_on_done"}
# The fields that differ from those of the payload, and those that every author needs.
PLAN_FIELDS: Mapping[str, Field] = {
    "title": payload_field(NewTask, "title", required="write what to do: `title: <text>`"),
    "text": payload_field(NewTask, "text"),
    **{name: single_field(field, partial(_after, field)) for name, field in AFTER.items()},
    "verify": single_field("verify", _verify),
    "signals": single_field("signals", _signals),
    "owns": payload_field(NewTask, "owned_files"),
    "priority": payload_field(NewTask, "priority", PRIORITY),
    "repo": payload_field(NewTask, "repo", PATH),
}
_NAMED_ABOVE = {"plan", *(name for field in PLAN_FIELDS.values() for name in field.names)}
FIELDS: Mapping[str, Field] = {
    **PLAN_FIELDS,
    **{
        name: payload_field(NewTask, name)
        for name in sorted({*NewTask.model_fields} - _NAMED_ABOVE)
    },
}
DEFAULTS = {name: field for name, field in FIELDS.items() if name not in ("title", *AFTER)}
PLAN_NAME = payload_field(NewTask, "plan", required="name the plan: `plan: <name>`")


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
        return tuple(awaited(self.payload))

    def dependencies(self) -> dict[str, tuple[int, tuple[str | int, ...]]]:
        """Return the names of the tasks that it waits for, each with its line and its path."""
        return {
            name: (entry.line, (field, index))
            for field in AFTER
            if isinstance(entries := node_within(self.node, (field,)).value, list)
            for index, entry in enumerate(entries)
            if (name := _text_of(entry))
        }

    def refuse(self, problems: Problems, problem: str, *path: str | int) -> None:
        """Add a problem of a field of the task, or of the task itself, with its line."""
        location = Location(problems, f"task {self.name!r}").inside(*path)
        location.refuse(node_within(self.node, path).line, problem)


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan as it is written. All is checked that can be checked without the store."""

    path: Path
    name: str
    backlog: str
    tasks: tuple[PlannedTask, ...]

    def refuse_cycles(
        self, problems: Problems, outside: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        """Refuse tasks that wait for each other, also by way of tasks outside of the plan."""
        graph: dict[str, dict[str, int]] = {}
        for task in self.tasks:
            if task.name:
                lines = {name: line for name, (line, _) in task.dependencies().items()}
                graph.setdefault(task.name, lines)
        locations = {name: Location(problems, f"task {name!r}") for name in graph}
        others = {name: dict.fromkeys(after, 0) for name, after in (outside or {}).items()}
        refuse_cycles(graph | others, locations)


def read_plan(path: Path, *, repo: Path | None = None, backlog: str | None = None) -> PlanFile:
    """Read a plan. `repo` and `backlog` replace those in the file. Raises SpecFileError."""
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
        top = read_fields(self._root, {"plan": PLAN_NAME}, location, TOP_FIELDS)
        if not isinstance(self._root.value, dict):
            return PlanFile(self._path, "", "", ())
        nothing = Node(self._root.line, None)
        shared = self._root.value.get("defaults", nothing)
        before = self._problems.count
        if shared.value is not None:
            self._defaults = read_fields(shared, DEFAULTS, Location(self._problems, "defaults"))
            self._written = shared.value if isinstance(shared.value, dict) else {}
        if repo is not None:
            self._defaults["repo"] = str(repo.resolve())
        # A task may lack a default that was refused. That is not a fault of the task.
        complete = self._problems.count == before
        chosen = self._backlog(backlog, self._root.value.get("backlog", nothing), location)
        name = top.get("plan") or ""
        tasks = [
            self._task(number, entry, name, chosen, complete=complete)
            for number, entry in enumerate(self._entries(self._root.value.get("tasks", nothing)), 1)
        ]
        plan = PlanFile(self._path, name, chosen, tuple(tasks))
        plan.refuse_cycles(self._problems)
        return plan

    def _backlog(self, backlog: str | None, written: Node, location: Location) -> str:
        """Return the name of the backlog: by default that of the repository's folder."""
        repo = self._defaults.get("repo")
        folder = Path(self._absolute(repo)).name if repo else None
        node = Node(written.line, backlog or written.value or folder)
        if node.value is None:
            location.refuse(node.line, "name the backlog: `backlog: <name>`")
            return ""
        return read_name(node, location.inside("backlog"))

    def _entries(self, node: Node) -> list[Node]:
        location = Location(self._problems, path="tasks")
        if not isinstance(node.value, list) or not node.value:
            location.refuse(node.line, "write a list of at least one task")
            return []
        if len(node.value) > TASKS_MAX:
            problem = f"these are {len(node.value)}, at most {TASKS_MAX} are allowed; split it"
            location.refuse(node.line, f"{problem}, tasks may name those of other plans")
            return []
        return node.value

    def _task(
        self, number: int, node: Node, plan: str, backlog: str, *, complete: bool
    ) -> PlannedTask:
        """Return a task, with a payload if all its values are valid."""
        before = self._problems.count
        read = partial(read_name, parent=backlog)
        name, location = self._names.read(node, "name", read, kind="task", number=number)
        own = read_fields(node, FIELDS, location, ("name", *FIELDS))
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
            _check_number_of_signals(payload, node.line, location)
        if complete and self._problems.count == before:
            payload = checked_payload(
                _task_payload, payload | {"plan": plan or None}, node.line, location
            )
        return PlannedTask(name, Node(node.line, written), priority, payload)

    def _absolute(self, repo: str) -> str:
        """Return the absolute path of a repository; a relative one starts at the plan's folder."""
        return str((self._path.parent / repo).resolve())


def _task_payload(payload: PartialPayload) -> PartialPayload:
    return NewTask.model_validate(payload).model_dump(mode="json", exclude_unset=True)


def _check_number_of_signals(payload: PartialPayload, line: int, location: Location) -> None:
    # Each signal has been checked where it is written, but `verify` and `signals` count together.
    if problem := problem_of_number(len(payload.get("signals", ()))):
        location.refuse(line, problem)
