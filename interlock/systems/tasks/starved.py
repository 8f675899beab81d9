"""Finds the open tasks that no agent will ever claim. It looks at a bounded number of tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from interlock.system.records import RecordInState, Records, StateKey
from interlock.system.tables import PARTITIONS, RecordContent, partition_of
from interlock.system.top import AgedRecord
from interlock.systems.tasks.claim_row import SCANNED_MAX, age_s
from interlock.systems.tasks.machines.task.changes import awaited
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import State, backlog_of
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
    views = records.views
    partitions = [partition_of(backlog)] if backlog else range(PARTITIONS)
    counts = views.count_in_states([StateKey("task", State.OPEN, one) for one in partitions])
    # Other backlogs may share the partition of one, so more of it is read.
    limits = dict.fromkeys(counts, SCANNED_MAX) if backlog else _limits(counts)
    read = [row for page in views.list_in_states(limits).values() for row in page]
    others = sum(backlog_of(row.id) != backlog for row in read) if backlog else 0
    opened = [row for row in read if not backlog or backlog_of(row.id) == backlog]
    tasks = _with_few_dependencies(records, _oldest(opened))
    candidates = [task for task in tasks if may_starve(task)]
    starvation, now_ms = Starvation(records, candidates), views.now_ms()
    starved = (
        AgedRecord(task.id, "task", task.state, age_s(now_ms, task.since_ms), why)
        for task in candidates
        if (why := starvation.why_starved(task))
    )
    return StarvedTasks(
        now_ms, tuple(starved), is_partial=len(tasks) + others < sum(counts.values())
    )


def count_starved(records: Records) -> tuple[int, bool]:
    """Return how many open tasks of all backlogs no agent will ever claim, and if perhaps more."""
    found = find_starved(records)
    return len(found.tasks), found.is_partial


def _limits(counts: Mapping[StateKey, int]) -> dict[StateKey, int]:
    """Return how many open tasks to read of each partition, LOOKED_AT_MAX in all.

    The starved ones are among those that have been open the longest, because nobody claims them.
    """
    filled = {key: number for key, number in counts.items() if number}
    if sum(filled.values()) <= LOOKED_AT_MAX:
        return filled
    share = max(LOOKED_AT_MAX // len(filled), 1)
    return {key: min(number, share) for key, number in filled.items()}


def _oldest(opened: Iterable[RecordInState]) -> list[RecordInState]:
    return sorted(opened, key=lambda row: row.since_ms)[:LOOKED_AT_MAX]


def _with_few_dependencies(
    records: Records, rows: Iterable[RecordInState]
) -> list[RecordContent[TaskData]]:
    """Read these tasks in order, until they have LOOKED_AT_MAX dependencies together."""
    tasks, left = [], LOOKED_AT_MAX
    ids = [row.id for row in rows]
    contents: Mapping[str, RecordContent[TaskData]] = records.views.contents(
        ids, readable_by=records.machines
    )
    for task in contents.values():
        left -= len(awaited(task.data))
        if left < 0:
            break
        tasks.append(task)
    return tasks
