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

from interlock.system.files import Document, FilePart
from interlock.system.tables import PRIORITY_DEFAULT, Dependencies
from interlock.systems.tasks.machines.task.payloads import NewTask
from interlock.systems.tasks.plans.fields import AFTER, Fields, PlanTop, TaskDefaults, TaskOfPlan
from interlock.systems.tasks.verification.signals import problem_of_number

BYTES_MAX = 256 * 1024  # of one file
TASKS_MAX = 200  # of one plan


_SPLIT = "split it, tasks may name those of other plans"


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """One task of a plan, with the payload to create it from; `target` is only there if written.

    `part` has the fields of the file, also those that the task takes over from the defaults.
    """

    name: str
    part: FilePart
    priority: int = PRIORITY_DEFAULT
    payload: Mapping[str, Any] = field(default_factory=dict)

    @property
    def after(self) -> tuple[str, ...]:
        """Return the names of the tasks that it waits for."""
        waits = (self.payload.get(field, ()) for field in ("depends_on", "depends_on_done"))
        return tuple(name for names in waits for name in names)

    def dependencies(self) -> dict[str, FilePart]:
        """Return the names of the tasks that it waits for, each with its entry."""
        entries = (entry for field in AFTER for entry in self.part.at(field).entries)
        return {name: entry for entry in entries if (name := _text_of(entry))}


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan as it is written. All is checked that can be checked without the store.

    What the store shows to be wrong is refused in a block of the `document`.
    """

    document: Document
    name: str
    backlog: str
    tasks: tuple[PlannedTask, ...]

    @property
    def graph(self) -> Dependencies:
        """Return what each task waits for."""
        return Dependencies({task.name: task.after for task in self.tasks})

    def refuse_cycles(self, outside: Mapping[str, tuple[str, ...]] | None = None) -> None:
        """Refuse tasks that wait for each other, also by way of tasks outside of the plan."""
        tasks = {task.name: task for task in reversed(self.tasks) if task.name}
        graph = {name: [*task.dependencies()] for name, task in reversed(tasks.items())}
        for (name, other), problem in Dependencies({**graph, **(outside or {})}).refusals().items():
            if name in tasks:
                tasks[name].part.refuse(problem, at=tasks[name].dependencies()[other])


def read_plan(path: Path, *, repo: Path | None = None, backlog: str | None = None) -> PlanFile:
    """Read a plan. `repo` and `backlog` replace those in the file. Raises FileError."""
    document = Document.read(path, bytes_max=BYTES_MAX, advice=_SPLIT)
    with document as root:
        return _TaskPlanReader(document).plan(root, repo, backlog)


class _TaskPlanReader:
    """Reads one file, and refuses everything that is wrong with it."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._defaults: Fields = {}
        # The defaults as they are written.
        self._written: Mapping[str, FilePart] = {}

    def plan(self, root: FilePart, repo: Path | None, backlog: str | None) -> PlanFile:
        """Return the plan, which is valid only if no problem was found."""
        name = root.given(PlanTop).get("plan", "")
        if not isinstance(root.value, dict):
            return PlanFile(self._document, "", "", ())
        shared = root.at("defaults").called("defaults")
        before = self._document.count
        if shared.value is not None:
            self._defaults, self._written = shared.given(TaskDefaults), shared.fields
        if repo is not None:
            self._defaults["repo"] = str(repo.resolve())
        # A task may lack a default that was refused. That is not a fault of the task.
        complete = self._document.count == before
        chosen = self._backlog(backlog, root, complete=complete)
        entries = root.at("tasks").items("task", count_max=TASKS_MAX, advice=_SPLIT, parent=chosen)
        tasks = [self._task(task, entry, name, complete=complete) for task, entry in entries]
        plan = PlanFile(self._document, name, chosen, tuple(tasks))
        plan.refuse_cycles()
        return plan

    def _backlog(self, backlog: str | None, root: FilePart, *, complete: bool) -> str:
        """Return the name of the backlog: by default that of the repository's folder."""
        repo = self._defaults.get("repo")
        folder = Path(self._absolute(repo)).name if repo else None
        written = root.at("backlog")
        chosen = written.holding(backlog or written.value or folder)
        if chosen.value is not None:
            return chosen.name()
        if complete:
            root.refuse("name the backlog: `backlog: <name>`", at=written)
        return ""

    def _task(self, name: str, part: FilePart, plan: str, *, complete: bool) -> PlannedTask:
        """Return a task, with a payload if all its values are valid."""
        before = self._document.count
        own = part.given(TaskOfPlan)
        for key in AFTER:
            if isinstance(part.at(key).value, list):
                part.at(key).names(_text_of)
        # A null removes a default.
        merged = {**self._defaults, **own}
        payload = {key: value for key, value in merged.items() if value is not None}
        priority = payload.pop("priority", PRIORITY_DEFAULT)
        if signals := [*payload.pop("verify", ()), *payload.pop("signals", ())]:
            payload["signals"] = signals
        if "repo" in payload:
            payload["repo"] = self._absolute(payload["repo"])
        # Each signal has been checked where it is written, but the two fields count together.
        problem = problem_of_number(len(signals))
        if complete and name and self._document.count == before:
            if problem:
                part.refuse(problem)
            else:
                payload = part.checked(partial(_task_payload, payload | {"plan": plan or None}))
        whole = part.holding({**self._written, **part.fields})
        return PlannedTask(name, whole, priority, payload)

    def _absolute(self, repo: str) -> str:
        """Return the absolute path of a repository; a relative one starts at the plan's folder."""
        return str((self._document.path.parent / repo).resolve())


def _task_payload(payload: Fields) -> Fields:
    return NewTask.model_validate(payload).model_dump(mode="json", exclude_unset=True)


def _text_of(entry: FilePart) -> str:
    return entry.value if isinstance(entry.value, str) else ""
