"""A request with the remarks of people on it, and what is found in it whatever is wanted."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from interlock.systems.threads.inference.question import Question
from interlock.systems.threads.inference.reading import dates
from interlock.systems.threads.inference.reading.mention import When
from interlock.systems.threads.inference.reading.sentences import (
    ReadSentence,
    first_code,
    split,
    without_code,
)
from interlock.systems.threads.machines.thread.names import Trigger

TEXT_CHARS_MAX = 16_000
# A longer request has more in it than sentences compared one by one can show.
READ_CHARS_MAX = 4_000
_PATH = re.compile(
    r"(?<![\w/:@.~-])(?:~/|\.{0,2}/)?(?:(?:[\w-][\w.-]*/)+|[\w-](?=[\w-]))[\w.-]*[\w-]"
    r"\.[A-Za-z][A-Za-z0-9]{0,4}"
    r"(?![\w/@-])"
)
_BULLET = re.compile(r"^[ \t]*(?:[-*\u2022]|\d{1,3}[.)])[ \t]+(\S.*)$", re.MULTILINE)
_HEAD = re.compile(r"(?P<head>[^\n:]+)(?::|\n[ \t]*\n)(?P<rest>.+)", re.DOTALL)
_PICKED_NUMBER = re.compile(r"#?(\d{1,2})[.)]?")


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """The texts of a request and of the remarks on it, and what was found in them."""

    title: str
    text: str
    remarks: tuple[str, ...]
    values: Mapping[str, Any]
    command: str | None
    paths: tuple[str, ...]
    when: When
    bullets: tuple[str, ...]
    at: object
    # The paths of the items that came with the request.
    item_paths: tuple[str, ...]
    # The action that was proposed before, or whose values were asked for.
    previous: Mapping[str, Any]
    # The newest answer to a card that asked for values of the capability `previous` names.
    answer: str | None
    # The words of a person that replace those of the request.
    wording: str | None = None

    @property
    def prose(self) -> str:
        """Return the text without its code."""
        return without_code(self.text)

    @property
    def heading(self) -> str:
        """Return the title of the request, or what a person said in its place."""
        return self.title if self.wording is None else self.wording

    @property
    def body(self) -> str:
        """Return the text of the request; what a person said in its place has none."""
        return self.text if self.wording is None else ""

    @property
    def head_and_rest(self) -> tuple[str, str]:
        """Return what stands before the first colon or the first empty line, and what behind."""
        match = _HEAD.match(self.body)
        return (match["head"].strip(), match["rest"].strip()) if match else ("", "")

    @property
    def sentences(self) -> list[ReadSentence]:
        """Return the sentences of the request, or of what a person said in its place."""
        return split(self.heading[:READ_CHARS_MAX], self.body[:READ_CHARS_MAX])

    @property
    def is_long(self) -> bool:
        """Return whether the request has more prose than is read."""
        return len(without_code(self.heading)) + len(without_code(self.body)) > READ_CHARS_MAX

    def has(self, hint: str) -> bool:
        """Return whether the request has a value for a hint that few requests have."""
        found = {
            "command": self.command,
            "path": self.paths or self.item_paths,
            "datetime": self.when.day and self.when.time_of_day,
        }
        return bool(found.get(hint))


def read(question: Question) -> ReadRequest:
    """Read a request and the remarks of people on it; the newest remark comes first."""
    inciting = question.inciting
    title, text = stripped(inciting.get("title")), stripped(inciting.get("text"))
    newest_first = tuple(reversed(question.feedback))
    picks = {choice.name for choice in question.catalog}
    remarks = tuple(
        said
        for feedback in newest_first
        if (said := stripped(feedback.get("text"))) and not is_pick(said, picks)
    )
    values = dict(mapping(inciting.get("fields")))
    for feedback in question.feedback:
        values |= mapping(feedback.get("values"))
    if not title and not text and remarks:
        text = remarks[-1]
    sources = (*remarks, title, text)
    prose = [without_code(source)[:TEXT_CHARS_MAX] for source in sources]
    return ReadRequest(
        title=title,
        text=text,
        remarks=remarks,
        values=values,
        command=_first(first_code(source[:TEXT_CHARS_MAX]) for source in sources),
        paths=tuple(dict.fromkeys(path for source in prose for path in _PATH.findall(source))),
        when=dates.find(prose, inciting.get("at")),
        bullets=tuple(bullet.rstrip() for bullet in _BULLET.findall(text[:TEXT_CHARS_MAX])),
        at=inciting.get("at"),
        item_paths=_paths_of(question.items),
        previous=question.previous or {},
        answer=_answer(question),
    )


def blanked_paths(text: str) -> str:
    """Return a text of the same length with a dash for each character of a path."""
    return _PATH.sub(lambda match: "-" * len(match.group()), text)


def without_paths(text: str) -> str:
    """Return the text without its paths."""
    return _PATH.sub(" ", text)


def is_pick(text: str, names: Collection[str]) -> bool:
    """Return whether an answer only picks a capability of a list, by its name or number."""
    return picked_name(text) in names or _PICKED_NUMBER.fullmatch(text.strip()) is not None


def picked_name(text: str) -> str:
    """Return an answer as the name of a capability would be written."""
    return text.strip(" \t\n.'\"`").lower().replace(" ", "_").replace("-", "_")


def picked_number(text: str) -> int | None:
    """Return the number that an answer consists of, or None."""
    match = _PICKED_NUMBER.fullmatch(text.strip())
    return int(match.group(1)) if match else None


def stripped(value: object) -> str:
    """Return a text without the space around it, and anything else as an empty text."""
    return value.strip() if isinstance(value, str) else ""


def mapping(value: object) -> Mapping[str, Any]:
    """Return a mapping as it is, and anything else as an empty one."""
    return value if isinstance(value, Mapping) else {}


def _paths_of(items: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    found = (
        value
        for item in items
        for value in mapping(item.get("payload")).values()
        if isinstance(value, str) and _PATH.fullmatch(value)
    )
    return tuple(dict.fromkeys(found))


def _answer(question: Question) -> str | None:
    """Return the newest answer, if the card before it asked for values and got no `values`."""
    asks = (question.previous or {}).get("kind") == "clarification"
    newest = question.feedback[-1] if question.feedback else {}
    if not asks or newest.get("kind") != Trigger.PROVIDED or mapping(newest.get("values")):
        return None
    return stripped(newest.get("text")) or None


def _first(found: Iterable[str | None]) -> str | None:
    return next((value for value in found if value is not None), None)
