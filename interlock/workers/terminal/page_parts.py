"""Parts of pages that commands and pages of several systems have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from interlock.git.diff import Diff
from interlock.kernel.record import Record
from interlock.workers.terminal.page import Link, Part, Sentence, StateName, Table, Verbatim
from interlock.workers.text import LINE_LENGTH_MAX, one_line


def record_state(value: Mapping[str, Any], record: Record) -> Iterator[Part]:
    """Yield the state of a record, and what follows by itself."""
    yield Sentence((Link(value["id"]), " is ", StateName.of(record)))
    if value.get("outlook"):
        yield Sentence(value["outlook"])


def plain_answer(value: Any) -> Iterable[Part]:
    """Return what became of each submission, the answer to a command on a record, or each field."""
    if isinstance(value, list):
        return _submissions(value)
    if "id" in value and "answer" in value:
        return [Sentence((Link(value["id"]), f": {value['answer']}"))]
    return fields(value)


def fields(value: Mapping[str, Any]) -> list[Mapping[str, object]]:
    """Return each field of a value."""
    return [{name: one_line(field, length_max=LINE_LENGTH_MAX) for name, field in value.items()}]


def _submissions(rows: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    """Yield what became of each submission."""
    known = {True: Sentence("known already", "good"), False: Sentence("accepted", "good")}
    refused = Sentence("refused", "bad")
    found = [
        (Link(row["id"] or "-"), refused if row["error"] else known[bool(row["replayed"])])
        for row in rows
    ]
    yield Table(("Id", "Answer"), found)


def diff_parts(found: Diff) -> Iterator[Part]:
    """Yield a difference file by file, each with what is missing of it."""
    if not found.files:
        yield Sentence("Nothing is changed.")
    for file in found.files:
        missing = f" ({file.missing})" if file.missing else ""
        yield Verbatim(file.text, f"{file.kind} {file.path}{missing}", file.path)
    if found.unnamed:
        yield Sentence(f"{found.unnamed} more files are changed.")
