"""What was asked with a record, and what came of it: what its page and `show` begin with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from interlock.kernel.event import Event
from interlock.kernel.machine import Machine
from interlock.kernel.question import as_sentence
from interlock.kernel.reason import moved
from interlock.kernel.record import Record
from interlock.kernel.shown_stage import as_words, shown_stage
from interlock.kernel.table import Terminal, Waiting
from interlock.workers.client import Client
from interlock.workers.engine.system import load
from interlock.workers.supervision.page import with_live_parts
from interlock.workers.systems import shown_fields, systems
from interlock.workers.terminal.page import Part, Section, Sentence
from interlock.workers.text import value_words, visible_json

OPEN = "Nothing yet: it has not ended."
LINES_READ = 30  # of the end of a log, to find who decided last
CODE = re.compile(r"(?=.*\d)[0-9a-fA-F-]{16,}(@\S+)?")  # ids and hashes, which only programs read
TECHNICAL = "Technical values"
CHANGE = "edit"  # the answer that changes what is asked about


def asked(record: Record) -> Iterator[Section]:
    """Yield what was asked with a record, where its fields say that."""
    if fields := shown_fields(record)[0]:
        yield Section("What was asked", list(_parts(fields)))


def outcome(client: Client, record: Record) -> Section:
    """Return what came of a record, and how it ended."""
    machine = client.dispatch.machines[record.machine]
    stage = shown_stage(machine, record.state)
    came = shown_fields(record)[1]
    parts = list(_parts(came))
    if isinstance(stage, Terminal):
        for event in client.dispatch.views.events([(record.id, record.entered)]):
            said = _ended(event, machine, list(came.values()))
            decided = _decided(client, record, machine)
            parts.append(Sentence(f"{said} {decided}".rstrip(), "soft"))
    return Section("What came of it", parts or [Sentence(OPEN, "soft")])


def _ended(event: Event, machine: Machine, shown: Sequence[Any]) -> str:
    """Say how a record ended and who ended it, with those words that are not shown already."""
    actor = event.cause.actor
    by = "a worker" if actor in machine.effects else actor
    says = event.says or moved(event.trigger, event.source, event.target)
    words = [one for one in event.words if one not in shown]
    return as_sentence(": ".join(filter(None, (f"It ended: {says}, by {by}", "; ".join(words)))))


def _decided(client: Client, record: Record, machine: Machine) -> str:
    """Say who decided last, and what; '' if nobody did, or if the decision was the end itself."""
    latest = client.dispatch.views.latest([record.id], LINES_READ)[record.id]
    events = [line for line in latest if isinstance(line, Event) and line.source]
    for at, line in enumerate(events):
        stage, by = shown_stage(machine, line.source), line.cause.actor
        choices = {to: name for name, to in stage.affordances} if isinstance(stage, Waiting) else {}
        if line.trigger in choices and by not in machine.effects:
            if line.version == record.entered:
                return ""
            steps = [choices.get(one.trigger) for one in _while_in(line.source, events[at + 1 :])]
            changes = ", with changes" if CHANGE in steps else ""
            return f"Decided by {by}: {as_words(choices[line.trigger])}{changes}."
    return ""


def _while_in(state: str, events: Sequence[Event]) -> Iterator[Event]:
    """Return the newest events for as long as they kept a record in a state."""
    return takewhile(lambda one: one.source == one.target == state, events)


def unsaid(details: Mapping[str, str], record: Record) -> dict[str, str]:
    """Return the details of a record without those that its title or its story has already."""
    shown = [record.title, *(value for fields in shown_fields(record) for value in fields.values())]
    return {name: text for name, text in details.items() if text not in shown}


def panels(client: Client, record: Record) -> Sequence[Section]:
    """Return what the page of a record shows of its system besides, to who may see all of that."""
    for system in systems():
        page = load(system.page) if system.page else None
        if page and record.machine in page.panels:
            return with_live_parts(client, page.panels[record.machine](client, record))
    return ()


def _parts(fields: Mapping[str, Any]) -> Iterator[Part]:
    """Yield texts as they were written, and below them what has fields of its own."""
    for name, value in fields.items():
        if isinstance(value, Mapping):
            said = {as_words(key): _text(each) for key, each in value.items() if each}
            technical = {key: each for key, each in said.items() if CODE.fullmatch(each)}
            yield {key: each for key, each in said.items() if key not in technical}
            if technical:
                yield Section(TECHNICAL, [technical], is_folded=True)
        elif len(fields) == 1 and isinstance(value, str):
            yield Sentence(value, is_quoted=True)
        else:
            yield {as_words(name.rpartition(".")[2]): _text(value)}


def _text(value: Any) -> str:
    return value_words(value) if isinstance(value, str) else visible_json(value)
