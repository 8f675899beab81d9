"""A workspace with all its runs and codons as one value, and that as bytes; it opens no file.

As JSON: {"version": 1, "workspace", "exported_ms", "records": [{"id", "machine", "state",
"version", "entered", "schema", "since_ms", "created_ms", "priority", "birth", "data", "counters",
"log": [{"position", "at_ms", "event"} or {"position", "at_ms", "note", "detail"}]}], "chronicle":
[[position, record, version]], "digest"}. The workspace comes first, then its runs, then its codons.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from interlock.kernel.errors import CallError, KernelError
from interlock.kernel.event import Event, Note
from interlock.kernel.record import Record, Version, record_id
from interlock.kernel.restoration import Kept
from interlock.kernel.store import codec
from interlock.kernel.store.commands import Commit

FORMAT = 1
DIGEST = "digest"
PROBLEMS_MAX = 5
DEPTH_MAX = 2
Count = Annotated[int, Field(ge=0)]


class BrokenArchiveError(CallError):
    """These bytes are no archive that could be read. The message says what is wrong with them."""


@dataclass(frozen=True, slots=True)
class Past:
    """A record as it was stored, and what it can be brought back from."""

    record: Record
    kept: Kept


@dataclass(frozen=True, slots=True)
class Archive:
    """A workspace, its runs and their codons, each with its log, and the order of their commits.

    `exported_ms` is the store's time.
    """

    workspace: str
    exported_ms: int
    pasts: tuple[Past, ...]
    commits: tuple[Commit, ...]

    @property
    def root(self) -> Past | None:
        """The workspace itself."""
        return next(iter(self.at(0)), None)

    @property
    def runs(self) -> list[Past]:
        """The runs, the first one first."""
        return self.at(1)

    def codons(self, run: str) -> list[Past]:
        """Return the codons of a run, the first one first."""
        return [one for one in self.at(2) if one.record.parent == run]

    def at(self, depth: int) -> list[Past]:
        """Return the records of one level, in their order."""
        return [one for one in self.pasts if one.record.id.count("/") == depth]


def place_of(of: str) -> tuple[int, tuple[int, ...]]:
    """Return where a record stands among its family's: the level, then its numbers."""
    numbers = tuple(int(part) if part.isdecimal() else 0 for part in of.split("/")[1:])
    return len(numbers), numbers


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Line(_Shape):
    position: str
    at_ms: Count
    event: dict[str, JsonValue] | None = None
    note: str | None = None
    detail: dict[str, JsonValue] | None = None


class _Record(_Shape):
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
    log: list[_Line]


class _File(_Shape):
    version: Literal[1]
    workspace: str
    exported_ms: Count
    records: list[_Record]
    chronicle: list[tuple[str, str, int]]


def written(archive: Archive) -> bytes:
    """Return an archive as bytes, with a digest over all of it."""
    body: dict[str, Any] = {
        "version": FORMAT,
        "workspace": archive.workspace,
        "exported_ms": archive.exported_ms,
        "records": [_stored(one) for one in archive.pasts],
        "chronicle": [list(one) for one in archive.commits],
    }
    return _canonical({**body, DIGEST: _digest(body)}) + b"\n"


def read_archive(content: bytes) -> Archive:
    """Read an archive. Raises BrokenArchiveError, which says what is wrong with it."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as refusal:
        raise BrokenArchiveError(f"it is no JSON, or torn: {refusal}") from None
    if not isinstance(body, dict):
        raise BrokenArchiveError(f"it is {type(body).__name__}, not an object")
    if body.get("version") != FORMAT:
        told = body.get("version")
        raise BrokenArchiveError(f"it has version {told!r}; this Interlock reads {FORMAT}")
    digest = body.pop(DIGEST, None)
    if digest != _digest(body):
        raise BrokenArchiveError(f"its digest is {digest!r}, its content has {_digest(body)!r}")
    try:
        file = _File.model_validate_json(_canonical(body))
        pasts = tuple(_past(one) for one in file.records)
    except ValidationError as refusal:
        told = [f"{_where(one['loc'])}: {one['msg']}" for one in refusal.errors(include_url=False)]
        raise BrokenArchiveError("; ".join(told[:PROBLEMS_MAX])) from None
    if problem := next(_misplaced(file.workspace, pasts), ""):
        raise BrokenArchiveError(problem)
    return Archive(file.workspace, file.exported_ms, pasts, tuple(file.chronicle))


def _misplaced(workspace: str, pasts: Iterable[Past]) -> Iterator[str]:
    seen: list[str] = []
    for past in pasts:
        of = past.record.id
        if of.split("/")[0] != workspace or not all(map(str.isdecimal, of.split("/")[1:])):
            yield f"{of} is no record of {workspace}"
        if of.count("/") > DEPTH_MAX:
            yield f"{of} is below a codon, where nothing is"
        if seen and place_of(of) <= place_of(seen[-1]):
            yield f"{of} stands after {seen[-1]}"
        seen.append(of)
    if not seen or seen[0] != workspace:
        yield f"its first record is not {workspace}"


def _stored(past: Past) -> dict[str, Any]:
    record, kept = past.record, past.kept
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
        "birth": kept.birth,
        "data": record.data,
        "counters": dict(record.counters),
        "log": [_told(line) for line in kept.lines],
    }


def _told(line: Event | Note) -> dict[str, Any]:
    if isinstance(line, Event):
        event = json.loads(codec.event_bytes(line))
        return {"position": f"{line.version}-0", "at_ms": line.at_ms, "event": event}
    told = {"position": line.position, "at_ms": line.at_ms, "note": line.kind}
    return {**told, "detail": dict(line.detail)}


def _past(stored: _Record) -> Past:
    try:
        lines = tuple(_line(stored.id, line) for line in stored.log)
        record = Record(
            record_id(stored.id),
            stored.machine,
            stored.state,
            Version(stored.version),
            stored.data,
            entered=Version(stored.entered),
            schema=stored.schema_,
            since_ms=stored.since_ms,
            created_ms=stored.created_ms,
            priority=stored.priority,
            counters=stored.counters,
        )
    except (KernelError, LookupError, TypeError, ValueError, AttributeError) as refusal:
        raise BrokenArchiveError(f"{stored.id} cannot be read: {refusal!r}") from None
    birth = (stored.id, stored.machine, stored.birth, lines, stored.priority, stored.schema_)
    return Past(record, Kept(*birth))


def _line(of: str, line: _Line) -> Event | Note:
    pairs = {b"at": str(line.at_ms).encode()}
    if line.event is not None:
        pairs[b"event"] = _canonical(line.event)
    else:
        pairs |= {b"note": str(line.note).encode(), b"detail": _canonical(line.detail or {})}
    return codec.line_of(of, line.position.encode(), pairs)


def _canonical(value: Mapping[str, Any]) -> bytes:
    told = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return told.encode("utf-8", "surrogatepass")


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical(body)).hexdigest()


def _where(loc: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in loc)
