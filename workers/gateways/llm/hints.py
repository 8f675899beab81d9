"""Takes a capability's parameters out of a request by their "x-from" hints; it invents nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from interlock.workers.gateways.capabilities.capability import problems_of
from interlock.workers.gateways.llm import dates
from interlock.workers.gateways.llm.dates import When
from interlock.workers.gateways.llm.question import Choice, Question

HINT = "x-from"
# What most requests lack: that a text has one says much about what is wanted.
TELLING = ("command", "path", "datetime")
TEXT_CHARS_MAX = 16_000
_FENCED = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_PATH = re.compile(
    r"(?<![\w/:@.~-])(?:~/|\.{0,2}/)?(?:[\w-][\w.-]*/)*[\w-][\w.-]*[\w-]\.[A-Za-z][A-Za-z0-9]{0,4}"
    r"(?![\w/@-])"
)
_BULLET = re.compile(r"^[ \t]*(?:[-*•]|\d{1,3}[.)])[ \t]+(\S.*)$", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")
_ASKS = re.compile(
    r"^\W*(?:who|what|when|where|why|which|how|is|are|was|am|do|does|did|should|will|has|have you)"
    r"(?:'s)?\b",
    re.IGNORECASE,
)
# "Could you do it?" is no question, but a polite way to tell.
_TELLS = re.compile(
    r"^\W*(?:please |hey |hi )?(?:can|could|would|will) (?:you|we|someone|somebody)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[a-z]+")
_FILLER = frozenset({"a", "an", "the", "my", "new", "please", "for", "me", "this", "to", "re"})


@dataclass(frozen=True, slots=True)
class Request:
    """What was said, and what can be taken from it."""

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
        """Return what stands for this hint, or None."""
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
    """The parameters found, and what is still wrong with them: one line for each problem."""

    parameters: Mapping[str, Any]
    problems: tuple[str, ...]


def read(question: Question) -> Request:
    """Read a request and what people said about it; the newest remark comes first."""
    inciting = question.inciting
    title, text = _words(inciting.get("title")), _words(inciting.get("text"))
    newest_first = tuple(reversed(question.feedback))
    remarks = tuple(words for one in newest_first if (words := _words(one.get("text"))))
    values = dict(_mapping(inciting.get("fields")))
    for one in question.feedback:
        values |= _mapping(one.get("values"))
    if not title and not text and remarks:
        text = remarks[-1]
    sources = (*remarks, title, text)
    prose = [without_code(source) for source in sources]
    return Request(
        title=title,
        text=text,
        remarks=remarks,
        values=values,
        command=_first(_command(source) for source in sources),
        path=_first(_found(_PATH, source) for source in prose),
        when=dates.find(prose, inciting.get("at")),
        bullets=tuple(one.rstrip() for one in _BULLET.findall(text[:TEXT_CHARS_MAX])),
    )


def fill(choice: Choice, request: Request) -> Filled:
    """Fill the parameters: given values first, then what the hints point to."""
    parameters: dict[str, Any] = {}
    for name, schema in _mapping(choice.parameters.get("properties")).items():
        if name in request.values:
            parameters[name] = request.values[name]
            continue
        value = _hinted(choice, request, str(_mapping(schema).get(HINT)))
        if isinstance(value, str) and len(value) > TEXT_CHARS_MAX:
            return Filled({}, (f"{name}: a text of at most {TEXT_CHARS_MAX} characters",))
        # A guess that does not fit is none: it must not stop what would do without it.
        if value is not None and not problems_of(_alone(choice, name), {name: value}):
            parameters[name] = value
    return Filled(parameters, problems_of(choice.parameters, parameters))


def telling(choice: Choice) -> tuple[str, ...]:
    """Return the telling hints among the required parameters."""
    properties = _mapping(choice.parameters.get("properties"))
    required = choice.parameters.get("required", ())
    hints = {_mapping(properties.get(name)).get(HINT) for name in required}
    return tuple(hint for hint in TELLING if hint in hints)


def asks(text: str) -> bool:
    """Tell whether one of the sentences is a question that wants an answer, in English."""
    sentences = (one.strip() for one in _SENTENCE_END.split(without_code(text)))
    return any(
        one.endswith("?") or _ASKS.match(one) is not None
        for one in sentences
        if one and not _TELLS.match(one)
    )


def without_code(text: str) -> str:
    """Return the text without its commands."""
    return _INLINE.sub(" ", _FENCED.sub(" ", text))


def _hinted(choice: Choice, request: Request, hint: str) -> Any:
    if hint == "title" and request.text and not _says_more(request.title, choice):
        return _first_sentence(request.text)
    return request.value(hint)


def _says_more(title: str, choice: Choice) -> bool:
    """Tell whether a title is more than the capability's own words, as "Todo" is not."""
    vocabulary = f"{choice.name} {choice.description}".lower()
    own = set(_WORD.findall(vocabulary.replace("_", " "))) | _FILLER
    return not set(_WORD.findall(title.lower())) <= own


def _alone(choice: Choice, name: str) -> Mapping[str, Any]:
    properties = {name: choice.parameters["properties"][name]}
    return {"properties": properties, "$defs": choice.parameters.get("$defs", {})}


def _command(text: str) -> str | None:
    return _found(_FENCED, text) or _found(_INLINE, text)


def _found(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text[:TEXT_CHARS_MAX])
    if match is None:
        return None
    return match.group(match.re.groups).strip() or None


def _first(found: Iterable[str | None]) -> str | None:
    return next((one for one in found if one is not None), None)


def _first_sentence(text: str) -> str:
    return _SENTENCE_END.split(text.strip(), maxsplit=1)[0].strip()


def _words(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
