"""Reads what people search for: `machine:thread state:failed older:1h words`, and which columns.

`actor:ann` finds no records: it leads to what ann did.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import Query

from interlock.kernel.errors import CallError

# The columns that can be chosen, each with the fields of `ListedRecord` that a file has for it. The
# title, which leads to the record, is always shown; a file always has it, and the id.
COLUMNS = {
    "state": ("state", "paused", "waits_for_person"),
    "machine": ("machine",),
    "id": (),
    "since": ("since_ms",),
    "created": ("created_ms",),
    "version": ("version",),
}
SHOWN = ("state", "machine", "id", "since")  # where nobody has chosen
Column = Literal["state", "machine", "id", "since", "created", "version"]
Columns = Annotated[list[Column], Query(alias="column", max_length=len(COLUMNS))]
UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
NAMES = ("machine", "state", "effect", "parent", "id", "older")
BY_ACTOR = "actor:"
_AGE = re.compile(r"(\d{1,6})([smhd])")
_TERM = re.compile(rf"({'|'.join(NAMES)}):(\S+)")


def address_query(q: str, order: str, columns: Sequence[str]) -> str:
    """Return the query of the address of a list. Columns that nobody has chosen are left out."""
    return urlencode({"q": q, "order": order, "column": columns}, doseq=True)


def actor_of(text: str) -> str:
    """Return the name of the person whose acts a text asks for; '' if it asks for records."""
    name = text.strip().removeprefix(BY_ACTOR)
    return name if text.strip() == f"{BY_ACTOR}{name}" and len(name.split()) == 1 else ""


def conditions(text: str, now_ms: int) -> dict[str, Any]:
    """Return the conditions of a list, as `Client.page` takes them. Raises CallError."""
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
