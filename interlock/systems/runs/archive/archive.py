"""The archive of a workspace: its records with their logs as one value, and as bytes.

As JSON: {"version": 1, "workspace", "exported_ms", "records": [{"id", "machine", "state",
"version", "entered", "schema", "since_ms", "created_ms", "priority", "birth", "data", "counters",
"log": [{"position", "at_ms", "event"} or {"position", "at_ms", "note", "detail"}]}], "family_log":
[[position, record, version]], "digest"}. The workspace comes first, then the runs, then the codons.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from interlock import CallError, KernelError
from interlock.system.records import LoggedRecord
from interlock.system.tables import Record, problem_of, root_of

FORMAT = 1
DIGEST = "digest"
PROBLEMS_MAX = 5
DEPTH_MAX = 2
Count = Annotated[int, Field(ge=0)]
Commit = tuple[str, str, int]  # its position, the record, and the version of the record then


class BrokenArchiveError(CallError):
    """The bytes are not a readable archive. The message says what is wrong with them."""


@dataclass(frozen=True, slots=True)
class ArchivedRecord:
    """A record as it was stored, and the log from which it can be restored."""

    record: Record
    kept: LoggedRecord


@dataclass(frozen=True, slots=True)
class Archive:
    """A workspace, its runs and their codons, each with its log, and the order of their commits.

    `exported_ms` is the time of the store when they were read.
    """

    workspace: str
    exported_ms: int
    records: tuple[ArchivedRecord, ...]
    commits: tuple[Commit, ...]

    @property
    def root(self) -> ArchivedRecord | None:
        """The workspace; None where its record is missing."""
        return next(iter(self.at_depth(0)), None)

    @property
    def runs(self) -> list[ArchivedRecord]:
        """The runs, the oldest first."""
        return self.at_depth(1)

    def codons(self, run_id: str) -> list[ArchivedRecord]:
        """Return the codons of a run, the oldest first."""
        return [codon for codon in self.at_depth(2) if codon.record.parent == run_id]

    def at_depth(self, depth: int) -> list[ArchivedRecord]:
        """Return the records of one depth in their order: 0 the workspace, 1 runs, 2 codons."""
        return [archived for archived in self.records if archived.record.id.count("/") == depth]


def sort_key(record_id: str) -> tuple[int, tuple[int, ...]]:
    """Return the key that sorts the records of a workspace: the depth, then the numbers."""
    numbers = tuple(int(part) if part.isdecimal() else 0 for part in record_id.split("/")[1:])
    return len(numbers), numbers


class _ArchivePart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _StoredLine(_ArchivePart):
    position: str
    at_ms: Count
    event: dict[str, JsonValue] | None = None
    note: str | None = None
    detail: dict[str, JsonValue] | None = None


class _StoredRecord(_ArchivePart):
    id: str
    machine: Literal["workspace", "run", "codon"]
    state: str
    version: Annotated[int, Field(ge=1)]
    entered: Annotated[int, Field(ge=1)]
    schema_: Annotated[int, Field(ge=1, alias="schema")]
    since_ms: Count
    created_ms: Count
    priority: int
    birth: str
    data: dict[str, JsonValue]
    counters: dict[str, int]
    log: list[_StoredLine]


class _ArchiveFile(_ArchivePart):
    version: Literal[1]
    workspace: str
    exported_ms: Count
    records: list[_StoredRecord]
    family_log: list[tuple[str, str, int]]


def archive_bytes(archive: Archive) -> bytes:
    """Return an archive as bytes, with a digest of its whole content."""
    body: dict[str, Any] = {
        "version": FORMAT,
        "workspace": archive.workspace,
        "exported_ms": archive.exported_ms,
        "records": [_stored(archived) for archived in archive.records],
        "family_log": [list(commit) for commit in archive.commits],
    }
    return _canonical({**body, DIGEST: _digest(body)}) + b"\n"


def read_archive(content: bytes) -> Archive:
    """Read an archive. Raises BrokenArchiveError, which says what is wrong with it."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as refusal:
        raise BrokenArchiveError(f"it is not complete JSON: {refusal}") from None
    if not isinstance(body, dict):
        raise BrokenArchiveError(f"it is {type(body).__name__}, not an object")
    if body.get("version") != FORMAT:
        version = body.get("version")
        raise BrokenArchiveError(f"it has version {version!r}; this Interlock reads {FORMAT}")
    digest = body.pop(DIGEST, None)
    if digest != _digest(body):
        raise BrokenArchiveError(
            f"its digest is {digest!r}, but that of its content is {_digest(body)!r}"
        )
    try:
        file = _ArchiveFile.model_validate_json(_canonical(body))
        records = tuple(_archived(stored) for stored in file.records)
    except ValidationError as refusal:
        errors = refusal.errors(include_url=False)[:PROBLEMS_MAX]
        problems = [problem_of(error) for error in errors]
        raise BrokenArchiveError("; ".join(problems)) from None
    if problem := next(_misplaced(file.workspace, records), ""):
        raise BrokenArchiveError(problem)
    return Archive(file.workspace, file.exported_ms, records, tuple(file.family_log))


def state_in(content: bytes) -> dict[str, Any] | None:
    """Return the object of a state file, or None where these bytes are none."""
    try:
        state = json.loads(content)
    except (ValueError, RecursionError):
        return None
    has_runs = isinstance(state, dict) and isinstance(state.get("runs"), list)
    return state if has_runs else None


def is_archive(content: bytes) -> bool:
    """Return whether these bytes are a complete archive."""
    try:
        read_archive(content)
    except BrokenArchiveError:
        return False
    return True


def _misplaced(workspace: str, records: Iterable[ArchivedRecord]) -> Iterator[str]:
    seen: list[str] = []
    for archived in records:
        name = archived.record.id
        if root_of(name) != workspace or not all(map(str.isdecimal, name.split("/")[1:])):
            yield f"{name} is no record of {workspace}"
        if name.count("/") > DEPTH_MAX:
            yield f"{name} is the id of a child of a codon, but codons have no children"
        if seen and sort_key(name) <= sort_key(seen[-1]):
            yield f"{name} comes after {seen[-1]}, but belongs before it"
        seen.append(name)
    if not seen or seen[0] != workspace:
        yield f"its first record is not {workspace}"


def _stored(archived: ArchivedRecord) -> dict[str, Any]:
    record, kept = archived.record, archived.kept
    return {
        "id": record.id,
        "machine": record.machine,
        "state": record.state,
        "version": record.version,
        "entered": record.entered,
        "schema": record.schema,
        "since_ms": record.since_ms,
        "created_ms": record.created_ms,
        "priority": record.priority,
        "birth": kept.creation_digest,
        "data": record.data,
        "counters": dict(record.counters),
        "log": kept.log,
    }


def _archived(stored: _StoredRecord) -> ArchivedRecord:
    try:
        fields = stored.model_dump(by_alias=True)
        birth, log = fields.pop("birth"), fields.pop("log")
        kept = LoggedRecord.read(
            stored.id, stored.machine, birth, log, stored.priority, stored.schema_
        )
        return ArchivedRecord(Record(**fields), kept)
    except (KernelError, LookupError, TypeError, ValueError, AttributeError) as refusal:
        raise BrokenArchiveError(f"{stored.id} cannot be read: {refusal!r}") from None


def _canonical(value: Mapping[str, Any]) -> bytes:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical(body)).hexdigest()
