"""Plans of tasks for producers and people: submit, show, approve, reject, whole or one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from interlock.kernel.errors import (
    CallError,
    FencedError,
    IdTakenError,
    IllegalTransitionError,
    StaleDecisionError,
)
from interlock.kernel.machines.tasks.task.names import State
from interlock.kernel.record import Record, partition_of, root_of
from interlock.workers.client import Client, Submitted
from interlock.workers.specs.dependencies import in_order, starved_by
from interlock.workers.tasks.client import LISTED_MAX, Tasks
from interlock.workers.tasks.plans.admission import Admission
from interlock.workers.tasks.plans.file import PlanFile, wrong

SEEN_LENGTH = 12
# Whom it can still matter to that what it waits for will never come.
WAITING = (State.PLANNED, State.OPEN)


@dataclass(frozen=True, slots=True)
class Submission:
    """What became of each task of a plan. `others`: the plan has them, the file does not."""

    tasks: tuple[Submitted, ...]
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlanTask:
    """One task of a plan as it stands. `proposal` is what a decision names, '' where none waits."""

    id: str
    name: str
    title: str
    state: str
    role: str
    after: tuple[str, ...]
    proposal: str
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan as it stands, each task after those that it waits for. `seen` is a word for it.

    The word tells which tasks there are, not where they stand: it changes when one is added.
    """

    backlog: str
    name: str
    seen: str
    tasks: tuple[PlanTask, ...]

    @property
    def proposals(self) -> dict[str, str]:
        """Return what there is to decide, by the tasks' names."""
        return {task.name: task.proposal for task in self.tasks if task.proposal}


@dataclass(frozen=True, slots=True)
class Decided:
    """What became of the decision on one task.

    `answer`: approved or rejected; already (somebody else decided first: see its state); unseen
    (it was not among what was shown); refused (`why` says for which reason).
    """

    id: str
    answer: str
    state: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Decisions:
    """What became of each task, and which others now wait in vain, for whom, by name."""

    tasks: tuple[Decided, ...]
    starved: Mapping[str, str]


class Plans:
    """What can be done with plans, over a client."""

    def __init__(self, client: Client) -> None:
        self.client, self.tasks = client, Tasks(client)

    def check(self, plan: PlanFile) -> dict[str, dict[str, Any]]:
        """Check all of a plan and write nothing; return what is yet to be born, by name.

        Raises PlanError for what is wrong with a task, with its place in the file.
        """
        return Admission(self.tasks, plan).admitted()

    def submit(self, plan: PlanFile) -> Submission:
        """Hand in a plan: each of its tasks waits to be approved. Repeating it changes nothing.

        What was interrupted is completed by repeating it. Raises PlanError, before anything is
        written as far as that can be seen.
        """
        new = self.check(plan)
        by_name = {task.name: task for task in plan.tasks}
        order = list(by_name)
        found = []
        for name in in_order({task.name: task.after for task in plan.tasks}, order.index):
            task_id = f"{plan.backlog}/{name}"
            if name not in new:
                found.append(Submitted(task_id, replayed=True))
                continue
            task = by_name[name]
            try:
                one = self.client.submit(
                    new[name], id=task_id, machine="task", priority=task.priority
                )
            except IdTakenError as refusal:
                problem = f"{refusal}, then submit the plan again: what was accepted stays"
                raise wrong(plan.path, task, "name", problem) from refusal
            found.append(one)
        others = _members(self._backlog(plan.backlog), plan.name).keys() - by_name.keys()
        return Submission(tuple(found), tuple(sorted(others)))

    def show(self, backlog: str, plan: str) -> Plan:
        """Return a plan as it stands. Raises CallError where there is none of this name."""
        records = self._backlog(backlog)
        mine = _members(records, plan)
        if not mine:
            known = ", ".join(sorted(_plans(records))) or "none"
            raise CallError(f"the backlog {backlog!r} has no plan {plan!r}; its plans: {known}")
        graph = {name: tuple(record.data["depends_on"]) for name, record in mine.items()}
        order = in_order(graph, lambda name: (mine[name].created_ms, name))
        births = sorted(f"{record.id} {record.created_ms}" for record in mine.values())
        seen = sha256("\n".join(births).encode()).hexdigest()[:SEEN_LENGTH]
        return Plan(backlog, plan, seen, tuple(self._row(name, mine[name]) for name in order))

    def of(self, backlog: str) -> list[dict[str, Any]]:
        """Return the plans of a backlog, and how many of their tasks stand in each state."""
        records = self._backlog(backlog)
        found = []
        for name in sorted(_plans(records)):
            states = Counter(record.state for record in _members(records, name).values())
            found.append({"plan": name, "tasks": states.total(), "states": dict(states)})
        return found

    def approve(
        self,
        backlog: str,
        plan: str,
        names: Sequence[str] | None = None,
        *,
        seen: Mapping[str, str],
    ) -> Decisions:
        """Let tasks of a plan be worked on: all, or those named. `seen` are proposals of `show`.

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
    ) -> Decisions:
        """End tasks of a plan before they are worked on; the answer has those that it starves.

        Raises CallError for a name that the plan does not have, before anything is decided.
        """
        said = {"reason": reason}
        return self._decide(backlog, plan, names, seen, ("reject", "rejected"), said)

    # --- what is decided ---------------------------------------------------------------------

    def _decide(
        self,
        backlog: str,
        plan: str,
        names: Sequence[str] | None,
        seen: Mapping[str, str],
        choice: tuple[str, str],
        words: Mapping[str, Any],
    ) -> Decisions:
        now = self.show(backlog, plan)
        known = [task.name for task in now.tasks]
        unknown = [name for name in names or seen if name not in known]
        if unknown:
            shown = ", ".join(known)
            raise CallError(f"the plan {plan!r} has no task {unknown[0]!r}; its tasks: {shown}")
        asked = known if names is None else [name for name in known if name in names]
        answers = [
            self._decide_one(f"{backlog}/{name}", seen.get(name), choice, words) for name in asked
        ]
        starved: dict[str, str] = {}
        gone = [one.id.partition("/")[2] for one in answers if one.answer == "rejected"]
        if gone:
            records = self._backlog(backlog)
            graph = {
                name: tuple(record.data["depends_on"])
                for name, record in records.items()
                if record.state in WAITING
            }
            starved = starved_by(graph, gone)
        return Decisions(tuple(answers), starved)

    def _decide_one(
        self, task_id: str, proposal: str | None, choice: tuple[str, str], words: Mapping[str, Any]
    ) -> Decided:
        """Decide on one task; that somebody was faster is an answer, no failure."""
        record = self.client.show(task_id)
        if record.state != State.PLANNED:
            return Decided(task_id, "already", record.state)
        if proposal is None:
            return Decided(task_id, "unseen", record.state, "it was not shown; look again")
        try:
            record = self.client.decide(task_id, choice[0], words, proposal=proposal)
        except (StaleDecisionError, IllegalTransitionError, FencedError) as late:
            record = self.client.show(task_id)
            answer = "refused" if record.state == State.PLANNED else "already"
            return Decided(task_id, answer, record.state, str(late) if answer == "refused" else "")
        return Decided(task_id, choice[1], record.state)

    # --- what is read ------------------------------------------------------------------------

    def _row(self, name: str, record: Record) -> PlanTask:
        failure = record.data.get("failure") or {}
        waits = record.state in WAITING
        return PlanTask(
            id=record.id,
            name=name,
            title=str(record.data["title"]),
            state=record.state,
            role=str(record.data["role"]),
            after=tuple(record.data["depends_on"]),
            proposal=record.proposal if record.state == State.PLANNED else "",
            why=self.tasks.starved(record) if waits else str(failure.get("reason", "")),
        )

    def _backlog(self, backlog: str) -> dict[str, Record]:
        """Return every task of a backlog by name, parts of tasks as well."""
        dispatch, partition = self.client.dispatch, partition_of(backlog)
        machine = dispatch.lifecycle.machine("task")
        ids = {
            one
            # Twice: a task that moves on between two looks can be missed by one round.
            for _ in range(2)
            for stage in machine.stages
            for one in dispatch.views.list_in_partition(
                machine, str(stage.state), partition, LISTED_MAX
            )
            if root_of(one) == backlog
        }
        return {one.partition("/")[2]: self.client.show(one) for one in sorted(ids)}


def _members(records: Mapping[str, Record], plan: str) -> dict[str, Record]:
    return {name: record for name, record in records.items() if record.data.get("plan") == plan}


def _plans(records: Mapping[str, Record]) -> set[str]:
    return {str(record.data["plan"]) for record in records.values() if record.data.get("plan")}
