"""Repairs what can be repaired without a guess: sums, names held by nobody, folders of nobody.

Each repair is noted in the workspace's log, folders aside. All else is left as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from interlock.kernel.record import Record
from interlock.kernel.store import codec
from interlock.kernel.store.commands import Jot
from interlock.kernel.store.repairs import Repairs
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.runs.archive.consistency import corrupted, miscounted, numbering, right_sums
from interlock.workers.runs.archive.findings import Validation, validation
from interlock.workers.runs.archive.inventory import Inventory, inventory
from interlock.workers.runs.archive.validation import gone_holders, orphans, validate
from interlock.workers.runs.paths import FOLDER

ASIDE = ".orphaned"


def mend(dispatch: Dispatch, workspace: str, *, actor: str) -> Validation:
    """Repair a workspace, and return what was done and what is still wrong with it."""
    found = inventory(dispatch, workspace)
    root = found.archive.root
    done = [
        *(_freed(dispatch, root.record, found, actor) if root else ()),
        *_recounted(dispatch, found, actor),
        *_moved_aside(dispatch, found),
    ]
    left = validate(dispatch, workspace)
    return validation((*left.errors, *left.warnings), done)


def _freed(dispatch: Dispatch, workspace: Record, found: Inventory, actor: str) -> Iterator[str]:
    """Free what is held by who is gone; the store looks again whether it is."""
    repairs = Repairs(dispatch.client, dispatch.keys)
    for name, holder in gone_holders(found):
        if repairs.free(workspace.id, name, holder) == "freed":
            jot = Jot("freed", {"name": name, "holder": holder, "actor": actor})
            dispatch.note(workspace, jot, op_id=f"freed:{name}:{holder}:{found.position}")
            yield f"the workspace is no longer held for {name} {holder}, which is gone"


def _recounted(dispatch: Dispatch, found: Inventory, actor: str) -> Iterator[str]:
    """Set sums to what the records say, if all could be read, all agree with their logs."""
    archive, machines = found.archive, dispatch.machines
    damaged = any(True for past in archive.pasts for _ in corrupted(past, machines))
    if not found.whole or damaged or any(True for _ in numbering(archive)):
        return
    wrong = [one.where for one in miscounted(archive, machines)]
    if not wrong:
        return
    right, was = right_sums(archive, machines), {}
    for past in archive.pasts:
        kept = past.record.counters
        was[str(past.record.id)] = {name: kept.get(name, 0) for name in right[past.record.id]}
    set_to = {of: right[of] for of in wrong}
    note = {"actor": actor, **_noted(set_to, {of: was[of] for of in wrong})}
    repairs = Repairs(dispatch.client, dispatch.keys)
    word = repairs.recount(archive.workspace, set_to, position=found.position, why=note)
    if word == "recounted":
        yield f"the sums of {', '.join(wrong)} were set to what their codons add up to"


def _noted(now: dict[str, dict[str, int]], was: dict[str, dict[str, int]]) -> dict[str, object]:
    """Return what was corrected; of very many records how many."""
    note: dict[str, object] = {"now": now, "was": was}
    if len(json.dumps(note)) > codec.PAYLOAD_BYTES_MAX // 2:
        return {"records": len(now)}
    return note


def _moved_aside(dispatch: Dispatch, found: Inventory) -> Iterator[str]:
    """Move folders of nobody away, each under a name of its own; nothing is deleted."""
    home = dispatch.settings.home.absolute() / FOLDER
    unread = [one.where for one in found.unread]
    for folder, of in list(orphans(dispatch, found.archive, unread)):
        if dispatch.views.births([of]):
            continue  # born since: a folder is made after its record
        target = _free_name(home / ASIDE / folder.relative_to(home))
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.rename(target)
        yield f"{folder} was moved to {target}"


def _free_name(wanted: Path) -> Path:
    number, name = 1, wanted
    while name.exists():
        number += 1
        name = wanted.with_name(f"{wanted.name}.{number}")
    return name
