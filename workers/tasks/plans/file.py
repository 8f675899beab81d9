"""A plan that a person wrote: tasks in a YAML file, read and checked; it writes nothing.

What a task may be is said by the kernel's own model of a birth; here are only the plan's own words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

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
TOP = ("plan", "backlog", "defaults", "tasks")
# What a birth calls otherwise; the plan itself is named once, at the top.
BORN_AS = {"after": "depends_on", "owns": "owned_files"}
OWN = ("name", "title", "text", "after", "verify", "owns", "priority")
FIELDS = (*OWN, *sorted({*NewTask.model_fields} - {*OWN, *BORN_AS.values(), "plan"}))
SHARED = tuple(field for field in FIELDS if field not in ("name", "title", "after"))


class PlanError(CallError):
    """A plan cannot be taken as it is, and nothing was written. Correct it at the line it names."""

    def __init__(self, path: Path, line: int, problem: str) -> None:
        super().__init__(f"{path}:{line}: {problem}" if line else f"{path}: {problem}")
        self.path, self.line, self.problem = path, line, problem


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """One task of a plan: what it would be born from. No target is chosen where none is written.

    `places` tells of each part of the payload how the plan calls it, and in which line it stands.
    """

    name: str
    places: Mapping[str, tuple[str, int]]
    priority: int = PRIORITY_DEFAULT
    payload: Mapping[str, Any] = field(default_factory=dict)

    @property
    def after(self) -> tuple[str, ...]:
        """Return the tasks that it waits for, by name."""
        return tuple(self.payload.get("depends_on", ()))


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan as it is written. All is checked of it that a look at the file alone can tell."""

    path: Path
    name: str
    backlog: str
    tasks: tuple[PlannedTask, ...]

    def refuse_cycle(self, graph: Mapping[str, tuple[str, ...]]) -> None:
        """Refuse tasks that wait for each other; some of the graph may not be in this file."""
        ring = cycle_in(graph)
        if ring:
            first = next(task for task in self.tasks if task.name in ring)
            listed = " -> ".join(ring)
            raise wrong(self.path, first, "depends_on", f"{listed} is a ring; take one out of it")


def wrong(path: Path, task: PlannedTask, part: str, problem: str) -> PlanError:
    """Return the refusal of a part of a task's payload, in the plan's words and at its line."""
    known, inner = part, ""
    while known not in task.places:
        known, _, last = known.rpartition(".")
        inner = f".{last}{inner}"
    words, line = task.places[known]
    place = f"{words}{inner}".strip(".")
    told = f"{place}: {problem}" if place else problem
    return PlanError(path, line, f"task {task.name!r}: {told}")


def read_plan(path: Path, *, repo: Path | None = None, backlog: str | None = None) -> PlanFile:
    """Read a plan. `repo` and `backlog` take the place of those in the file. Raises PlanError."""
    advice = "split it, tasks may name those of other plans"
    try:
        document = read_yaml(read_text(path, bytes_max=BYTES_MAX, advice=advice))
    except UnreadableError as error:
        raise PlanError(path, error.line, error.problem) from error
    return _Reader(path, document).plan(repo, backlog)


class _Reader:
    """One file; every answer is checked and knows its line."""

    def __init__(self, path: Path, document: YamlDocument) -> None:
        self._path, self._document = path, document

    def plan(self, repo: Path | None, backlog: str | None) -> PlanFile:
        top = self._mapping(self._document.value, (), TOP, "the plan")
        shared = self._mapping(top.get("defaults") or {}, ("defaults",), SHARED, "defaults")
        defaults = {field: value for field, value in shared.items() if value is not None}
        if repo is not None:
            defaults["repo"] = str(repo.resolve())
        name = self._word(top, "plan", "name the plan: `plan: <name>`")
        folder = Path(self._here(str(defaults["repo"]))).name if "repo" in defaults else None
        given = top | {"backlog": backlog or top.get("backlog") or folder}
        chosen = self._word(given, "backlog", "name the backlog: `backlog: <name>`")
        entries = top.get("tasks")
        if not isinstance(entries, list) or not entries:
            raise self._error(("tasks",), "tasks: write a list of at least one task")
        if len(entries) > TASKS_MAX:
            problem = f"tasks: these are {len(entries)}, at most {TASKS_MAX} are allowed; split it"
            raise self._error(("tasks",), f"{problem}, tasks may name those of other plans")
        tasks = [
            self._task(index, entry, defaults, chosen, name) for index, entry in enumerate(entries)
        ]
        found = PlanFile(self._path, name, chosen, tuple(tasks))
        self._refuse_twice(tasks)
        found.refuse_cycle({task.name: task.after for task in tasks})
        return found

    def _task(
        self, index: int, entry: Any, defaults: Mapping[str, Any], backlog: str, plan: str
    ) -> PlannedTask:
        at = ("tasks", index)
        own = self._mapping(entry, at, FIELDS, f"task {index + 1}")
        name = self._word(own, "name", f"task {index + 1}: name it: `name: <name>`", at)
        # A null takes a default away.
        fields = {k: v for k, v in {**defaults, **own}.items() if v is not None}
        for one in ("verify", "signals"):
            if not isinstance(fields.get(one, []), list):
                problem = f"{one}: {shown(fields[one])}: write a list"
                raise self._error((*(at if one in own else ("defaults",)), one), problem)
        task = PlannedTask(name, self._places(index, own, fields))
        self._check_id(task, backlog)
        self._check_signals(task, fields)
        priority = fields.get("priority", PRIORITY_DEFAULT)
        if type(priority) is not int or not 0 <= priority <= PRIORITY_MAX:
            problem = f"{shown(priority)}: write 0 (first) to {PRIORITY_MAX} (last)"
            raise wrong(self._path, task, "priority", problem)
        payload = self._born(task, self._payload(fields) | {"plan": plan})
        return replace(task, priority=priority, payload=payload)

    def _places(
        self, index: int, own: Mapping[str, Any], fields: Mapping[str, Any]
    ) -> dict[str, tuple[str, int]]:
        found = {
            "": ("", self._document.line("tasks", index)),
            "plan": ("plan", self._document.line("plan")),
        }
        commands = len(fields.get("verify", ()))
        for one, value in fields.items():
            at = ("tasks", index, one) if one in own else ("defaults", one)
            born = BORN_AS.get(one, one)
            found[born] = (one, self._document.line(*at))
            shift = commands if one == "signals" else 0
            for n in range(len(value) if isinstance(value, list) else 0):
                found[f"{born}.{n + shift}"] = (f"{one}.{n}", self._document.line(*at, n))
        # The commands to verify with are born as the first signals.
        own_commands = {f"signals.{n}": found[f"verify.{n}"] for n in range(commands)}
        return found | own_commands

    def _payload(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return fields as a birth has them."""
        kept = {k: v for k, v in fields.items() if k not in ("name", "priority", "verify")}
        payload = {BORN_AS.get(k, k): v for k, v in kept.items()}
        if isinstance(payload.get("repo"), str):
            payload["repo"] = self._here(payload["repo"])
        whole = _signals(fields)
        return payload | ({"signals": whole} if whole else {})

    def _check_signals(self, task: PlannedTask, fields: Mapping[str, Any]) -> None:
        try:
            parse_signals(_signals(fields))
        except InvalidSignalError as error:
            problem = f"{shown(error.value)}: {error.problem}"
            raise wrong(self._path, task, f"signals.{error.index}", problem) from error

    def _born(self, task: PlannedTask, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the task is born from, as the kernel's model has it."""
        try:
            given = NewTask.model_validate(payload).model_dump(mode="json", exclude_unset=True)
            initial_data(given)
            encode(given, "the task")
        except ValidationError as invalid:
            first = invalid.errors(include_url=False)[0]
            part = ".".join(map(str, first["loc"]))
            given_as = f"{shown(first['input'])}: " if part and first["type"] != "missing" else ""
            advice = "; put it in quotation marks" if first["type"] == "string_type" else ""
            problem = given_as + first["msg"].removeprefix("Value error, ") + advice
            raise wrong(self._path, task, part, problem) from invalid
        except InvalidPayloadError as refusal:
            part, _, problem = refusal.problems[0].rpartition(": ")
            raise wrong(self._path, task, part, problem) from refusal
        return given

    def _refuse_twice(self, tasks: Iterable[PlannedTask]) -> None:
        seen: dict[str, int] = {}
        for task in tasks:
            line = task.places["name"][1]
            if task.name in seen:
                problem = f"line {seen[task.name]} has a task of this name; choose another"
                raise wrong(self._path, task, "name", problem)
            seen[task.name] = line

    def _check_id(self, task: PlannedTask, backlog: str) -> None:
        try:
            record_id(f"{backlog}/{task.name}")
        except InvalidIdError as error:
            raise wrong(self._path, task, "name", str(error)) from error

    def _mapping(
        self, value: Any, at: tuple[str | int, ...], known: tuple[str, ...], what: str
    ) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._error(at, f"{what} is {shown(value)}; write lines of the form key: value")
        for one in value:
            if one not in known:
                problem = f"{what}: {shown(one)} is no field here; known: {', '.join(known)}"
                raise self._error((*at, str(one)), problem)
        return value

    def _word(
        self,
        fields: Mapping[str, Any],
        name: str,
        missing: str,
        at: tuple[str | int, ...] = (),
    ) -> str:
        """Return a name: text that can be a part of an id."""
        value = fields.get(name)
        if value is None:
            raise self._error(at, missing)
        problem = ""
        if not isinstance(value, str):
            problem = "it is no text; put it in quotation marks"
        elif "/" in value:
            problem = "a slash is for parts; leave it out"
        if problem:
            raise self._error((*at, name), f"{name}: {shown(value)}: {problem}")
        try:
            return record_id(value)
        except InvalidIdError as error:
            raise self._error((*at, name), f"{name}: {error}") from error

    def _here(self, repo: str) -> str:
        """Return a repository's path; a relative one is seen from the plan's own folder."""
        return str((self._path.parent / repo).resolve())

    def _error(self, at: tuple[str | int, ...], problem: str) -> PlanError:
        return PlanError(self._path, self._document.line(*at), problem)


def _signals(fields: Mapping[str, Any]) -> list[Any]:
    """Return the signals: each command of `verify`, then those that are written as such."""
    commands = [{"type": "test_passes", "value": one} for one in fields.get("verify", ())]
    return [*commands, *fields.get("signals", ())]
