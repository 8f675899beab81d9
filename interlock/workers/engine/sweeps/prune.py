"""Archives and deletes whole families that ended long ago; a tombstone keeps their ids taken.

What it can get wrong: without an archive folder the deleted records are lost. A family in which a
record is alive or has an effect left is not touched.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from interlock.kernel.errors import StoreError, UnknownRecordError
from interlock.kernel.event import Event
from interlock.kernel.families import countdowns_begun
from interlock.kernel.record import Record, RecordId, ancestors, root_of
from interlock.kernel.store.codec import event_bytes
from interlock.kernel.table import Terminal
from interlock.workers.config import ms
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.records import Records
from interlock.workers.engine.sweeper import Sweep, act_on_each


def due(records: Records) -> list[int]:
    """Return the partitions with a family that ended long enough ago."""
    dispatch = records.dispatch
    return dispatch.indexes.partitions_with(dispatch.keys.ended_index, _before_ms(dispatch))


def run(records: Records, partition: int) -> Counter[str]:
    """Prune the families of one partition that ended long enough ago."""
    dispatch = records.dispatch
    before_ms = _before_ms(dispatch)
    roots = dispatch.indexes.ended(partition, before_ms, dispatch.settings.sweep_batch)
    acts: dict[str, Callable[[], str]] = {root: partial(_prune, dispatch, root) for root in roots}
    return act_on_each(acts)


def _before_ms(dispatch: Dispatch) -> int:
    return dispatch.views.now_ms() - ms(dispatch.settings.prune_after_s)


def _prune(dispatch: Dispatch, root: RecordId) -> str:
    """Prune a family. One that stays is postponed: many of them hide none that can be pruned."""
    try:
        status = _pruned(dispatch, root)
    except StoreError:
        raise
    except Exception:
        dispatch.indexes.postpone(root, ms(dispatch.settings.prune_after_s))
        raise
    if status == "busy":
        dispatch.indexes.postpone(root, ms(dispatch.settings.prune_after_s))
    return status


def _pruned(dispatch: Dispatch, root: RecordId) -> str:
    if _needed(dispatch, root):
        return "busy"
    family = list(_family(dispatch, root))
    for record in family:
        stage = dispatch.lifecycle.machine(record.machine).stage(record.state)
        if not isinstance(stage, Terminal) or record.entries:
            return "busy"
    if dispatch.settings.archive:
        _archive(dispatch, dispatch.settings.archive, root, family)
    status = "pruned"
    # Children first, so that an interrupted prune leaves a family that is still found by its root.
    for record in family:
        last = _is_last_of_its_name(dispatch, record)
        status = dispatch.indexes.prune(record, _countdowns(dispatch, record), age_ms=0, last=last)
    return status


def _is_last_of_its_name(dispatch: Dispatch, record: Record) -> bool:
    """Whether a record is the only one of its name, so that no other record reads its inbox."""
    machine = dispatch.lifecycle.machine(record.machine)
    if machine.inbox is None or not machine.placement.id_prefix:
        return machine.inbox is not None
    return [*dispatch.views.ids(machine, root=root_of(record.id))] == [record.id]


def _needed(dispatch: Dispatch, root: RecordId) -> bool:
    """Whether an ancestor of a record is still alive, or a holder below it is at work.

    Others of its family may read how this one ended, and holders below still add to its counters.
    """
    above = ancestors(root)
    if not above:
        return bool(dispatch.views.holds(root))
    return any(_is_alive(dispatch, ancestor) for ancestor in above)


def _is_alive(dispatch: Dispatch, record_id: RecordId) -> bool:
    try:
        record = dispatch.views.record(record_id)
    except UnknownRecordError:
        return False
    stage = dispatch.lifecycle.machine(record.machine).stage(record.state)
    return not isinstance(stage, Terminal)


def _family(dispatch: Dispatch, root: RecordId) -> list[Record]:
    found: list[Record] = []
    pending = [root]
    while pending:
        current = pending.pop()
        pending += dispatch.views.children(current)
        # An earlier prune, which was interrupted, may have deleted it.
        with suppress(UnknownRecordError):
            found.append(dispatch.views.record(current))
    return found[::-1]


def _countdowns(dispatch: Dispatch, record: Record) -> list[str]:
    machine = dispatch.lifecycle.machine(record.machine)
    return countdowns_begun(machine, dispatch.views.history(record.id))


def _archive(dispatch: Dispatch, folder: Path, root: RecordId, family: list[Record]) -> None:
    lines: list[str] = []
    for record in family:
        for line in dispatch.views.history(record.id):
            written = {"id": record.id, "machine": record.machine, "at_ms": line.at_ms}
            if isinstance(line, Event):
                written |= {"version": line.version, "event": json.loads(event_bytes(line))}
            else:
                written |= {"position": line.position, "note": line.kind, "detail": line.detail}
            lines.append(json.dumps(written, ensure_ascii=False))
    file = folder / f"{root}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    # After an interrupted prune, only a part of the family is left, so the old lines are kept.
    archived = file.read_text("utf-8").splitlines() if file.exists() else []
    partial_file = folder / f"{root}.torn"
    partial_file.write_text("\n".join(dict.fromkeys([*archived, *lines])) + "\n", "utf-8")
    partial_file.replace(file)


SWEEP = Sweep("prune", due, run, periods=60)
