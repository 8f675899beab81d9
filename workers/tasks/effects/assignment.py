"""Offers an open task to the agents of this machine; who takes it is theirs to find out."""

from __future__ import annotations

from kernel.record import root_of
from workers.engine.work import Work
from workers.tasks.assignment import assign


def assignment(work: Work) -> None:
    """Fill this machine's free slots from the task's backlog; a sweep repeats where none is."""
    assign(work.dispatch, root_of(work.record.id))
