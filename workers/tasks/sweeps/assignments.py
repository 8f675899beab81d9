"""Gives what waits in line to free agents of this machine; one that nobody can take stays there."""

from __future__ import annotations

from collections import Counter
from functools import partial

from interlock.kernel.machines.tasks.effects import ASSIGNMENT
from interlock.kernel.record import root_of
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.sweeper import Sweep, act_on_each
from interlock.workers.tasks.assignment import assign

OPEN_MAX = 2_000


def run(dispatch: Dispatch, partition: int) -> Counter[str]:
    """Fill this machine's free slots from the backlogs of one partition."""
    machine = dispatch.lifecycle.machine("task")
    # A backlog that nobody can work on must not hide those behind it.
    waiting = dispatch.views.list_in_partition(machine, "open", partition, OPEN_MAX)
    roots = dict.fromkeys(root_of(one) for one in waiting)
    acts = {root: partial(_assigned, dispatch, root) for root in roots}
    return act_on_each(acts)


def _assigned(dispatch: Dispatch, root: str) -> str:
    return "started" if assign(dispatch, root) else "busy"


SWEEP = Sweep("assignments", run, queue=ASSIGNMENT.name)
