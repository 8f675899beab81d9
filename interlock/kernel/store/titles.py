"""The names under which people find a record: its id, and the words of its title."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from itertools import islice
from typing import Any

from interlock.kernel.record import Record, RecordId

WORDS_MAX = 12  # of one title
WORD_LENGTH_MAX = 32
# No word has this letter or a blank, so that ids and words share one index and stay apart.
ID_MARK = "="
_WORD = re.compile(r"\w+")


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text as the search index has them: without case, each once."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    found = (match.group()[:WORD_LENGTH_MAX] for match in _WORD.finditer(plain))
    return tuple(islice(dict.fromkeys(found), WORDS_MAX))


def names_of(record: Record) -> list[str]:
    """Return what the search index has of a record: its id, and each word of its title."""
    return names_by(record.id, record.title)


def names_by(record_id: str, title: str) -> list[str]:
    """Return what the search index has of the record with an id and a title."""
    return [f"{ID_MARK}{record_id}", *(f"{word} {record_id}" for word in words_of(title))]


def names_below(record_id: str) -> tuple[str, str]:
    """Return between which names the search index has the ids of all records below a record."""
    return f"[{ID_MARK}{record_id}/", f"({ID_MARK}{record_id}0"  # 0 is the letter after /


def id_in(name: str) -> RecordId:
    """Return the id of the record that a name in the search index belongs to."""
    return RecordId(name[1:] if name.startswith(ID_MARK) else name.partition(" ")[2])


def title_plan(record: Record) -> dict[str, Any]:
    """Return the part of a script's plan that gives a new record its title and makes it found."""
    return {"title": record.title, "names": names_of(record)}


def retitle_plan(before: Record, after: Record) -> dict[str, Any]:
    """Return what the commit script needs to change a record's title, if that changes."""
    if before.title == after.title:
        return {}
    old, new = names_of(before), names_of(after)
    change = {"title": after.title, "added": _without(new, old), "removed": _without(old, new)}
    return {"retitle": change}


def _without(names: Collection[str], others: Collection[str]) -> list[str]:
    return [name for name in names if name not in others]
