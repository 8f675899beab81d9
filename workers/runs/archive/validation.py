"""Validates the runs of a workspace: its records, its checkpoints, its folders; it mends nothing.

Nothing is ever replaced by an empty state: what cannot be read stays as it is, and is explained.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from interlock.kernel.machines.runs.codon.names import SELF as CODON
from interlock.kernel.machines.runs.effects import CLEARANCE
from interlock.kernel.machines.runs.run.table import SELF as RUN
from interlock.kernel.machines.runs.translation import branch_of
from interlock.kernel.restoration import HOLDER
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.gateways.git.errors import GitError
from interlock.workers.gateways.git.shadow import Shadow
from interlock.workers.gateways.git.shadow_tree import ShadowError
from interlock.workers.runs.archive.archive import Archive
from interlock.workers.runs.archive.consistency import (
    corrupted,
    invalid,
    live,
    miscounted,
    misremembered,
    numbering,
    shas,
)
from interlock.workers.runs.archive.findings import Fault, Finding, Validation, validation
from interlock.workers.runs.archive.inventory import Inventory, inventory
from interlock.workers.runs.paths import RunPlace

# Where a workspace's checkpoints are; to look there must not make them.
STORE = Path(".interlock", "checkpoints")
# How long it may take until a codon has followed its run into the end.
CLEARED_MS = CLEARANCE.lease_ms + CLEARANCE.grace_ms
NUMBER = re.compile(r"[0-9]+")


def validate(dispatch: Dispatch, workspace: str) -> Validation:
    """Return all that is wrong with a workspace's runs, by its id, and what to do about each."""
    return validation(_findings(dispatch, inventory(dispatch, workspace)))


def checkpoints_missing(archive: Archive, folder: Path) -> Iterator[Finding]:
    """Yield the checkpoints that records name and a folder has not, or why none can be read."""
    named = {sha: past.record.id for past in archive.pasts for sha in shas(past.record)}
    if not named:
        return
    kind, store = Fault.MISSING_CHECKPOINT, folder / STORE
    if not store.is_dir():
        message = (
            f"the {len(named)} checkpoints of its runs are gone, as {store} is no folder; put it "
            "back from a copy, else no run can be rolled back or gone on with"
        )
        yield Finding(kind, archive.workspace, message)
        return
    try:
        shadow = Shadow.open(folder)
        # Each question is a process of git: one for each run, and one for what its branch has not.
        runs = (branch_of(past.record.id) for past in archive.runs)
        known = {sha for branch in runs for sha in shadow.history(branch)}
        gone = [sha for sha in named if sha not in known and not shadow.has(sha)]
    except (ShadowError, GitError) as refusal:
        yield Finding(kind, archive.workspace, str(refusal))
        return
    for sha in gone:
        message = (
            f"it names checkpoint {sha}, which no branch in {store} leads to; put the folder back "
            "from a copy, or roll back to another: `interlock run checkpoints` lists them"
        )
        yield Finding(kind, named[sha], message)


def orphans(
    dispatch: Dispatch, archive: Archive, unread: Iterable[str]
) -> Iterator[tuple[Path, str]]:
    """Yield the folders of papers that no record knows, and the id that one would have."""
    known = {past.record.id for past in archive.pasts} | set(unread)
    for run in _folders(RunPlace(archive.workspace, dispatch.settings).work_folder):
        name = f"{archive.workspace}/{run.name}"
        if name not in known:
            yield run, name
            continue
        for codon in _folders(run):
            number = int(codon.name) if NUMBER.fullmatch(codon.name) else codon.name
            if (of := f"{name}/{number}") not in known:
                yield codon, of


def gone_holders(found: Inventory) -> Iterator[tuple[str, str]]:
    """Yield the names that are held by a record which is not there or has ended, and by whom."""
    unread = {one.where for one in found.unread if one.type is Fault.CORRUPTED_DATA}
    at_work = {one.id for one in live(found.archive)}
    for name, holder in found.holds.items():
        if holder not in {_importer(found), *unread, *at_work}:
            yield name, holder


def _findings(dispatch: Dispatch, found: Inventory) -> Iterator[Finding]:
    archive, machines = found.archive, dispatch.machines
    unread = {one.where for one in found.unread}
    yield from found.unread
    damaged = [one for past in archive.pasts for one in corrupted(past, machines)]
    yield from damaged
    yield from (one for one in numbering(archive) if one.where not in unread)
    yield from _held(found)
    for past in archive.at(2):
        yield from invalid(past.record)
    yield from _unended(found)
    if archive.root is not None:
        place = Path(str(archive.root.record.data.get("folder", "")))
        yield from checkpoints_missing(archive, place)
    if found.whole and not damaged:
        yield from miscounted(archive, machines)
        yield from misremembered(archive, machines)
    for folder, _ in orphans(dispatch, archive, unread):
        message = (
            f"the folder {folder} is of no run or codon that is known here; "
            "`interlock run validate --repair` moves it aside, or delete it"
        )
        yield Finding(Fault.ORPHANED_FOLDER, archive.workspace, message)


def _held(found: Inventory) -> Iterator[Finding]:
    """Yield what is wrong with who has the workspace for itself."""
    archive, holds = found.archive, found.holds
    there = {str(past.record.id): past.record.state for past in archive.pasts}
    free = "`interlock run validate --repair` frees it"
    for name, holder in gone_holders(found):
        fault = Fault.MISSING_RUN if name == RUN else Fault.INVALID_CODON
        stands = f"is {there[holder]}" if holder in there else "is not there"
        message = f"the workspace is held for {name} {holder}, which {stands}; {free}"
        yield Finding(fault, archive.workspace, message)
    if holds.get(RUN) == _importer(found):
        message = "an import of its runs was interrupted; repeat it: `interlock run import`"
        yield Finding(Fault.MISSING_RUN, archive.workspace, message)
    for record in live(archive):
        name = RUN if record.machine == "run" else CODON
        if holds.get(name) == record.id:
            continue
        of, fault = ("run", Fault.MISSING_RUN) if name == RUN else ("codon", Fault.INVALID_CODON)
        held = f"is held for {holds[name]}" if name in holds else "is held for none"
        message = (
            f"the {of} is {record.state}, but the workspace {held}: another could begin beside it; "
            "end it with `interlock run stop --force`, or bring it back from an export"
        )
        yield Finding(fault, record.id, message)


def _unended(found: Inventory) -> Iterator[Finding]:
    """Yield codons that live where none can: beside another, or in a run that has ended."""
    archive = found.archive
    codons = [one for one in live(archive) if one.machine == "codon"]
    runs = {str(past.record.id): past.record for past in archive.runs}
    if len(codons) > 1:
        told = ", ".join(f"{one.id} ({one.state})" for one in codons)
        message = f"{len(codons)} codons are at work at once: {told}; stop all but the last one"
        yield Finding(Fault.INVALID_CODON, archive.workspace, message)
    for codon in codons:
        run = runs.get(str(codon.parent))
        if run is None or run.state == "running":
            continue
        over_ms = archive.exported_ms - run.since_ms
        if over_ms > CLEARED_MS:
            message = (
                f"it is {codon.state}, but its run is {run.state} for {over_ms // 1_000} s: who "
                "ends it is not at work; `interlock up` starts workers, which do"
            )
            yield Finding(Fault.INVALID_CODON, codon.id, message)


def _importer(found: Inventory) -> str:
    return f"{found.archive.workspace}/{HOLDER}"


def _folders(work_folder: Path) -> list[Path]:
    return (
        sorted(one for one in work_folder.iterdir() if one.is_dir()) if work_folder.is_dir() else []
    )
