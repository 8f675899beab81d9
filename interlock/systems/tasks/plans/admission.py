"""Checks a plan against the tasks that its backlog has, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock import CallError
from interlock.system.errors import UnknownRecordError
from interlock.system.tables import Record
from interlock.systems.tasks.client import Tasks
from interlock.systems.tasks.machines.task.changes import awaited, initial_data
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import State
from interlock.systems.tasks.machines.task.payloads import NewTask
from interlock.systems.tasks.plans.file import PlanFile, PlannedTask
from interlock.systems.tasks.roles import UnknownRoleError

REACHED_MAX = 10_000


class Admission:
    """Checks one plan against the records of its backlog, and collects every problem."""

    def __init__(self, tasks: Tasks, plan: PlanFile) -> None:
        self._tasks, self._plan = tasks, plan
        self._records = {task.name: self._find(task.name) for task in plan.tasks}
        # The refusals of repositories so far. Each is reported for one task only.
        self._refusals: set[str] = set()

    def admit(self) -> dict[str, dict[str, Any]]:
        """Return the payloads of the tasks to create, by name. Raises FileError.

        A task that exists already must be equal to that of the plan.
        """
        targets: dict[str, str] = {}
        with self._plan.document:
            for task in self._plan.tasks:
                record = self._records[task.name]
                if record is not None and self._is_same(task, record) and _names_no_target(task):
                    targets.setdefault(task.payload["repo"], record.data["target"])
            new = [task for task in self._plan.tasks if self._records[task.name] is None]
            self._check_dependencies(new)
            return {task.name: self._admit_task(task, targets) for task in new}

    def _is_same(self, task: PlannedTask, record: Record[TaskData]) -> bool:
        """Return whether a record is this task; refuse the name if it is another one."""
        if record.machine != "task":
            problem = f"{record.id!r} is a record of the machine {record.machine}"
        elif record.data.get("plan") != self._plan.name:
            problem = f"{record.id!r} exists already and is no task of this plan"
        elif differences := _differences(task, record):
            problem = f"{record.id!r} exists already with another {', '.join(differences)}"
        else:
            return True
        task.part.at("name").refuse(f"id_taken: {problem}; choose another name")
        return False

    def _check_dependencies(self, new: Sequence[PlannedTask]) -> None:
        """Refuse new tasks that depend on a missing or a cancelled task, or on themselves."""
        outside: dict[str, Record | None] = {}
        for task in new:
            for name, entry in task.dependencies().items():
                if name not in self._records and name not in outside:
                    outside[name] = self._find(name)
                record = self._records.get(name) or outside.get(name)
                problem = ""
                if record is not None and record.state == State.CANCELLED:
                    problem = "is cancelled and will never be done; remove it"
                elif record is None and name not in self._records:
                    problem = "is no task of this plan or of its backlog; correct the name"
                if problem:
                    entry.refuse(f"{name!r} {problem}")
        self._plan.refuse_cycles(self._dependencies_of(outside))

    def _dependencies_of(self, outside: Mapping[str, Record | None]) -> dict[str, tuple[str, ...]]:
        """Return the dependencies of tasks outside of the plan, direct and indirect ones.

        A task that is done counts as one without dependencies.
        """
        found: dict[str, tuple[str, ...]] = {}
        pending = list(outside)
        while pending and len(found) < REACHED_MAX:
            name = pending.pop()
            record = outside[name] if name in outside else self._find(name)
            waits = record is not None and record.state not in (State.DONE, State.CLOSED)
            found[name] = tuple(awaited(record.data)) if record and waits else ()
            new = (other for other in found[name] if other not in self._records)
            pending += [other for other in new if other not in found]
        return found

    def _admit_task(self, task: PlannedTask, targets: dict[str, str]) -> dict[str, Any]:
        """Return the payload of a new task. All tasks of one repository get the same target."""
        payload = dict(task.payload)
        if _names_no_target(task) and payload["repo"] in targets:
            payload["target"] = targets[payload["repo"]]
        try:
            payload = self._tasks.check(f"{self._plan.backlog}/{task.name}", payload)
        except UnknownRoleError as refusal:
            task.part.at("role").refuse(str(refusal))
            return {}
        except CallError as refusal:
            if str(refusal) not in self._refusals:
                self._refusals.add(str(refusal))
                task.part.refuse(str(refusal))
            return {}
        if _names_no_target(task):
            targets.setdefault(payload["repo"], payload["target"])
        return payload

    def _find(self, name: str) -> Record[TaskData] | None:
        try:
            return self._tasks.client.show(f"{self._plan.backlog}/{name}")
        except UnknownRecordError:
            return None


def _names_no_target(task: PlannedTask) -> bool:
    """Whether a task has a repository and leaves its target branch open."""
    return "repo" in task.payload and "target" not in task.payload


def _differences(task: PlannedTask, record: Record[TaskData]) -> list[str]:
    """Return the fields in which an existing task differs from that of the plan."""
    chosen = {"target": record.data["target"]} if _names_no_target(task) else {}
    wanted = initial_data({**chosen, **task.payload})
    # A record that is older than a field has the field's default.
    existing = {**initial_data({"title": "-"}), **record.data}
    names = [name for name in NewTask.model_fields if wanted.get(name) != existing.get(name)]
    return [*names, "priority"] if record.priority != task.priority else names
