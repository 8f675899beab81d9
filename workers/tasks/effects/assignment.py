"""Offers an open task to the agents of this machine; who takes it is theirs to find out."""

from __future__ import annotations

from interlock.kernel.record import root_of
from interlock.workers.engine.work import Work
from interlock.workers.tasks.assignment import assign


def assignment(work: Work) -> None:
    """Fill this machine's free slots from the task's backlog; a sweep repeats where none is."""
    assign(work.dispatch, root_of(work.record.id))
