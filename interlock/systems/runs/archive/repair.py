"""Repairs faults without guessing: wrong sums, holds of ended records, folders without record.

Repairs of records are noted in the workspace's log. Everything else stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from interlock.system.records import Records
from interlock.system.tables import Record
from interlock.systems.runs.archive.consistency import (
    corruption_of,
    expected_sums,
    missing_numbers,
    wrong_counters,
)
from interlock.systems.runs.archive.findings import Validation, validation
from interlock.systems.runs.archive.inventory import Inventory, inventory
from interlock.systems.runs.archive.validation import finished_holders, orphaned_folders, validate
from interlock.systems.runs.paths import FOLDER

ORPHANED = ".orphaned"
CORRECTION_BYTES_MAX = 128 * 1024  # of the note of a repair: half of what a note may have


def repair_workspace(records: Records, workspace: str) -> Validation:
    """Repair a workspace; return the repairs, and what is still wrong with it."""
    found = inventory(records, workspace)
    root = found.archive.root
    done = [
        *(_free_names(records, root.record, found) if root else ()),
        *_recount(records, found),
        *_move_orphaned_folders(records, found),
    ]
    left = validate(records, workspace)
    return validation((*left.errors, *left.warnings), done)


def _free_names(records: Records, workspace: Record, found: Inventory) -> Iterator[str]:
    """Free the names whose holder has ended; the store checks that again."""
    for name, holder in finished_holders(found):
        if records.repairs.free(workspace.id, name, holder) == "freed":
            detail = {"name": name, "holder": holder, "actor": records.actor}
            op_id = f"freed:{name}:{holder}:{found.position}"
            records.note(workspace, "freed", detail, op_id=op_id)
            yield f"the workspace is no longer held for {name} {holder}, which ended or is lost"


def _recount(records: Records, found: Inventory) -> Iterator[str]:
    """Correct wrong sums, if every record can be read and agrees with its log."""
    archive, machines = found.archive, records.machines
    damaged = any(True for archived in archive.records for _ in corruption_of(archived, machines))
    if not found.is_complete or damaged or any(True for _ in missing_numbers(archive)):
        return
    wrong = [finding.where for finding in wrong_counters(archive, machines)]
    if not wrong:
        return
    expected, stored = expected_sums(archive, machines), {}
    for archived in archive.records:
        name, counters = str(archived.record.id), archived.record.counters
        stored[name] = {counter: counters.get(counter, 0) for counter in expected[name]}
    corrected = {name: expected[name] for name in wrong}
    was = {name: stored[name] for name in wrong}
    note = {"actor": records.actor, **_correction(corrected, was)}
    position, repairs = found.position, records.repairs
    status = repairs.recount(archive.workspace, corrected, position=position, why=note)
    if status == "recounted":
        yield f"the sums of {', '.join(wrong)} were set to what their codons add up to"


def _correction(
    now: dict[str, dict[str, int]], was: dict[str, dict[str, int]]
) -> dict[str, object]:
    """Return the corrected sums for the note, or only their number if they would not fit."""
    note: dict[str, object] = {"now": now, "was": was}
    if len(json.dumps(note)) > CORRECTION_BYTES_MAX:
        return {"records": len(now)}
    return note


def _move_orphaned_folders(records: Records, found: Inventory) -> Iterator[str]:
    """Move the folders that belong to no record to `.orphaned`; nothing is deleted."""
    home = records.settings.home.absolute() / FOLDER
    unreadable = [finding.where for finding in found.unreadable]
    for folder, record_id in list(orphaned_folders(records, found.archive, unreadable)):
        if records.views.creation_digests([record_id]):
            continue  # The record was created since: a folder is made after its record.
        target = _free_name(home / ORPHANED / folder.relative_to(home))
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.rename(target)
        yield f"{folder} was moved to {target}"


def _free_name(wanted: Path) -> Path:
    number, name = 1, wanted
    while name.exists():
        number += 1
        name = wanted.with_name(f"{wanted.name}.{number}")
    return name
