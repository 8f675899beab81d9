"""Starts agents for open tasks whose repositories are on this computer, while it has free slots."""

from __future__ import annotations

from collections import Counter
from functools import partial

from interlock.system.records import Records, Sweep, act_on_each
from interlock.system.tables import root_of
from interlock.systems.tasks.assignment import assign
from interlock.systems.tasks.machines.effects import ASSIGNMENT
from interlock.systems.tasks.machines.task.names import State


def due(records: Records) -> list[int]:
    """Return the partitions with an open task."""
    return records.views.partitions("task", [State.OPEN])


def run(records: Records, partition: int) -> Counter[str]:
    """Start agents for the backlogs of one partition."""
    # All open tasks are read, so that a backlog with many of them does not hide the others.
    task = records.machine("task")
    open_tasks = records.views.ids(task, partition=partition, states=[State.OPEN])
    roots = dict.fromkeys(map(root_of, open_tasks))
    acts = {root: partial(_assign, records, root) for root in roots}
    return act_on_each(acts)


def _assign(records: Records, root: str) -> str:
    return "started" if assign(records, root) else "busy"


SWEEP = Sweep("assignments", due, run, queue=ASSIGNMENT.name)
