"""Reads everything that the store has of a workspace, even where it is damaged."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from interlock import KernelError, StoreError
from interlock.system.errors import UnknownRecordError
from interlock.system.records import LoggedRecord, Records
from interlock.systems.runs.archive.archive import Archive, ArchivedRecord, Commit, sort_key
from interlock.systems.runs.archive.consistency import IMPORT_ADVICE, MACHINES
from interlock.systems.runs.archive.findings import Fault, Finding
from interlock.systems.runs.machines.run.table import SELF as RUN

PAGE = 500
FROM_THE_START = "0-0"  # the position before all commits of a workspace
READS_MAX = 5
# How many numbers after the last known one are looked up: an index may have lost their records.
NUMBERS_AHEAD = 10


@dataclass(frozen=True, slots=True)
class Inventory:
    """The records of a workspace that can be read, findings about the others, and the last commit.

    `holds` maps each name that is held in the workspace to its holder; while its runs are imported,
    the `importer` holds that of a run. `changed` says that commits were made during every attempt
    to read it.
    """

    archive: Archive
    unreadable: tuple[Finding, ...]
    holds: dict[str, str]
    importer: str
    position: str
    changed: bool

    @property
    def is_complete(self) -> bool:
        """Whether every record could be read, and none changed while others were read."""
        return not self.unreadable and not self.changed


def inventory(records: Records, workspace: str, runs: Collection[str] | None = None) -> Inventory:
    """Read a workspace; if it changed while it was read, read it again.

    With the ids of some of its runs only its own record, those runs and their codons are read, and
    no commits: that takes no longer in a workspace with a thousand other runs.
    """
    before = _revision(records, workspace)
    for _ in range(READS_MAX):
        found = _read_once(records, workspace, before[0], runs)
        after = _revision(records, workspace)
        if after == before:
            return found
        before = after
    return replace(found, changed=True)


def is_known(records: Records, workspace: str) -> bool:
    """Return whether the store has anything of a workspace, even if its own record is lost."""
    commits = tuple(_commits(records, workspace))
    return bool(commits or records.views.creation_digests(_ids(records, workspace, commits, None)))


def _read_once(
    records: Records, workspace: str, position: str, runs: Collection[str] | None
) -> Inventory:
    commits = tuple(_commits(records, workspace)) if runs is None else ()
    archived: list[ArchivedRecord] = []
    unreadable: list[Finding] = []
    ids = _ids(records, workspace, commits, runs)
    digests = records.views.creation_digests(ids)
    for name in ids:
        try:
            archived.append(_read(records, name, digests.get(name, "")))
        except UnknownRecordError:
            fault = (Fault.CORRUPTED_DATA, Fault.MISSING_RUN, Fault.INVALID_CODON)[name.count("/")]
            message = f"its {MACHINES[name.count('/')]} was committed, but its record is gone"
            unreadable.append(Finding(fault, name, f"{message}; {IMPORT_ADVICE}"))
        except StoreError:
            # The store cannot serve now, which says nothing about the record.
            raise
        except (KernelError, LookupError, TypeError, ValueError, AssertionError) as refusal:
            message = f"it cannot be read: {type(refusal).__name__}: {refusal}; {IMPORT_ADVICE}"
            unreadable.append(Finding(Fault.CORRUPTED_DATA, name, message))
    archive = Archive(workspace, records.now_ms(), tuple(archived), commits)
    holds = records.views.holds(workspace)
    importer = records.restoration(RUN).holder(workspace)
    return Inventory(archive, tuple(unreadable), holds, importer, position, changed=False)


def _read(records: Records, record_id: str, creation_digest: str) -> ArchivedRecord:
    record = records.views.record(record_id)
    lines = tuple(records.views.history(record_id))
    kept = LoggedRecord(
        record_id, record.machine, creation_digest, lines, record.priority, record.schema
    )
    return ArchivedRecord(record, kept)


def _ids(
    records: Records,
    workspace: str,
    commits: tuple[Commit, ...],
    runs: Collection[str] | None,
) -> list[str]:
    """Return the ids from indexes, from commits and by number, in the order of an archive.

    With `runs` they are those of these runs and of their codons, by number alone.
    """
    found = {workspace, *(runs or ())} | {record_id for _, record_id, _ in commits}
    if runs is None:
        for name in MACHINES[1:]:
            found.update(records.views.ids(records.machines[name], root=workspace))
    while more := records.views.creation_digests(_unlisted_ids(workspace, found, runs)):
        found |= set(more)
    return sorted(found, key=sort_key)


def _unlisted_ids(workspace: str, found: set[str], runs: Collection[str] | None) -> list[str]:
    """Return the ids by number that were not found yet: gaps, and some after the last.

    With `runs` only codons of these runs are looked for.
    """
    highest = {workspace: 0} | {record_id: 0 for record_id in found if record_id.count("/") == 1}
    for record_id in found - {workspace}:
        parent, _, number = record_id.rpartition("/")
        if number.isdecimal():
            highest[parent] = max(highest.get(parent, 0), int(number))
    numbered = (
        f"{parent}/{n}"
        for parent, last in highest.items()
        if runs is None or parent in runs
        for n in range(1, last + NUMBERS_AHEAD)
    )
    return [record_id for record_id in numbered if record_id not in found]


def _commits(records: Records, workspace: str) -> Iterator[Commit]:
    after = FROM_THE_START
    while page := records.views.family_log(workspace, after, PAGE):
        yield from ((position, str(record), version) for position, record, version in page)
        after = page[-1][0]


def _revision(records: Records, workspace: str) -> tuple[str, int]:
    """Return the position of the last commit and the version; every commit changes one of them."""
    version = 0
    with suppress(KernelError, LookupError, TypeError, ValueError):
        version = int(records.views.record(workspace).version)
    return records.repairs.position(workspace), version
