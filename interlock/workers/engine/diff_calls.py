"""The difference of a record as people see it: made here, or by a worker of its computer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping

from interlock.git.diff import Diff
from interlock.kernel.errors import CallError
from interlock.kernel.machine import Machine
from interlock.kernel.question import as_sentence
from interlock.kernel.record import Record
from interlock.kernel.store.publications import PublicationLook, Publications
from interlock.workers.engine.diff_publications import (
    DiffRedaction,
    diff_publication,
    published_diff,
)
from interlock.workers.engine.dispatch import COMPARISONS_MAX, Dispatch
from interlock.workers.engine.own_systems import added_systems
from interlock.workers.engine.record_diff import (
    ANSWER_MS,
    FRESH_MS,
    DiffLimits,
    DiffSource,
    DiffState,
    NoDiffError,
    RecordDiff,
    awaited_diff,
)
from interlock.workers.engine.records import component
from interlock.workers.engine.system import load
from interlock.workers.text import age

LIMITS = DiffLimits(bytes_max=200_000, within_s=10.0)
CARD_LIMITS = DiffLimits(bytes_max=60_000, within_s=5.0)  # beside a card
BETWEEN_LENGTH_MAX = 200  # two ids of commits have 130 characters
_BUSY = (
    f"This process compares the files of {COMPARISONS_MAX} others now. Ask again in a moment, or "
    "load the page again."
)
_WAITING = (DiffState.ASKED, DiffState.UNANSWERED)


class DiffCalls(ABC):
    """The part of `Client` that reads differences. `HttpClient` has the same call."""

    dispatch: Dispatch
    machines: Mapping[str, Machine]

    @abstractmethod
    def show(self, record_id: str) -> Record:
        """Return a record as it is now."""

    def diff(self, record: str, *, between: str = "") -> RecordDiff:
        """Return what the work on a record changes, or how two of its checkpoints differ.

        It is made here within the limits of a page, or awaited from its computer. Raises
        NoDiffError, and CallError if its machine has none or the caller may not see it.
        """
        shown = self.show(record)
        source = diff_source(self.machines, shown)
        return awaited_diff(lambda: look_at_diff(self.dispatch, shown, source, between))


def find_diff_source(record: Record) -> DiffSource | None:
    """Return where the difference of a record is, or None if its machine has none."""
    rows = (each.diffs.get(record.machine) for each in added_systems().values())
    named = next(filter(None, rows), None)
    return load(named) if named else None


def diff_source(machines: Collection[str], record: Record) -> DiffSource:
    """Return where the difference of a record is, for callers who may see these machines.

    Raises CallError if its machine has none, or if they may not see all that it is about.
    """
    source = find_diff_source(record)
    if source is None:
        known = ", ".join(sorted(name for each in added_systems().values() for name in each.diffs))
        raise CallError(
            f"{record.id} is a {record.machine}; only records of these machines have a difference "
            f"of files: {known}"
        )
    if hidden := sorted(set(source.machines) - set(machines)):
        raise CallError(
            f"the difference and checkpoints of {record.id} are shown only to callers who may also "
            f"see the records of: {', '.join(hidden)}"
        )
    return source


def look_at_diff(
    dispatch: Dispatch,
    record: Record,
    source: DiffSource,
    between: str = "",
    limits: DiffLimits | None = None,
) -> RecordDiff:
    """Return the difference of a record, made here within limits, or ask its computer for it.

    Without limits, those of a page apply.
    Secrets are asterisks in it, wherever it is made.
    While this process compares COMPARISONS_MAX others, it is not made, and the state is `asked`.
    Raises NoDiffError if `between` is too long.
    """
    if len(between) > BETWEEN_LENGTH_MAX:
        raise NoDiffError(f"what is compared has more than {BETWEEN_LENGTH_MAX} characters")
    here = dispatch.settings.host
    host = source.host(component(dispatch, "diff"), record) or here
    if host != here:
        return ask_for_diff(dispatch, host, record.id, between)
    now_ms, redaction = dispatch.views.now_ms(), DiffRedaction(dispatch.settings)
    if not dispatch.comparisons.acquire(blocking=False):
        return RecordDiff(DiffState.ASKED, _BUSY, host, now_ms)
    try:
        found = redaction.of_diff(source.compare(record, between, limits or LIMITS))
    except NoDiffError as refusal:
        why = redaction.of_text(as_sentence(str(refusal)))
        return RecordDiff(DiffState.NONE, why, host, now_ms, now_ms)
    finally:
        dispatch.comparisons.release()
    return RecordDiff(DiffState.KNOWN, "", host, now_ms, now_ms, found.files, found.unnamed)


def ask_for_diff(dispatch: Dispatch, host: str, record_id: str, between: str) -> RecordDiff:
    """Ask another computer for the difference of a record; return what it has answered by now."""
    publication = diff_publication(host, record_id, between)
    [look] = Publications(dispatch.client, dispatch.keys).ask([publication])
    return _answered(host, look)


def is_final(found: RecordDiff) -> bool:
    """Whether nothing more is awaited of the computer that compares."""
    return found.state not in _WAITING


def _answered(host: str, look: PublicationLook) -> RecordDiff:
    """Return what the worker of another computer has answered until now."""
    fields = look.answer.fields if look.answer else None
    compared_ms = look.answer.at_ms if look.answer else None
    found, problem = Diff(()), ""
    try:
        if fields is not None:
            found = published_diff(fields)
        elif look.answer:
            problem = "it has no difference of this record"
    except NoDiffError as refusal:
        problem = str(refusal)
    if compared_ms is not None and look.now_ms - compared_ms <= FRESH_MS:
        state = DiffState.NONE if problem else DiffState.KNOWN
        detail = f"The worker on {host} answers: {as_sentence(problem)}" if problem else ""
    elif look.silent_ms > ANSWER_MS:
        state = DiffState.UNANSWERED
        detail = (
            f"The worker on {host}, where the files are, has not answered for "
            f"{age(look.silent_ms)}. `interlock doctor` says which workers run."
        )
    else:
        state = DiffState.ASKED
        detail = (
            f"The worker on {host}, where the files are, has been asked for it just now; this takes"
            " a moment. If it does not appear by itself, load the page again."
        ) + (" Until then, this is what it answered before." if fields else "")
    return RecordDiff(state, detail, host, look.now_ms, compared_ms, found.files, found.unnamed)
