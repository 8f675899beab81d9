"""Starts agents of this computer when a task becomes open."""

from __future__ import annotations

from interlock.kernel.record import root_of
from interlock.workers.engine.work import Work
from interlock.workers.tasks.assignment import assign


def assignment(work: Work) -> None:
    """Start agents for the task's backlog. If no slot is free now, a sweep tries again."""
    assign(work.dispatch, root_of(work.record.id))
