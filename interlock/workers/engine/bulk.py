"""Says of each of several records what a verb did to it, or would do, or why it stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from interlock.kernel.errors import (
    CallError,
    IllegalTransitionError,
    KernelError,
    UnknownRecordError,
)
from interlock.kernel.machine import Machine
from interlock.kernel.record import Record
from interlock.kernel.table import Terminal
from interlock.workers.engine.card import may_cancel
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.record_filter import Wanted

BulkVerb = Literal["retry", "pause", "resume", "cancel"]
# Why a record stays as it is: by the verb, and by what the store answers to it.
UNCHANGED: Mapping[tuple[str, str], str] = {
    ("pause", "ended"): "it has ended",
    ("pause", "already"): "it is paused already",
    ("resume", "already"): "it is not paused",
    ("retry", "nothing"): "none of its effects waits for its next attempt, or for a person",
}


@dataclass(frozen=True, slots=True)
class BulkItem:
    """What a verb did to one record. `why_not` says why the record stays as it is, or is ''.

    `answer` is what was done, and the state of the record where it was cancelled, or where nothing
    was to be changed. `error` is the one with which the verb was refused.
    """

    id: str
    answer: str = ""
    why_not: str = ""
    error: KernelError | None = None


@dataclass(frozen=True, slots=True)
class BulkPage:
    """An item for each record of a page, and the cursor of the page after it, '' at the end."""

    items: Sequence[BulkItem]
    cursor: str


def check_bounded(wanted: Wanted) -> None:
    """Raise CallError if no condition is given, because the verb would be about every record."""
    if not any(wanted.values()):
        raise CallError("name a condition of a list, such as a machine: not every record")


def unchanged(verb: BulkVerb, answer: str) -> str:
    """Return why a record stays as it is, by what the store answers to a verb; '' if it changes."""
    return UNCHANGED.get((verb, answer), "")


@dataclass(frozen=True, slots=True)
class BulkAct:
    """A verb for several records of some machines. `change` does it to one, and says what was done.

    A record that is damaged, or of none of these machines, has the error UnknownRecordError.
    """

    dispatch: Dispatch
    machines: Mapping[str, Machine]
    verb: BulkVerb
    change: Callable[..., str]

    def each(
        self, ids: Sequence[str], *, reason: str = "", dry_run: bool = False
    ) -> list[BulkItem]:
        """Change each record by itself, or with `dry_run` say what would stay as it is and why."""
        now_ms = self.dispatch.views.now_ms() if dry_run else 0
        found = self.dispatch.views.records(ids, readable_by=self.machines)
        items = []
        for one in ids:
            if one not in found:
                items.append(BulkItem(one, error=UnknownRecordError(one)))
            elif dry_run:
                items.append(self._planned(found[one], now_ms))
            else:
                items.append(self._done(one, reason))
        return items

    def _done(self, record_id: str, reason: str) -> BulkItem:
        try:
            answer = self.change(record_id, reason=reason)
        except KernelError as refusal:
            return BulkItem(record_id, error=refusal)
        return BulkItem(record_id, answer, unchanged(self.verb, answer))

    def _planned(self, record: Record, now_ms: int) -> BulkItem:
        """Return the state of a record, and why the verb would leave it as it is now, or ''."""
        machine, status = self.machines[record.machine], ""
        match self.verb:
            case "cancel":
                if not may_cancel(machine, record.state):
                    legal = machine.legal(record.state)
                    refusal = IllegalTransitionError(machine.name, record.state, self.verb, legal)
                    return BulkItem(record.id, record.state, str(refusal))
            case "pause":
                has_ended = isinstance(machine.stage(record.state), Terminal)
                status = "ended" if has_ended else "already" if record.paused else ""
            case "resume":
                status = "" if record.paused else "already"
            case "retry":
                waits = (
                    each.state == "owed" and (each.asks_person or now_ms < each.not_before)
                    for each in record.entries
                )
                may = record.quarantined or (not record.paused and any(waits))
                status = "" if may else "nothing"
        return BulkItem(record.id, record.state, unchanged(self.verb, status))
