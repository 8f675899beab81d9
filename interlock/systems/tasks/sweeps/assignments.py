"""Starts agents for open tasks whose repositories are on this computer, while it has free slots."""

from __future__ import annotations

from collections import Counter
from functools import partial

from interlock.system.records import Records, StateKey, Sweep, act_on_each
from interlock.system.tables import PARTITIONS
from interlock.systems.tasks.assignment import assign
from interlock.systems.tasks.machines.effects import ASSIGNMENT
from interlock.systems.tasks.machines.task.names import State, backlog_of


def due(records: Records) -> list[int]:
    """Return the partitions with an open task."""
    places = [StateKey("task", State.OPEN, partition) for partition in range(PARTITIONS)]
    return [place.partition for place in records.views.count_in_states(places)]


def run(records: Records, partition: int) -> Counter[str]:
    """Start agents for the backlogs of one partition."""
    # All open tasks are read, so that a backlog with many of them does not hide the others.
    open_tasks = records.views.list_in_state_since(StateKey("task", State.OPEN, partition))
    roots = dict.fromkeys(backlog_of(task.id) for task in open_tasks)
    acts = {root: partial(_assign, records, root) for root in roots}
    return act_on_each(acts)


def _assign(records: Records, root: str) -> str:
    return "started" if assign(records, root) else "busy"


SWEEP = Sweep("assignments", due, run, queue=ASSIGNMENT.name)
