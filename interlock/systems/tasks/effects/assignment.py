"""Starts agents for a backlog when one of its tasks becomes open."""

from __future__ import annotations

from interlock import EffectWork
from interlock.systems.tasks.assignment import assign
from interlock.systems.tasks.machines.task.data import TaskData


def assignment(work: EffectWork[TaskData]) -> None:
    """Start agents on this computer for the task's backlog.

    Any worker may get the message. If its computer has not the task's repository, or no free slot,
    it starts nothing for the task: the sweep `assignments` and the task's recheck try again, until
    a worker of the right computer gets their message.
    """
    assign(work.records, work.record.root)
