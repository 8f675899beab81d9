"""Says which record holds a name that another record of its family waits for, and since what error.

The store decides by the same rule: interlock/kernel/store/lua/part/holds_and_queues.lua.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from interlock.kernel.errors import KernelError
from interlock.kernel.record import Record, root_of
from interlock.workers.engine.dispatch import Dispatch

AT_WORK = ("owed", "leased", "lapsed", "quarantined")


@dataclass(frozen=True, slots=True)
class HeldName:
    """A name that is in the way of a record, and the record that holds it."""

    name: str
    holder: str


class Holds:
    """The names that are held in some families; those of a family are read once."""

    def __init__(self, dispatch: Dispatch) -> None:
        self.dispatch = dispatch
        self._held: dict[str, dict[str, str]] = {}
        self._failures: dict[str, str] = {}

    def in_the_way(self, record_id: str, names: Sequence[str]) -> HeldName | None:
        """Return what keeps a record from taking these names, or None."""
        if not names:
            return None
        root = root_of(record_id)
        if root not in self._held:
            self._held[root] = self.dispatch.views.holds(root)
        others = ((name, one) for name, one in self._held[root].items() if one != record_id)
        found = (HeldName(*other) for other in others if _overlap(other[0], names))
        return next(found, None)

    def sentence(self, held: HeldName) -> str:
        """Say who holds a name, and why the last attempt of that record failed, if one did."""
        failure = self._last_failure(held.holder)
        why = f"; its last attempt failed: {failure}" if failure else ""
        return f"it waits for {held.holder}, which holds {held.name}{why}"

    def _last_failure(self, holder: str) -> str:
        if holder not in self._failures:
            self._failures[holder] = self._read_failure(holder)
        return self._failures[holder]

    def _read_failure(self, holder: str) -> str:
        try:
            record = self.dispatch.views.record(holder)
        except KernelError:
            return ""
        found = self.dispatch.views.last_failures([record], states=AT_WORK)[holder]
        return next(iter(found.values()), "")


def why_held(dispatch: Dispatch, record: Record, names: Sequence[str]) -> str:
    """Return why a record cannot take these names now, or ''."""
    holds = Holds(dispatch)
    held = holds.in_the_way(record.id, names)
    return holds.sentence(held) if held else ""


def _overlap(held: str, names: Iterable[str]) -> bool:
    """Whether one of the names is held, or one above or below it, as folders are."""
    return any(
        held == name or held.startswith(f"{name}/") or name.startswith(f"{held}/") for name in names
    )
