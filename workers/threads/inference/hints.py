"""Reads a capability's parameters from a request by their "x-from" hints, and invents none."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from interlock.workers.gateways.capabilities.capability import problems_of
from interlock.workers.text import sentence
from interlock.workers.threads.inference import dates
from interlock.workers.threads.inference.dates import When
from interlock.workers.threads.inference.forms import Form, form_of
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
_PICKED_NUMBER = re.compile(r"#?(\d{1,2})[.)]?")
# "We need to clean the car" asks for the same as "Clean the car".
_WISH_START = re.compile(
    r"^\W*(?:please |hey |hi |so |and )*"
    r"(?:(?:can|could|would|will) (?:you|we|someone|somebody) (?:please )?"
    r"|(?:i|we|someone|somebody) (?:have|has|need|needs|must|should|ought)(?: to)? )?(?:please )?",
    re.IGNORECASE,
)
_PARTICLES = frozenset({"away", "back", "down", "off", "on", "out", "over", "up"})
_PARTICLE_WITHIN = 4
# A request that begins with one of these begins with no verb.
_NO_VERB = frozenset(
    {"a", "an", "another", "any", "for", "from", "he", "her", "his", "how", "i", "in", "is", "it"}
    | {"its", "more", "my", "no", "of", "on", "one", "our", "she", "some", "someone", "something"}
    | {
        "that",
        "the",
        "their",
        "there",
        "these",
        "they",
        "this",
        "those",
        "to",
        "we",
        "what",
        "when",
    }
    | {"where", "which", "who", "why", "with", "yes", "you", "your"}
)
_PREPOSITIONS = frozenset({"at", "by", "from", "in", "into", "of", "with"})
# These say nothing without their object: "make a note", "make a cake".
_LIGHT_VERBS = frozenset(
    {"be", "do", "get", "give", "go", "have", "keep", "let", "make", "put", "set", "take"}
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

    def value(self, hint: str) -> Any:
        """Return the value for this hint, or None."""
        day, time_of_day = self.when.day, self.when.time_of_day
        exact = day is not None and time_of_day is not None
        return {
            "title": self.wording or self.title or _first_sentence(self.text) or None,
            "text": self.wording or self.text or self.title or None,
            "command": self.command,
            "path": self.path,
            "list": list(self.bullets) or None,
            "date": str(day) if day is not None else None,
            "datetime": f"{day}T{time_of_day}" if exact else None,
        }.get(hint)


@dataclass(frozen=True, slots=True)
class Filled:
    """The parameters that were found, and in words what is missing or wrong."""

    parameters: Mapping[str, Any]
    missing: tuple[str, ...]
    wrong: tuple[str, ...]

    @property
    def lack(self) -> str | None:
        """What a person must still say, in one sentence without its end, or None."""
        parts = list(self.wrong)
        if self.missing:
            parts.append(f"for this I still need: {', '.join(self.missing)}")
        return "; ".join(parts) or None


def read(question: Question) -> ReadRequest:
    """Read a request and the remarks of people on it; the newest remark comes first."""
    inciting = question.inciting
    title, text = _stripped(inciting.get("title")), _stripped(inciting.get("text"))
    newest_first = tuple(reversed(question.feedback))
    picks = {choice.name for choice in question.catalog}
    remarks = tuple(
        said
        for feedback in newest_first
        if (said := _stripped(feedback.get("text"))) and not is_pick(said, picks)
    )
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
        previous=question.previous or {},
        answer=_answer(question),
    )


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


def answers_question(choice: Choice, request: ReadRequest) -> bool:
    """Return whether the newest answer is the one value that was asked for."""
    name = _asked_parameter(choice, request)
    return name is not None and _value_in_answer(choice, name, request) is not None


def fill(choice: Choice, request: ReadRequest) -> Filled:
    """Fill the parameters: with the values that people gave, otherwise by the hints.

    An answer that is the one missing value counts first. What an earlier proposal of the same
    capability had stays where nothing newer was found.
    """
    asked = _asked_parameter(choice, request)
    earlier = request.previous if request.previous.get("capability") == choice.name else {}
    known = _mapping(earlier.get("parameters"))
    parameters: dict[str, Any] = {}
    wrong: list[str] = []
    for name in _properties(choice):
        if name == asked:
            value = _value_in_answer(choice, name, request)
            if value is None:
                wrong.append(_unread(choice, name, request.answer or ""))
            else:
                parameters[name] = value
            continue
        if name in request.values:
            parameters[name] = request.values[name]
            continue
        value = _hinted(choice, request, str(_mapping(_properties(choice)[name]).get(HINT)))
        if isinstance(value, str) and len(value) > TEXT_CHARS_MAX:
            return Filled({}, (), (f"{name} must have at most {TEXT_CHARS_MAX} characters",))
        # A guess that does not fit is dropped: the capability may do without this parameter.
        if value is not None and not _problems(choice, name, value):
            parameters[name] = value
        elif name in known and not _problems(choice, name, known[name]):
            parameters[name] = known[name]
    required = [name for name in choice.parameters.get("required", ()) if name not in parameters]
    missing = [f"{name} ({_form(choice, name).words})" for name in required if name != asked]
    wrong += [
        f"{name} {problems[0]}"
        for name, value in parameters.items()
        if (problems := _problems(choice, name, value))
    ]
    if not missing and not wrong:
        # What concerns several parameters at once is said in the words of the schema's validator.
        wrong += problems_of(choice.parameters, parameters)
    return Filled(parameters, tuple(missing), tuple(wrong))


def _asked_parameter(choice: Choice, request: ReadRequest) -> str | None:
    """Return the parameter that the newest answer is about, where only one was missing."""
    if request.answer is None or request.previous.get("capability") != choice.name:
        return None
    known = _mapping(request.previous.get("parameters"))
    open_names = [
        name
        for name in _properties(choice)
        if (name not in known and name in choice.parameters.get("required", ()))
        or (name in known and _problems(choice, name, known[name]))
    ]
    return open_names[0] if len(open_names) == 1 else None


def _value_in_answer(choice: Choice, name: str, request: ReadRequest) -> Any:
    value = _form(choice, name).read(request.answer or "", request.when)
    return None if value is None or _problems(choice, name, value) else value


def _unread(choice: Choice, name: str, answer: str) -> str:
    shown = sentence(answer, length_max=80)
    return f"{name} {_wanted(choice, name)}; I cannot read one in {shown!r}"


def _problems(choice: Choice, name: str, value: Any) -> tuple[str, ...]:
    """Return what is wrong with one parameter's value, in words."""
    found = problems_of(_schema_of(choice, name), {name: value})
    return tuple(f"{_wanted(choice, name)}; {problem.partition(': ')[2]}" for problem in found)


def _wanted(choice: Choice, name: str) -> str:
    form = _form(choice, name)
    return f"must be given as {form.words}, as in {form.example}"


def _form(choice: Choice, name: str) -> Form:
    return form_of(_mapping(_properties(choice)[name]), _mapping(choice.parameters.get("$defs")))


def _properties(choice: Choice) -> Mapping[str, Any]:
    return _mapping(choice.parameters.get("properties"))


def _answer(question: Question) -> str | None:
    """Return the newest answer, if the card before it asked for values and got no `values`."""
    asks = (question.previous or {}).get("kind") == "clarification"
    newest = question.feedback[-1] if question.feedback else {}
    if not asks or newest.get("kind") != "provided" or _mapping(newest.get("values")):
        return None
    return _stripped(newest.get("text")) or None


def rare_hints(choice: Choice) -> tuple[str, ...]:
    """Return the rare hints among those of the required parameters."""
    properties = _properties(choice)
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


def opening(text: str) -> str:
    """Return the verb with which a request begins, with its particle, as in "write down".

    The object belongs to a verb that says nothing by itself: "make note".
    """
    first_sentence = _SENTENCE_END.split(without_code(text).strip(), maxsplit=1)[0]
    words = _WORD.findall(_WISH_START.sub("", first_sentence, count=1).lower())
    if not words or words[0] in _NO_VERB:
        return ""
    verb, *rest = words
    if verb in _LIGHT_VERBS:
        rest = [word for word in rest if word not in _FILLER | _PARTICLES | _PREPOSITIONS]
        return f"{verb} {rest[0]}" if rest else verb
    particles = [word for word in rest[: _PARTICLE_WITHIN - 1] if word in _PARTICLES]
    return " ".join([verb, *particles[:1]])


def without_code(text: str) -> str:
    """Return the text without the code in backticks, which is read as commands."""
    return _INLINE.sub(" ", _FENCED.sub(" ", text))


def _hinted(choice: Choice, request: ReadRequest, hint: str) -> Any:
    vague = not request.wording and not _adds_something(request.title, choice)
    if hint == "title" and request.text and vague:
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
