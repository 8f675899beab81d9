"""Archives and forgets whole families that ended long ago; their ids stay taken by a tombstone.

What it can get wrong: without an archive folder what it prunes is gone. It never touches a family
in which anything is still alive or owed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from interlock.kernel.errors import UnknownRecordError
from interlock.kernel.event import Event
from interlock.kernel.record import Record, RecordId, ancestors, root_of
from interlock.kernel.store.codec import event_bytes
from interlock.kernel.table import Terminal
from interlock.workers.engine.dispatch import Dispatch, ms
from interlock.workers.engine.sweeper import Sweep, act_on_each

PAGE = 500


def run(dispatch: Dispatch, partition: int) -> Counter[str]:
    """Prune what ended long enough ago in one partition."""
    before_ms = dispatch.views.now_ms() - ms(dispatch.settings.prune_after_s)
    roots = dispatch.views.ended(partition, before_ms, dispatch.settings.sweep_batch)
    acts: dict[str, Callable[[], str]] = {root: partial(_prune, dispatch, root) for root in roots}
    return act_on_each(acts)


def _prune(dispatch: Dispatch, root: RecordId) -> str:
    if _needed(dispatch, root):
        dispatch.indexes.postpone(root, ms(dispatch.settings.prune_after_s))
        return "busy"
    family = list(_family(dispatch, root))
    for record in family:
        stage = dispatch.lifecycle.machine(record.machine).stage(record.state)
        if not isinstance(stage, Terminal) or record.entries:
            # Behind the others: many busy families must not hide those that can go.
            dispatch.indexes.postpone(root, ms(dispatch.settings.prune_after_s))
            return "busy"
    if dispatch.settings.archive:
        _archive(dispatch, dispatch.settings.archive, root, family)
    word = "pruned"
    for record in family:  # leaves first: an interrupted prune leaves a family that can be found
        last = _last_of_its_name(dispatch, record)
        word = dispatch.indexes.prune(record, _countdowns(dispatch, record), age_ms=0, last=last)
    return word


def _last_of_its_name(dispatch: Dispatch, record: Record) -> bool:
    """Whether nobody else reads the inbox that a record shares with those of its name."""
    machine = dispatch.lifecycle.machine(record.machine)
    if machine.mail_data is None or not machine.id_prefix:
        return machine.mail_data is not None
    return dispatch.views.family(machine, root_of(record.id), PAGE) == {record.id}


def _needed(dispatch: Dispatch, root: RecordId) -> bool:
    """Whether a record above still lives, or one below is at work, which is no child of it.

    Others of its family may ask how this one ended, and what is below still counts into it.
    """
    above = ancestors(root)
    if not above:
        return bool(dispatch.views.holds(root))
    return any(_lives(dispatch, one) for one in above)


def _lives(dispatch: Dispatch, of: RecordId) -> bool:
    try:
        record = dispatch.views.record(of)
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
        try:
            found.append(dispatch.views.record(current))
        except UnknownRecordError:
            continue  # an earlier, interrupted prune
    return found[::-1]


def _countdowns(dispatch: Dispatch, record: Record) -> list[str]:
    machine = dispatch.lifecycle.machine(record.machine)
    spawns = {str(row.trigger): row.spawns for row in machine.transitions if row.spawns}
    return [
        f"{spawns[event.trigger]}:{event.version}"
        for event in dispatch.views.history(record.id)
        if isinstance(event, Event) and event.trigger in spawns
    ]


def _archive(dispatch: Dispatch, folder: Path, root: RecordId, family: list[Record]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    for record in family:
        for line in dispatch.views.history(record.id):
            written = {"id": record.id, "machine": record.machine, "at_ms": line.at_ms}
            if isinstance(line, Event):
                written |= {"version": line.version, "event": json.loads(event_bytes(line))}
            else:
                written |= {"position": line.position, "note": line.kind, "detail": line.detail}
            lines.append(json.dumps(written, ensure_ascii=False))
    whole = folder / f"{root}.jsonl"
    whole.parent.mkdir(parents=True, exist_ok=True)
    # After an interrupted prune only a part of the family is left to archive again.
    kept = whole.read_text("utf-8").splitlines() if whole.exists() else []
    torn = folder / f"{root}.torn"
    torn.write_text("\n".join(dict.fromkeys([*kept, *lines])) + "\n", "utf-8")
    torn.replace(whole)


SWEEP = Sweep("prune", run, periods=60)
