"""Gives what waits in line to free agents of this machine; one that nobody can take stays there."""

from __future__ import annotations

from collections import Counter

from kernel.effect import ASSIGNMENT
from kernel.record import root_of
from workers.dispatch import Dispatch
from workers.fleet import assign
from workers.sweep import Sweep


def run(dispatch: Dispatch, partition: int) -> Counter[str]:
    """Fill this machine's free slots from the backlogs of one partition."""
    machine = dispatch.lifecycle.machine("task")
    waiting = dispatch.views.standing_in(machine, "open", partition, dispatch.settings.sweep_batch)
    roots = dict.fromkeys(root_of(one) for one in waiting)
    return Counter({"started": sum(assign(dispatch, root) for root in roots)})


SWEEP = Sweep("assignments", run, queue=ASSIGNMENT.name)
