"""Moves records that an older version of their table has left, by the table that is applied.

A record whose effect is at work by the older version is moved when that has ended.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from zlib import crc32

from interlock.kernel.errors import TableFunctionError
from interlock.kernel.event import MOVED, TABLE_FAILED
from interlock.kernel.machine import Machine
from interlock.kernel.store.commands import NoteDraft
from interlock.kernel.store.views import Views
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.records import Records
from interlock.workers.engine.sweeper import Sweep, act_on_each

log = logging.getLogger(__name__)


def due(records: Records) -> list[int]:
    """Return the partitions that may have such records."""
    dispatch = records.dispatch
    found = set[int]()
    for machine in _with_a_past(dispatch):
        found |= dispatch.older_records.partitions(machine)
    return sorted(found)


def run(records: Records, partition: int) -> Counter[str]:
    """Move some of the records of one partition.

    They are drawn at random, so that those that cannot be moved yet do not keep others waiting.
    """
    dispatch = records.dispatch
    ids = [
        one
        for machine in _with_a_past(dispatch)
        for one in dispatch.older_records.ids(machine, partition)
    ]
    chosen = random.sample(ids, min(len(ids), dispatch.settings.sweep_batch))
    return act_on_each({one: partial(_move, dispatch, one) for one in chosen})


def _with_a_past(dispatch: Dispatch) -> Iterator[Machine]:
    """Yield the machines that name an older version, and whose table is the applied one.

    A worker by another table, which may be older or newer, would move what ours has moved back.
    """
    named = [each for each in dispatch.machines.values() if each.renamed or each.schema > 1]
    applied = dispatch.tables.applied() if named else {}
    for machine in named:
        if machine.name in applied and applied[machine.name].digest == machine.digest:
            yield machine


def _move(dispatch: Dispatch, record_id: str) -> str:
    try:
        dispatch.lifecycle.mover.move(record_id)
    except TableFunctionError as refusal:
        _note_failure(dispatch, record_id, str(refusal))
        return "failed"
    return "moved"


def _note_failure(dispatch: Dispatch, record_id: str, why: str) -> None:
    """Say in both logs why a record is not moved, once while it does not change."""
    record = Views(dispatch.client, dispatch.keys).record(record_id)
    draft = NoteDraft(TABLE_FAILED, {"trigger": MOVED, "detail": why})
    op_id = f"{MOVED}:{record.version}:{crc32(why.encode()):x}/failed"
    if dispatch.lifecycle.note(record, draft, op_id=op_id).status == "noted":
        log.error("%s is not moved: %s", record_id, why)


SWEEP = Sweep("moves", due, run, periods=10)
