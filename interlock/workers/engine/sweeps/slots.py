"""Frees the slots of effects whose holders are gone, and offers them to the effects that wait."""

from __future__ import annotations

from collections import Counter
from functools import partial

from interlock.workers.engine.effect_slots import check
from interlock.workers.engine.records import Records
from interlock.workers.engine.sweeper import Sweep, act_on_each


def due(records: Records) -> list[int]:
    """Return the partitions with slots to check."""
    dispatch = records.dispatch
    return dispatch.indexes.partitions_with(dispatch.keys.checked_slots, dispatch.views.now_ms())


def run(records: Records, partition: int) -> Counter[str]:
    """Check the slots of one partition that are due."""
    dispatch = records.dispatch
    names = dispatch.leases.slots.due(partition, dispatch.settings.sweep_batch)
    return act_on_each({name: partial(check, dispatch, name) for name in names})


SWEEP = Sweep("slots", due, run, periods=5)
