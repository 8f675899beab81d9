"""Whether a plan can be taken, by what there is already; asked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.kernel.errors import CallError, UnknownRecordError
from interlock.kernel.machines.tasks.task.changes import SATISFIED, initial_data
from interlock.kernel.machines.tasks.task.names import State
from interlock.kernel.machines.tasks.task.payloads import NewTask
from interlock.kernel.record import Record
from interlock.workers.tasks.client import Tasks
from interlock.workers.tasks.plans.file import PlanFile, PlannedTask, wrong
from interlock.workers.tasks.roles import UnknownRoleError

REACHED_MAX = 10_000


class Admission:
    """One plan held beside its backlog. Every refusal is a PlanError with its place in the file."""

    def __init__(self, tasks: Tasks, plan: PlanFile) -> None:
        self._tasks, self._plan = tasks, plan
        self._records = {task.name: self._found(task.name) for task in plan.tasks}

    def admitted(self) -> dict[str, dict[str, Any]]:
        """Return what is yet to be born, by name; what is born already was asked for the same."""
        targets: dict[str, str] = {}
        for task in self._plan.tasks:
            record = self._records[task.name]
            if record is not None:
                self._check_same(task, record)
                if _is_free(task):
                    targets.setdefault(task.payload["repo"], record.data["target"])
        new = [task for task in self._plan.tasks if self._records[task.name] is None]
        self._check_dependencies(new)
        return {task.name: self._admit(task, targets) for task in new}

    def _check_same(self, task: PlannedTask, record: Record) -> None:
        """Refuse a task whose id has another payload."""
        if record.machine != "task":
            problem = f"{record.id!r} is a record of the machine {record.machine}"
        elif record.data.get("plan") != self._plan.name:
            problem = f"{record.id!r} exists already and is no task of this plan"
        elif differ := _differ(task, record):
            problem = f"{record.id!r} exists already with another {', '.join(differ)}"
        else:
            return
        raise wrong(self._plan.path, task, "name", f"id_taken: {problem}; choose another name")

    def _check_dependencies(self, new: Sequence[PlannedTask]) -> None:
        """Refuse what new tasks would wait for in vain: what is not there, what ended, a ring."""
        outside: dict[str, Record | None] = {}
        for task in new:
            for index, name in enumerate(task.after):
                if name not in self._records and name not in outside:
                    outside[name] = self._found(name)
                there = self._records.get(name) or outside.get(name)
                problem = ""
                if there is not None and there.state == State.CANCELLED:
                    problem = "is cancelled for good; take it out"
                elif there is None and name not in self._records:
                    problem = "is no task of this plan or of its backlog; correct the name"
                if problem:
                    part = f"depends_on.{index}"
                    raise wrong(self._plan.path, task, part, f"{name!r} {problem}")
        graph = {task.name: task.after for task in self._plan.tasks}
        self._plan.refuse_cycle(graph | self._reached(outside))

    def _reached(self, outside: Mapping[str, Record | None]) -> dict[str, tuple[str, ...]]:
        """Return what tasks outside of the plan wait for, and so on; what is done has it."""
        reached: dict[str, tuple[str, ...]] = {}
        look = list(outside)
        while look and len(reached) < REACHED_MAX:
            name = look.pop()
            record = outside[name] if name in outside else self._found(name)
            waits = record is not None and record.state not in SATISFIED
            reached[name] = tuple(record.data["depends_on"]) if record and waits else ()
            new = (one for one in reached[name] if one not in self._records)
            look += [one for one in new if one not in reached]
        return reached

    def _admit(self, task: PlannedTask, targets: dict[str, str]) -> dict[str, Any]:
        """Return what a new task is born from; tasks of one repository get one target."""
        given = dict(task.payload)
        if _is_free(task) and given["repo"] in targets:
            given["target"] = targets[given["repo"]]
        try:
            given = self._tasks.checked(f"{self._plan.backlog}/{task.name}", given)
        except UnknownRoleError as refusal:
            raise wrong(self._plan.path, task, "role", str(refusal)) from refusal
        except CallError as refusal:
            raise wrong(self._plan.path, task, "", str(refusal)) from refusal
        if _is_free(task):
            targets.setdefault(given["repo"], given["target"])
        return given

    def _found(self, name: str) -> Record | None:
        try:
            return self._tasks.client.show(f"{self._plan.backlog}/{name}")
        except UnknownRecordError:
            return None


def _is_free(task: PlannedTask) -> bool:
    """Whether it is for a repository and leaves open for which branch."""
    return "repo" in task.payload and "target" not in task.payload


def _differ(task: PlannedTask, record: Record) -> list[str]:
    """Return in what a born task is not the one that is asked for."""
    chosen = {"target": record.data["target"]} if _is_free(task) else {}
    asked = initial_data({**chosen, **task.payload})
    # What was born before a field was there has what it means to leave that out.
    kept = {**initial_data({"title": "-"}), **record.data}
    names = [one for one in NewTask.model_fields if asked.get(one) != kept.get(one)]
    return [*names, "priority"] if record.priority != task.priority else names
