"""Tags: the words that a producer gives to a record, by which people find its cards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

TAGS_MAX = 10
TAG_LENGTH_MAX = 40
# Letters and marks that are drawn as nothing, although Python calls them printable.
BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
_NEVER_IN_TAGS = BLANKS | {" ", ","}


def _checked(text: str) -> str:
    if not _is_tag(text):
        advice = f"write one word of up to {TAG_LENGTH_MAX} visible characters, without a comma"
        raise ValueError(f"{text[:TAG_LENGTH_MAX]!r} is no tag: {advice}")
    return text


Tags = Annotated[list[Annotated[str, AfterValidator(_checked)]], Field(max_length=TAGS_MAX)]


def tags_in(data: Mapping[str, Any]) -> Iterable[str]:
    """Return what the field `tags` of a record's data has, if that is a list."""
    found = data.get("tags")
    return found if isinstance(found, list) else ()


def as_tags(found: Iterable[Any]) -> tuple[str, ...]:
    """Return the texts that can be tags, each once: `Bug` and `bug` are one tag."""
    by_word = {text.casefold(): text for text in found if _is_tag(text)}
    return tuple(by_word.values())[:TAGS_MAX]


def _is_tag(text: Any) -> bool:
    if not isinstance(text, str) or not 0 < len(text) <= TAG_LENGTH_MAX:
        return False
    return text.isprintable() and _NEVER_IN_TAGS.isdisjoint(text)
