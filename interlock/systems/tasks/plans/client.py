"""Submits, shows, approves and rejects plans of tasks, whole or task by task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any

from interlock import CallError, Client, Submitted
from interlock.system.errors import FencedError, IdTakenError
from interlock.system.tables import Dependencies, Record
from interlock.systems.tasks.client import Tasks
from interlock.systems.tasks.machines.task.changes import awaited
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import State
from interlock.systems.tasks.plans.admission import Admission
from interlock.systems.tasks.plans.file import PlanFile
from interlock.systems.tasks.waits import Waits

SEEN_LENGTH = 12
# In these states a task still waits for its dependencies.
WAITING = (State.PLANNED, State.OPEN)


@dataclass(frozen=True, slots=True)
class PlanSubmission:
    """The tasks of a submitted plan. `others` are tasks of the plan that the file does not have."""

    tasks: tuple[Submitted, ...]
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlanTask:
    """One task of a plan. `proposal` is the id that a decision names, '' if none is needed."""

    id: str
    name: str
    title: str
    state: str
    role: str
    after: tuple[str, ...]
    proposal: str
    why: str


@dataclass(frozen=True, slots=True)
class PlanStatus:
    """A plan and its tasks, each after those that it waits for.

    `seen` is a fingerprint of the tasks that the plan has. It changes when a task is added, and
    not with their states.
    """

    backlog: str
    name: str
    seen: str
    tasks: tuple[PlanTask, ...]

    @property
    def proposals(self) -> dict[str, str]:
        """Return the proposals that wait for a decision, by the names of their tasks."""
        return {task.name: task.proposal for task in self.tasks if task.proposal}


@dataclass(frozen=True, slots=True)
class TaskDecision:
    """The decision on one task.

    `answer` is approved or rejected; already, if somebody else decided first (see `state`);
    unseen, if the task was not among the proposals; refused, with the reason in `why`.
    """

    id: str
    answer: str
    state: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class PlanDecisions:
    """The decision on each task. `starved` maps each task that can never be done to its blocker."""

    tasks: tuple[TaskDecision, ...]
    starved: Mapping[str, str]


class Plans:
    """The operations on plans, over a client."""

    def __init__(self, client: Client) -> None:
        self.client, self.tasks = client, Tasks(client)

    def check(self, plan: PlanFile) -> dict[str, dict[str, Any]]:
        """Check a plan and write nothing; return the payloads of the tasks to create, by name.

        Raises FileError with every problem of a task and its line in the file.
        """
        return Admission(self.tasks, plan).admit()

    def starved(self, plan: PlanFile) -> dict[str, str]:
        """Return the tasks of a plan that wait for a failed task that is not tried again.

        Each comes with the direct dependency that has failed so, or that waits for such a task.
        """
        failed = [
            name
            for name, record in self._backlog(plan.backlog).items()
            if record.data.get("given_up")
        ]
        return plan.graph.starved_by(failed)

    def submit(self, plan: PlanFile) -> PlanSubmission:
        """Submit a plan: each of its tasks waits for approval.

        Submitting it again changes nothing, and completes a submission that was interrupted.
        Raises FileError: before anything is written, unless a name was taken meanwhile.
        """
        new = self.check(plan)
        by_name = {task.name: task for task in plan.tasks}
        order = list(by_name)
        submitted = []
        records = self.client.records
        create = partial(records.create, begins=True)
        records.admit([f"{plan.backlog}/{name}" for name in new])
        with plan.document:
            for name in plan.graph.in_order(order.index):
                task_id = f"{plan.backlog}/{name}"
                if name not in new:
                    submitted.append(Submitted(task_id, replayed=True))
                    continue
                try:
                    fired = create("task", task_id, new[name], priority=by_name[name].priority)
                except IdTakenError as refusal:
                    problem = f"{refusal}, then submit the plan again: accepted tasks remain"
                    by_name[name].part.at("name").refuse(problem)
                    break
                submitted.append(Submitted(task_id, fired.replayed))
        others = _tasks_of(self._backlog(plan.backlog), plan.name).keys() - by_name.keys()
        return PlanSubmission(tuple(submitted), tuple(sorted(others)))

    def show(self, backlog: str, plan: str) -> PlanStatus:
        """Return the tasks of a plan. Raises CallError if the backlog has no plan of this name."""
        records = self._backlog(backlog)
        tasks = _tasks_of(records, plan)
        if not tasks:
            self.tasks.ids_of(backlog)  # refuse a backlog that has no tasks at all
            known = ", ".join(sorted(_plans(records))) or "none"
            raise CallError(f"the backlog {backlog!r} has no plan {plan!r}; its plans: {known}")
        order = _graph(tasks).in_order(lambda name: (tasks[name].created_ms, name))
        created = sorted(f"{record.id} {record.created_ms}" for record in tasks.values())
        seen = sha256("\n".join(created).encode()).hexdigest()[:SEEN_LENGTH]
        waits = Waits(self.client.records, [*records.values()])
        return PlanStatus(
            backlog, plan, seen, tuple(_row(name, tasks[name], waits) for name in order)
        )

    def of(self, backlog: str) -> list[dict[str, Any]]:
        """Return the plans of a backlog, with the number of their tasks in each state.

        Raises CallError if there is no such backlog.
        """
        records = self._backlog(backlog)
        rows = []
        for name in sorted(_plans(records)):
            states = Counter(record.state for record in _tasks_of(records, name).values())
            rows.append({"plan": name, "tasks": states.total(), "states": dict(states)})
        if not rows:
            self.tasks.ids_of(backlog)
        return rows

    def approve(
        self,
        backlog: str,
        plan: str,
        names: Sequence[str] | None = None,
        *,
        seen: Mapping[str, str],
    ) -> PlanDecisions:
        """Approve all tasks of a plan, or those named. `seen` are proposals of `show`.

        Raises CallError for a name that the plan does not have, before anything is decided.
        """
        return self._decide(backlog, plan, names, seen, ("approve", "approved"), {})

    def reject(
        self,
        backlog: str,
        plan: str,
        names: Sequence[str] | None = None,
        *,
        seen: Mapping[str, str],
        reason: str = "",
    ) -> PlanDecisions:
        """Cancel all tasks of a plan, or those named, before they are worked on.

        The answer names the tasks that can then never be done. Raises CallError for a name that
        the plan does not have, before anything is decided.
        """
        fields = {"reason": reason}
        return self._decide(backlog, plan, names, seen, ("reject", "rejected"), fields)

    def _decide(
        self,
        backlog: str,
        plan: str,
        names: Sequence[str] | None,
        seen: Mapping[str, str],
        choice: tuple[str, str],
        fields: Mapping[str, Any],
    ) -> PlanDecisions:
        known = [task.name for task in self.show(backlog, plan).tasks]
        unknown = [name for name in names or seen if name not in known]
        if unknown:
            shown = ", ".join(known)
            raise CallError(f"the plan {plan!r} has no task {unknown[0]!r}; its tasks: {shown}")
        chosen = known if names is None else [name for name in known if name in names]
        decisions = [
            self._decide_task(f"{backlog}/{name}", seen.get(name), choice, fields)
            for name in chosen
        ]
        starved: dict[str, str] = {}
        rejected = [
            decision.id.partition("/")[2] for decision in decisions if decision.answer == "rejected"
        ]
        if rejected:
            records = self._backlog(backlog)
            waiting = {name: one for name, one in records.items() if one.state in WAITING}
            starved = _graph(waiting).starved_by(rejected)
        return PlanDecisions(tuple(decisions), starved)

    def _decide_task(
        self, task_id: str, proposal: str | None, choice: tuple[str, str], fields: Mapping[str, Any]
    ) -> TaskDecision:
        """Decide on one task. An earlier decision of somebody else is an answer, not an error."""
        record = self.client.show(task_id)
        if record.state != State.PLANNED:
            return TaskDecision(task_id, "already", record.state)
        if proposal is None:
            return TaskDecision(task_id, "unseen", record.state, "it was not shown; look again")
        try:
            record = self.client.decide(task_id, choice[0], fields, proposal=proposal)
        except (CallError, FencedError) as refusal:
            record = self.client.show(task_id)
            if record.state != State.PLANNED:
                return TaskDecision(task_id, "already", record.state)
            return TaskDecision(task_id, "refused", record.state, str(refusal))
        return TaskDecision(task_id, choice[1], record.state)

    def _backlog(self, backlog: str) -> dict[str, Record[TaskData]]:
        """Return every task of a backlog by name, subtasks included."""
        records = sorted(self.tasks.each(backlog), key=lambda record: record.id)
        return {record.id.partition("/")[2]: record for record in records}


def _row(name: str, record: Record[TaskData], waits: Waits) -> PlanTask:
    return PlanTask(
        id=record.id,
        name=name,
        title=str(record.data["title"]),
        state=record.state,
        role=str(record.data["role"]),
        after=tuple(awaited(record.data)),
        proposal=record.proposal if record.state == State.PLANNED else "",
        why=waits.why(record),
    )


def _tasks_of(records: Mapping[str, Record[TaskData]], plan: str) -> dict[str, Record[TaskData]]:
    return {name: record for name, record in records.items() if record.data.get("plan") == plan}


def _graph(records: Mapping[str, Record[TaskData]]) -> Dependencies:
    return Dependencies({name: awaited(record.data) for name, record in records.items()})


def _plans(records: Mapping[str, Record[TaskData]]) -> set[str]:
    return {str(record.data["plan"]) for record in records.values() if record.data.get("plan")}
