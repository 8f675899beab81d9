"""Finds the open tasks that no agent will ever claim. It looks at a bounded number of tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from interlock.system.records import Records
from interlock.system.tables import RecordContent
from interlock.system.top import AgedRecord
from interlock.systems.tasks.claim_row import age_s
from interlock.systems.tasks.machines.task.changes import awaited
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import State
from interlock.systems.tasks.waits import Starvation, may_starve

LOOKED_AT_MAX = 1_000  # open tasks, the oldest, and as many dependencies of them


@dataclass(frozen=True, slots=True)
class StarvedTasks:
    """The open tasks that no agent will ever claim, each with the reason; seen at `at_ms`.

    `is_partial`: not all open tasks were looked at, so that more may be starved.
    """

    at_ms: int
    tasks: tuple[AgedRecord, ...]
    is_partial: bool


def find_starved(records: Records, backlog: str = "") -> StarvedTasks:
    """Return the starved tasks of one backlog, or of all. Raises StoreError if the store is away.

    It looks at the LOOKED_AT_MAX tasks that have been open the longest, and stops once they have
    more than LOOKED_AT_MAX dependencies together.
    """
    views, opened = records.views, ("task", str(State.OPEN))
    found = views.in_states({opened: LOOKED_AT_MAX}, root=backlog)[opened]
    tasks = _with_few_dependencies(records, [row.id for row in found.rows])
    candidates = [task for task in tasks if may_starve(task)]
    starvation, now_ms = Starvation(records, candidates), records.now_ms()
    starved = (
        AgedRecord(task.id, "task", task.state, age_s(now_ms, task.since_ms), why)
        for task in candidates
        if (why := starvation.why_starved(task))
    )
    is_partial = found.is_minimum or len(tasks) < found.number
    return StarvedTasks(now_ms, tuple(starved), is_partial)


def count_starved(records: Records) -> tuple[int, bool]:
    """Return how many open tasks of all backlogs no agent will ever claim, and if perhaps more."""
    found = find_starved(records)
    return len(found.tasks), found.is_partial


def _with_few_dependencies(records: Records, ids: Iterable[str]) -> list[RecordContent[TaskData]]:
    """Read these tasks in order, until they have LOOKED_AT_MAX dependencies together."""
    tasks, left = [], LOOKED_AT_MAX
    contents: Mapping[str, RecordContent[TaskData]] = records.views.contents(
        ids, readable_by=records.machines
    )
    for task in contents.values():
        left -= len(awaited(task.data))
        if left < 0:
            break
        tasks.append(task)
    return tasks
