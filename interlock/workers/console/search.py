"""Finds what people search for: `machine:thread state:failed older:1h words`, and which columns.

`actor:ann` finds no records: it leads to what ann did.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import Query

from interlock.kernel.errors import CallError
from interlock.kernel.machine import Machine
from interlock.kernel.shown_stage import shown_state
from interlock.kernel.store.listings import ListedRecord
from interlock.workers.client import Client

# The columns that can be chosen, each with the fields of `ListedRecord` that a file has for it. The
# title, which leads to the record, is always shown; a file always has it, and the id.
COLUMNS = {
    "state": ("state", "paused", "waits_for_person"),
    "machine": ("machine",),
    "id": (),
    "who": (),
    "created": ("created_ms",),
    "since": ("since_ms",),
    "took": (),
    "version": ("version",),
}
SHOWN = ("state", "machine", "id", "who", "created", "took")  # where nobody has chosen
Column = Literal["state", "machine", "id", "who", "created", "took", "since", "version"]
Columns = Annotated[list[Column], Query(alias="column", max_length=len(COLUMNS))]
UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
NAMES = ("machine", "state", "effect", "parent", "id", "older")
BY_ACTOR = "actor:"
_AGE = re.compile(r"(\d{1,6})([smhd])")
_TERM = re.compile(r"([a-z_]+):([^\s/]\S*)")
FIRST = 1  # the version of the event by which a record was created
NEAR_MAX = 10  # names that are suggested for one that is unknown
NEWEST_MAX = 500  # records whose ids are looked through for a text that begins none of them


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """The records that were found, where their list goes on, and what has to be said of that.

    `near` has searches that may have been meant, by their text.
    """

    rows: tuple[ListedRecord, ...] = ()
    cursor: str = ""
    said: str = ""
    near: Sequence[str] = ()


def search(client: Client, text: str, *, cursor: str, newest: bool, limit: int) -> FoundRecords:
    """Return one page of the records that fit. What is wrong with the text is said in the answer.

    Words are looked for in titles. One that stands alone is also the beginning of an id, and, if
    nothing fits that, a part of the id of one of the newest records.
    """
    try:
        wanted = conditions(text, client.now_ms(), client.machines)
        found = client.page(limit=limit, cursor=cursor, newest=newest, **wanted)
    except CallError as wrong:
        return FoundRecords(said=f"{wrong}.", near=list(_near(client, text)))
    word = wanted.get("text", "")
    if cursor or wanted.keys() != {"text"} or len(word.split()) > 1:
        return FoundRecords(found.rows, found.cursor)
    begun = client.page(id_prefix=word, limit=limit).rows
    rows = dict.fromkeys([*begun, *found.rows])
    if rows or found.cursor:
        return FoundRecords(tuple(rows), found.cursor)
    with_part = [one for one in client.page(limit=NEWEST_MAX).rows if word in one.id]
    said = f"These are the ids that have {word!r} in them, of the newest {NEWEST_MAX} records."
    return FoundRecords(tuple(with_part[:limit]), said=said if with_part else "")


def submitters(client: Client, rows: Sequence[ListedRecord]) -> dict[str, str]:
    """Return who handed in each record, by its id; those that Interlock made itself are left out.

    It is read from the first event of each, of all in one round trip.
    """
    machines = client.dispatch.machines
    found = client.dispatch.views.events((row.id, FIRST) for row in rows)
    by = {str(event.record_id): event.cause.actor for event in found}
    return {
        row.id: by[row.id]
        for row in rows
        if row.id in by and by[row.id] not in machines[row.machine].effects
    }


def _near(client: Client, text: str) -> Iterator[str]:
    """Yield texts with a name that exists in place of one that does not."""
    machines = client.machines
    states = {str(stage.state): 0 for one in machines.values() for stage in one.stages}
    known = {"machine": list(machines), "state": list(states)}
    for word in text.split():
        name, colon, value = word.partition(":")
        if not colon:
            continue
        if name not in NAMES:
            close = get_close_matches(name, NAMES, NEAR_MAX)
            yield from (text.replace(word, f"{each}:{value}") for each in close)
        elif name in known and value not in known[name]:
            names = [each for each in known[name] if value.casefold() in each]
            names += get_close_matches(value, known[name], NEAR_MAX)
            near = list(dict.fromkeys(names))[:NEAR_MAX]
            yield from (text.replace(word, f"{name}:{each}") for each in near)


def _state_of(value: str, machines: Mapping[str, Machine]) -> str:
    """Return a state by its name, or by what people call it with - or _ for the blanks."""
    for machine in machines.values():
        for stage in machine.stages:
            called = shown_state(machine, str(stage.state)).words
            if value.replace("-", " ").replace("_", " ") == called and value != stage.state:
                return str(stage.state)
    return value


def address_query(q: str, order: str, columns: Sequence[str]) -> str:
    """Return the query of the address of a list. Columns that nobody has chosen are left out."""
    return urlencode({"q": q, "order": order, "column": columns}, doseq=True)


def actor_of(text: str) -> str:
    """Return the name of the person whose acts a text asks for; '' if it asks for records."""
    name = text.strip().removeprefix(BY_ACTOR)
    return name if text.strip() == f"{BY_ACTOR}{name}" and len(name.split()) == 1 else ""


def conditions(text: str, now_ms: int, machines: Mapping[str, Machine]) -> dict[str, Any]:
    """Return the conditions of a list, as `Client.page` takes them. Raises CallError."""
    states = {str(stage.state) for one in machines.values() for stage in one.stages}
    found: dict[str, Any] = {}
    words = []
    for word in text.split():
        if word.startswith(BY_ACTOR):
            raise CallError(f"{word} finds acts, not records: search for it without anything else")
        term = _TERM.fullmatch(word)
        if term is None:
            words.append(word)
            continue
        name, value = term.groups()
        if name not in NAMES:
            there = ", ".join(f"{each}:" for each in (*NAMES, "actor"))
            raise CallError(f"there is no {name}: to search by; there are {there}")
        if name == "state" and value not in states:
            value = _state_of(value, machines)
        if name == "older":
            found["since_ms"] = (0, now_ms - _age_ms(value))
        else:
            found["id_prefix" if name == "id" else name] = value
    return found | ({"text": " ".join(words)} if words else {})


def _age_ms(text: str) -> int:
    age = _AGE.fullmatch(text)
    if age is None:
        raise CallError(f"older:{text} is no time; write a number and s, m, h or d, as in older:1h")
    return int(age[1]) * UNITS_MS[age[2]]
