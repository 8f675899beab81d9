"""Reads all that the store has of a workspace, however damaged it is; it changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from interlock.kernel.errors import KernelError, UnknownRecordError
from interlock.kernel.restoration import Kept
from interlock.kernel.store.commands import Commit
from interlock.kernel.store.repairs import NOTHING_YET, Repairs
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.runs.archive.archive import Archive, Past, place_of
from interlock.workers.runs.archive.consistency import FROM_AN_EXPORT, MACHINES
from interlock.workers.runs.archive.findings import Fault, Finding

PAGE = 500
LOOKS_MAX = 5
AHEAD = 10


@dataclass(frozen=True, slots=True)
class Inventory:
    """What could be read of a workspace, what could not, and up to which commit.

    `holds` are the names that are held in it, and by whom. `moved`: it never stood still meanwhile.
    """

    archive: Archive
    unread: tuple[Finding, ...]
    holds: dict[str, str]
    position: str
    moved: bool

    @property
    def whole(self) -> bool:
        """Whether every record could be read, and none moved while others were read."""
        return not self.unread and not self.moved


def inventory(dispatch: Dispatch, workspace: str) -> Inventory:
    """Read a workspace, again while it moves."""
    repairs = Repairs(dispatch.client, dispatch.keys)
    before = _stands(dispatch, repairs, workspace)
    for look in range(LOOKS_MAX):
        found = _look(dispatch, workspace, before[0], moved=look == LOOKS_MAX - 1)
        after = _stands(dispatch, repairs, workspace)
        if after == before:
            return Inventory(found.archive, found.unread, found.holds, found.position, moved=False)
        before = after
    return found


def is_known(dispatch: Dispatch, workspace: str) -> bool:
    """Whether anything is left of a workspace: one that lost its own record is no new one."""
    commits = tuple(_commits(dispatch, workspace))
    return bool(commits or dispatch.views.births(_ids(dispatch, workspace, commits)))


def _look(dispatch: Dispatch, workspace: str, position: str, *, moved: bool) -> Inventory:
    commits = tuple(_commits(dispatch, workspace))
    pasts: list[Past] = []
    unread: list[Finding] = []
    ids = _ids(dispatch, workspace, commits)
    births = dispatch.views.births(ids)
    for of in ids:
        try:
            pasts.append(_past(dispatch, of, births.get(of, "")))
        except UnknownRecordError:
            fault = (Fault.CORRUPTED_DATA, Fault.MISSING_RUN, Fault.INVALID_CODON)[of.count("/")]
            message = f"its {MACHINES[of.count('/')]} was committed here and is gone"
            unread.append(Finding(fault, of, f"{message}; {FROM_AN_EXPORT}"))
        except (KernelError, LookupError, TypeError, ValueError, AssertionError) as refusal:
            message = f"it cannot be read: {type(refusal).__name__}: {refusal}; {FROM_AN_EXPORT}"
            unread.append(Finding(Fault.CORRUPTED_DATA, of, message))
    archive = Archive(workspace, dispatch.views.now_ms(), tuple(pasts), commits)
    return Inventory(archive, tuple(unread), dispatch.views.holds(workspace), position, moved)


def _past(dispatch: Dispatch, of: str, birth: str) -> Past:
    record = dispatch.views.record(of)
    lines = tuple(dispatch.views.history(of))
    kept = Kept(of, record.machine, birth, lines, record.priority, record.schema)
    return Past(record, kept)


def _ids(dispatch: Dispatch, workspace: str, commits: tuple[Commit, ...]) -> list[str]:
    """Return every id that a list, the chronicle or a number names, in the order of an archive."""
    found = {workspace} | {of for _, of, _ in commits}
    for name in MACHINES[1:]:
        found |= dispatch.views.family(dispatch.machines[name], workspace, PAGE)
    while more := dispatch.views.births(_beside(workspace, found)):
        found |= set(more)
    return sorted(found, key=place_of)


def _beside(workspace: str, found: set[str]) -> list[str]:
    """Return the numbers that are left out, and some that come after: no list may name them."""
    highest = {workspace: 0} | {one: 0 for one in found if one.count("/") == 1}
    for one in found - {workspace}:
        above, _, number = one.rpartition("/")
        if number.isdecimal():
            highest[above] = max(highest.get(above, 0), int(number))
    numbered = (f"{above}/{n}" for above, last in highest.items() for n in range(1, last + AHEAD))
    return [one for one in numbered if one not in found]


def _commits(dispatch: Dispatch, workspace: str) -> Iterator[Commit]:
    after = NOTHING_YET
    while page := dispatch.views.chronicle(workspace, after, PAGE):
        yield from ((at, str(of), version) for at, of, version in page)
        after = page[-1][0]


def _stands(dispatch: Dispatch, repairs: Repairs, workspace: str) -> tuple[str, int]:
    """Return what changes with every commit of a workspace's family."""
    try:
        version = dispatch.views.record(workspace).version
    except (KernelError, LookupError, TypeError, ValueError):
        return repairs.position(workspace), 0
    return repairs.position(workspace), version
