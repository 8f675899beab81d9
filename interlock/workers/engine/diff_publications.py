"""Makes the differences of this computer's records, as they are published: bounded, no secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from pydantic import TypeAdapter

from interlock.git.diff import Diff, FileDiff
from interlock.kernel.record import Record
from interlock.kernel.store.publications import Fields, Publication
from interlock.workers.config import Settings
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.record_diff import DiffLimits, DiffSource, NoDiffError
from interlock.workers.engine.records import component
from interlock.workers.engine.work_secrets import secrets_of
from interlock.workers.redaction import Redaction

DIFF_KIND = "diff"
PERIOD_MS = 5_000
FIELDS_BYTES_MAX = 100_000  # with the names of the files
# The output of agents waits meanwhile, and counts as unanswered after 4 s: git may take less.
LIMITS = DiffLimits(bytes_max=60_000, within_s=3.0)

_FILES = TypeAdapter(tuple[FileDiff, ...])


def diff_publication(host: str, record_id: str, between: str) -> Publication:
    """Return what a computer is asked for. An id of a record contains no space."""
    return Publication(host, DIFF_KIND, f"{record_id} {between}".rstrip())


def published_diff(fields: Mapping[str, bytes]) -> Diff:
    """Return the difference that was published. Raises NoDiffError with why there is none."""
    if problem := fields["problem"].decode():
        raise NoDiffError(problem)
    return Diff(_FILES.validate_json(fields["files"]), int(fields["unnamed"]))


class DiffRedaction:
    """Hides the secrets of this computer in the differences that people see."""

    def __init__(self, settings: Settings) -> None:
        self._redaction = Redaction(_each_line(secrets_of(settings)))

    def of_diff(self, found: Diff) -> Diff:
        """Return a difference with asterisks in place of secrets."""
        hidden = self.of_text
        files = (
            replace(file, path=hidden(file.path), text=hidden(file.text)) for file in found.files
        )
        return replace(found, files=tuple(files))

    def of_text(self, text: str) -> str:
        """Return a text with asterisks in place of secrets."""
        return self._redaction.hidden(text.encode(errors="replace")).decode(errors="replace")


class DiffPublications:
    """The differences of records that can be compared on this computer.

    `find_source` returns the source of a record's difference, or None if it never has one.
    """

    def __init__(
        self, dispatch: Dispatch, find_source: Callable[[Record], DiffSource | None]
    ) -> None:
        self._dispatch, self._find_source = dispatch, find_source
        self._redaction = DiffRedaction(dispatch.settings)

    def read(self, name: str) -> Fields | None:
        """Return the difference of a record; None if another computer has it, or none.

        It is None for a damaged record, too. Nobody can ask for another folder: the record says
        which one it is.
        """
        record_id, _, between = name.partition(" ")
        dispatch = self._dispatch
        records = dispatch.views.records([record_id], readable_by=dispatch.machines)
        record = records.get(record_id)
        source = self._find_source(record) if record else None
        if not (record and source):
            return None
        if source.host(component(dispatch, "diff"), record) != dispatch.settings.host:
            return None
        try:
            found = source.compare(record, between, LIMITS)
        except NoDiffError as refusal:
            return _fields(Diff(()), self._redaction.of_text(str(refusal)))
        return _fields(self._redaction.of_diff(found))


def _each_line(secrets: Iterable[str]) -> set[str]:
    """Return the secrets, and each line of them: a difference marks every line."""
    return {part for secret in secrets for part in (secret, *secret.splitlines())}


def _fields(found: Diff, problem: str = "") -> Fields:
    """Return a difference as it is published. Files for which there is no room are only counted."""
    files, room, encoded = list(found.files), FIELDS_BYTES_MAX, list[bytes]()
    for file in files:
        each = _FILES.dump_json((file,))[1:-1]
        room -= len(each) + 1
        if room < 0:
            break
        encoded.append(each)
    unnamed = found.unnamed + len(files) - len(encoded)
    return {"problem": problem, "files": b"[%s]" % b",".join(encoded), "unnamed": unnamed}
