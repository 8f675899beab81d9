"""Reads a capability's parameters from a request by their "x-from" hints, and invents none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from interlock.workers.gateways.capabilities.capability import problems_of
from interlock.workers.threads.inference import dates
from interlock.workers.threads.inference.dates import When
from interlock.workers.threads.inference.question import Choice, Question

HINT = "x-from"
# Most requests lack these: a text that has one is probably meant for a capability that needs it.
RARE_HINTS = ("command", "path", "datetime")
TEXT_CHARS_MAX = 16_000
_FENCED = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_PATH = re.compile(
    r"(?<![\w/:@.~-])(?:~/|\.{0,2}/)?(?:[\w-][\w.-]*/)*[\w-][\w.-]*[\w-]\.[A-Za-z][A-Za-z0-9]{0,4}"
    r"(?![\w/@-])"
)
_BULLET = re.compile(r"^[ \t]*(?:[-*•]|\d{1,3}[.)])[ \t]+(\S.*)$", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")
_QUESTION_START = re.compile(
    r"^\W*(?:who|what|when|where|why|which|how|is|are|was|am|do|does|did|should|will|has|have you)"
    r"(?:'s)?\b",
    re.IGNORECASE,
)
# "Could you do it?" asks for an action, so it does not count as a question.
_POLITE_ORDER = re.compile(
    r"^\W*(?:please |hey |hi )?(?:can|could|would|will) (?:you|we|someone|somebody)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[a-z]+")
_FILLER = frozenset({"a", "an", "the", "my", "new", "please", "for", "me", "this", "to", "re"})


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """The texts of a request and of the remarks on it, and what was found in them."""

    title: str
    text: str
    remarks: tuple[str, ...]
    values: Mapping[str, Any]
    command: str | None
    path: str | None
    when: When
    bullets: tuple[str, ...]

    @property
    def prose(self) -> str:
        """Return the text without its code."""
        return without_code(self.text)

    def value(self, hint: str) -> Any:
        """Return the value for this hint, or None."""
        day, time_of_day = self.when.day, self.when.time_of_day
        exact = day is not None and time_of_day is not None
        return {
            "title": self.title or _first_sentence(self.text) or None,
            "text": self.text or self.title or None,
            "command": self.command,
            "path": self.path,
            "list": list(self.bullets) or None,
            "date": str(day) if day is not None else None,
            "datetime": f"{day}T{time_of_day}" if exact else None,
        }.get(hint)


@dataclass(frozen=True, slots=True)
class Filled:
    """The parameters that were found, and their problems, one line each."""

    parameters: Mapping[str, Any]
    problems: tuple[str, ...]


def read(question: Question) -> ReadRequest:
    """Read a request and the remarks of people on it; the newest remark comes first."""
    inciting = question.inciting
    title, text = _stripped(inciting.get("title")), _stripped(inciting.get("text"))
    newest_first = tuple(reversed(question.feedback))
    remarks = tuple(text for feedback in newest_first if (text := _stripped(feedback.get("text"))))
    values = dict(_mapping(inciting.get("fields")))
    for feedback in question.feedback:
        values |= _mapping(feedback.get("values"))
    if not title and not text and remarks:
        text = remarks[-1]
    sources = (*remarks, title, text)
    prose = [without_code(source) for source in sources]
    return ReadRequest(
        title=title,
        text=text,
        remarks=remarks,
        values=values,
        command=_first(_command(source) for source in sources),
        path=_first(_match(_PATH, source) for source in prose),
        when=dates.find(prose, inciting.get("at")),
        bullets=tuple(bullet.rstrip() for bullet in _BULLET.findall(text[:TEXT_CHARS_MAX])),
    )


def fill(choice: Choice, request: ReadRequest) -> Filled:
    """Fill the parameters: with the values that people gave, otherwise by the hints."""
    parameters: dict[str, Any] = {}
    for name, schema in _mapping(choice.parameters.get("properties")).items():
        if name in request.values:
            parameters[name] = request.values[name]
            continue
        value = _hinted(choice, request, str(_mapping(schema).get(HINT)))
        if isinstance(value, str) and len(value) > TEXT_CHARS_MAX:
            return Filled({}, (f"{name}: a text of at most {TEXT_CHARS_MAX} characters",))
        # A guess that does not fit is dropped: the capability may do without this parameter.
        if value is not None and not problems_of(_schema_of(choice, name), {name: value}):
            parameters[name] = value
    return Filled(parameters, problems_of(choice.parameters, parameters))


def rare_hints(choice: Choice) -> tuple[str, ...]:
    """Return the rare hints among those of the required parameters."""
    properties = _mapping(choice.parameters.get("properties"))
    required = choice.parameters.get("required", ())
    hints = {_mapping(properties.get(name)).get(HINT) for name in required}
    return tuple(hint for hint in RARE_HINTS if hint in hints)


def has_question(text: str) -> bool:
    """Return whether one of the English sentences is a question, and not a polite order."""
    sentences = (part.strip() for part in _SENTENCE_END.split(without_code(text)))
    return any(
        part.endswith("?") or _QUESTION_START.match(part) is not None
        for part in sentences
        if part and not _POLITE_ORDER.match(part)
    )


def without_code(text: str) -> str:
    """Return the text without the code in backticks, which is read as commands."""
    return _INLINE.sub(" ", _FENCED.sub(" ", text))


def _hinted(choice: Choice, request: ReadRequest, hint: str) -> Any:
    if hint == "title" and request.text and not _adds_something(request.title, choice):
        return _first_sentence(request.text)
    return request.value(hint)


def _adds_something(title: str, choice: Choice) -> bool:
    """Return whether a title has a word that the capability's description lacks."""
    vocabulary = f"{choice.name} {choice.description}".lower()
    known = set(_WORD.findall(vocabulary.replace("_", " "))) | _FILLER
    return not set(_WORD.findall(title.lower())) <= known


def _schema_of(choice: Choice, name: str) -> Mapping[str, Any]:
    properties = {name: choice.parameters["properties"][name]}
    return {"properties": properties, "$defs": choice.parameters.get("$defs", {})}


def _command(text: str) -> str | None:
    return _match(_FENCED, text) or _match(_INLINE, text)


def _match(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text[:TEXT_CHARS_MAX])
    if match is None:
        return None
    return match.group(match.re.groups).strip() or None


def _first(found: Iterable[str | None]) -> str | None:
    return next((value for value in found if value is not None), None)


def _first_sentence(text: str) -> str:
    return _SENTENCE_END.split(text.strip(), maxsplit=1)[0].strip()


def _stripped(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
