"""The difference of a record as people see it: made here, or by a worker of its computer."""

from __future__ import annotations

from interlock.git.diff import Diff
from interlock.kernel.record import Record
from interlock.kernel.store.publications import PublicationLook, Publications
from interlock.workers.client import Client
from interlock.workers.engine.dispatch import COMPARISONS_MAX, Dispatch
from interlock.workers.engine.record_diff import (
    ANSWER_MS,
    FRESH_MS,
    DiffLimits,
    DiffSource,
    DiffState,
    NoDiffError,
    RecordDiff,
)
from interlock.workers.supervision.diff_publications import (
    DiffRedaction,
    diff_publication,
    published_diff,
)
from interlock.workers.text import age

LIMITS = DiffLimits(bytes_max=200_000, within_s=10.0)
BETWEEN_LENGTH_MAX = 200  # two ids of commits have 130 characters
_BUSY = (
    f"This process compares the files of {COMPARISONS_MAX} others now. Ask again in a moment, or "
    "load the page again."
)
_WAITING = (DiffState.ASKED, DiffState.UNANSWERED)


def look_at_diff(
    client: Client,
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
    dispatch, here = client.dispatch, client.settings.host
    host = source.host(client.records, record) or here
    if host != here:
        return ask_for_diff(dispatch, host, record.id, between)
    now_ms, redaction = dispatch.views.now_ms(), DiffRedaction(dispatch.settings)
    if not dispatch.comparisons.acquire(blocking=False):
        return RecordDiff(DiffState.ASKED, _BUSY, host, now_ms)
    try:
        found = redaction.of_diff(source.read(record, between, limits or LIMITS))
    except NoDiffError as refusal:
        why = redaction.of_text(f"{refusal}.")
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
        detail = f"The worker on {host} answers: {problem}." if problem else ""
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
