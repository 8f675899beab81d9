"""Parts of pages that commands and pages of several systems have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from interlock.git.diff import Diff
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import Record
from interlock.kernel.shown_stage import as_words, shown_stage, shown_state
from interlock.workers.terminal.page import (
    Line,
    LongText,
    MarkedText,
    NamedCells,
    Page,
    Part,
    RecordLink,
    Sentence,
    StateName,
    StillPart,
    Table,
)
from interlock.workers.terminal.screen import short, state_text
from interlock.workers.text import visible_line


def state_name(machine: str, state: str, *, asks: bool | None = None) -> StateName:
    """Return a state of a machine as people see it, whether or not the machine is still there.

    `asks` says whether the record in it waits for a person, as `shown_state` takes it.
    """
    if machine not in MACHINES:
        return StateName(as_words(state), None)
    found = shown_state(MACHINES[machine], state, asks=asks)
    return StateName(found.words, found.meaning)


def state_of(record: Record) -> StateName:
    """Return the state of a record as people see it."""
    asks = False
    if machine := MACHINES.get(record.machine):
        asks = shown_stage(machine, record.state).waits_for_person(record.data)
    return state_name(record.machine, record.state, asks=asks)


def text_of_state(machine: str, state: str, *, asks: bool | None = None) -> Text:
    """Return a state of a machine as a terminal shows it."""
    found = state_name(machine, state, asks=asks)
    return state_text(visible_line(found.words), found.meaning)


def submissions(rows: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    """Yield what became of each submission."""
    known = {True: MarkedText("known already", "good"), False: MarkedText("accepted", "good")}
    refused = MarkedText("refused", "bad")
    found = [
        (RecordLink(row["id"] or "-"), refused if row["error"] else known[bool(row["replayed"])])
        for row in rows
    ]
    yield Table(("Id", "Answer"), found)


def record_state(value: Mapping[str, Any], record: Record) -> Iterator[Part]:
    """Yield the state of a record, and what follows by itself."""
    yield Line((RecordLink(value["id"]), " is ", state_of(record)))
    if value.get("outlook"):
        yield Sentence(value["outlook"])


def record_answer(value: Mapping[str, Any]) -> list[Line]:
    """Return a record's id and the answer to a command on it."""
    return [Line((RecordLink(value["id"]), f": {value['answer']}"))]


def fields(value: Mapping[str, Any]) -> list[NamedCells]:
    """Return each field of a value."""
    return [NamedCells({name: short(field) for name, field in value.items()})]


def replays(rows: Iterable[Mapping[str, Any]], name: str, done: str, empty: str) -> Page:
    """Return of each record whether it was replayed, as `done` says that, and why not."""
    answers = {True: MarkedText(done, "good"), False: MarkedText("refused", "bad")}
    found = [(RecordLink(row["id"]), answers[bool(row["replayed"])], row["reason"]) for row in rows]
    return [Table((name, "Answer", "Why"), found, empty)]


def diff_parts(found: Diff) -> Iterator[StillPart]:
    """Yield a difference file by file, each with what is missing of it."""
    if not found.files:
        yield Sentence("Nothing is changed.")
    for file in found.files:
        missing = f" ({file.missing})" if file.missing else ""
        yield LongText(file.text, f"{file.kind} {file.path}{missing}", file.path)
    if found.unnamed:
        yield Sentence(f"{found.unnamed} more files are changed.")
