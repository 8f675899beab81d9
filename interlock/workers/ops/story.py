"""What was asked with a record, and what came of it: the first that its page and `show` tell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interlock.kernel.event import Event
from interlock.kernel.machine import Machine
from interlock.kernel.question import as_sentence
from interlock.kernel.record import Record
from interlock.kernel.shown_stage import as_words, shown_stage
from interlock.kernel.table import Terminal, Waiting
from interlock.workers.client import Client
from interlock.workers.engine.system import load
from interlock.workers.systems import systems, told_fields
from interlock.workers.terminal.page import NamedCells, Part, Quote, Section, Sentence
from interlock.workers.text import value_words, visible_json

OPEN = "Nothing yet: it has not ended."
LINES_READ = 30  # of the end of a log, to find who decided last
CODE = re.compile(r"(?=.*\d)[0-9a-fA-F-]{16,}(@\S+)?")  # ids and hashes, which only programs read
TECHNICAL = "Technical values"


def asked(record: Record) -> Iterator[Section]:
    """Yield what was asked with a record, where its fields say that."""
    if fields := told_fields(record)[0]:
        yield Section("What was asked", list(_parts(fields)))


def outcome(client: Client, record: Record) -> Section:
    """Return what came of a record, and how it ended."""
    machine = client.dispatch.machines[record.machine]
    stage = shown_stage(machine, record.state)
    parts = list(_parts(told_fields(record)[1]))
    if isinstance(stage, Terminal):
        for event in client.dispatch.views.events([(record.id, record.entered)]):
            actor = event.cause.actor
            by = "a worker" if actor in machine.effects else actor
            said = as_sentence(f"It ended: {event.because}, by {by}")
            decided = _decided(client, record, machine)
            parts.append(Sentence(f"{said} {decided}".rstrip(), "soft"))
    return Section("What came of it", parts or [Sentence(OPEN, "soft")])


def _decided(client: Client, record: Record, machine: Machine) -> str:
    """Say who decided last, and what; '' if nobody did, or if the decision was the end itself."""
    for line in client.dispatch.views.latest([record.id], LINES_READ)[record.id]:
        if not isinstance(line, Event) or not line.source:
            continue
        stage, by = shown_stage(machine, line.source), line.cause.actor
        choices = {to: name for name, to in stage.affordances} if isinstance(stage, Waiting) else {}
        if line.trigger in choices and by not in machine.effects:
            if line.version == record.entered:
                return ""
            return f"Decided by {by}: {as_words(choices[line.trigger])}."
    return ""


def unsaid(details: Mapping[str, str], record: Record) -> dict[str, str]:
    """Return the details of a record without those that its title or its story has already."""
    told = [record.title, *(value for fields in told_fields(record) for value in fields.values())]
    return {name: text for name, text in details.items() if text not in told}


def panels(client: Client, record: Record) -> Sequence[Section]:
    """Return what the page of a record shows of its system besides, to who may see all of that."""
    for system in systems():
        page = load(system.page) if system.page else None
        if page and record.machine in page.panels:
            sections: Sequence[Section] = page.panels[record.machine](client, record)
            return sections
    return ()


def _parts(fields: Mapping[str, Any]) -> Iterator[Part]:
    """Yield texts as they were written, and below them what has fields of its own."""
    for name, value in fields.items():
        if isinstance(value, Mapping):
            said = {as_words(key): _text(each) for key, each in value.items() if each}
            technical = {key: each for key, each in said.items() if CODE.fullmatch(each)}
            yield NamedCells({key: each for key, each in said.items() if key not in technical})
            if technical:
                yield NamedCells(technical, TECHNICAL)
        elif len(fields) == 1 and isinstance(value, str):
            yield Quote(value)
        else:
            yield NamedCells({as_words(name.rpartition(".")[2]): _text(value)})


def _text(value: Any) -> str:
    return value_words(value) if isinstance(value, str) else visible_json(value)
