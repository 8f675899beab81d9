"""The sentence of each line of a log: that of its system's timeline, or that of the row."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from interlock.kernel.errors import StoreError
from interlock.kernel.event import FURTHER_WORDS, Event, Note
from interlock.kernel.machine import Machine
from interlock.kernel.reason import moved
from interlock.kernel.shown_stage import as_words
from interlock.kernel.table import PERSON
from interlock.kernel.trigger import CREATED
from interlock.workers.client import Client
from interlock.workers.console.system_pages import pages_of
from interlock.workers.console.timeline import FAILURES, kinds_of
from interlock.workers.terminal.page import Part, Section, Sentence, Table, Tone
from interlock.workers.text import value_words

log = logging.getLogger(__name__)

WORDS = ("reason", *FURTHER_WORDS)  # the fields of a payload that its words are made of
VALUES = "values"  # the field with what a step or a person sets of a workflow's data


def line_sentences(
    client: Client, machine: Machine, newest: Sequence[Event | Note]
) -> dict[str, Section]:
    """Return what the lines of a log say, by their positions, from its end, the newest first."""
    lines = newest[::-1]
    found = {line.position: each for line, each in _plainly(machine, lines)}
    for page in pages_of(client).values():
        if timeline := page.timelines.get(machine.name):
            try:
                found |= timeline(lines)
            except StoreError:
                raise
            except Exception:
                # The log is still there, in the sentences of its rows.
                log.exception("the timeline of %s could not be shown", machine.name)
    return {
        position: replace(each, parts=[*map(_in_words, each.parts)])
        for position, each in found.items()
    }


def _in_words(part: Part) -> Part:
    """Return a part of a line with its names and values as people say them."""
    match part:
        case Mapping():
            return {as_words(name): value_words(value) for name, value in part.items()}
        case Table(rows=rows):
            said = [(as_words(str(name)), *map(value_words, values)) for name, *values in rows]
            return replace(part, rows=said)
        case Sentence(text=value) if not isinstance(value, str):
            return replace(part, text=value_words(value))
    return part


def _plainly(
    machine: Machine, lines: Sequence[Event | Note]
) -> Iterator[tuple[Event | Note, Section]]:
    """Yield each event with its sentence, the words that came with it, and what a person set."""
    known: dict[str, Any] = {}
    for line in lines:
        if not isinstance(line, Event):
            continue
        says = line.says or moved(line.trigger, line.source, line.target)
        tone: Tone = "bad" if FAILURES in kinds_of(line) else ""
        parts: list[Part] = [Sentence(words, tone, is_quoted=True) for words in line.words]
        values = line.payload.get(VALUES)
        found = dict(values) if isinstance(values, Mapping) else {}
        if line.trigger == CREATED:
            known |= line.payload
        elif _is_of_person(machine, line):
            found |= {
                name: value
                for name, value in line.payload.items()
                if name not in (*WORDS, VALUES) and value not in (None, "", [], {})
            }
        parts += _set(found, known)
        known |= found
        yield line, Section(f"{says[:1].upper()}{says[1:]}", parts)


def _is_of_person(machine: Machine, line: Event) -> bool:
    """Whether an event was fired by a person, and not by a worker."""
    if line.cause.actor in machine.effects:
        return False
    return any(PERSON in row.by for row in machine.rows(line.source, line.trigger))


def _set(found: Mapping[str, Any], known: Mapping[str, Any]) -> list[Part]:
    """Return the values that a line sets, with those before them where these are known."""
    if not found:
        return []
    if not any(name in known for name in found):
        return [found]
    rows = [(name, known.get(name), value) for name, value in found.items()]
    return [Table(("", "Before", "After"), rows)]
