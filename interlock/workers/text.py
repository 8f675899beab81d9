"""Text as it is shown to people and written to logs: one line, and no character that misleads."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from interlock.kernel.shortened import ELLIPSIS, shortened
from interlock.kernel.tags import BLANKS

DETAIL_LENGTH_MAX = 500
LINE_LENGTH_MAX = 100
PART_LENGTH_MAX = 60
TENTHS_BELOW_S = 10
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}.*")
# Units of time, each with its seconds, and the seconds from which on it is used.
UNITS = (("d", 86_400, 2 * 86_400), ("h", 3_600, 2 * 3_600), ("min", 60, 2 * 60))
# Control characters, format characters (bidi marks, zero width, tags), halves of surrogate pairs,
# and the separators of lines and paragraphs. A terminal acts on them, or shows nothing for them.
HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def duration(ms: float) -> str:
    """Return a length of time in one unit, cut to a whole number: "90 s", "45 min", "5 d".

    Below ten seconds it has two digits: "1.5 s". Less than nothing is nothing.
    """
    seconds = max(ms, 0) / 1_000
    for unit, size, least in UNITS:
        if seconds >= least:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.2g} s" if 0 < seconds < TENTHS_BELOW_S else f"{seconds // 1:.0f} s"


def age(ms: float) -> str:
    """Return a length of time that changes while one looks at it, without parts of a second."""
    return duration(ms // 1_000 * 1_000)


def moment(at_ms: float) -> str:
    """Return a time by its ms since 1970: "2026-01-31 23:59:59 UTC"."""
    return f"{datetime.fromtimestamp(at_ms / 1_000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def clock(at_ms: float) -> str:
    """Return the time of day of a moment to the millisecond, for lines below its date."""
    return f"{datetime.fromtimestamp(at_ms / 1_000, UTC):%H:%M:%S.%f}"[:-3]


def one_line(value: object, *, length_max: int = DETAIL_LENGTH_MAX) -> str:
    """Return any text as one line that fits into a log: no newline, no lone surrogate.

    Of a mapping the line has the names with their values, as far as there are any.
    """
    if isinstance(value, Mapping):
        value = ", ".join(
            f"{name}={one_line(part, length_max=PART_LENGTH_MAX)}"
            for name, part in value.items()
            if part not in (None, "", {}, [])
        )
    line = " ".join(str(value).split()).encode(errors="backslashreplace").decode()
    return shortened(line, length_max)


def with_article(noun: str) -> str:
    """Return a noun with the article before it: "a task", "an agent"."""
    return f"{'an' if noun[:1] in 'aeiou' else 'a'} {noun}"


def cut_to_bytes(text: str, bytes_max: int, *, end: str) -> str:
    """Return a text in at most so many bytes of UTF-8; one that is cut has this end."""
    encoded = text.encode()
    if len(encoded) <= bytes_max:
        return text
    return encoded[: bytes_max - len(end.encode())].decode(errors="ignore") + end


def visible(text: str) -> str:
    r"""Return a text in which each hidden character but the newline is an escape, such as \x1b."""
    return _escaped(text, lambda letter: letter.encode("unicode_escape").decode())


def visible_line(text: str) -> str:
    r"""Return a text as one line: `visible`, with each newline as \n."""
    return visible(text).replace("\n", "\\n")


def visible_data(value: Any) -> Any:
    """Return plain data in which every text is visible and one line: a newline is a space."""
    match value:
        case str():
            # A StrEnum is its value; str() of one that is none would be its name.
            return visible(str(value)).replace("\n", " ")
        case Mapping():
            return {visible_data(name): visible_data(part) for name, part in value.items()}
        case list() | tuple():
            return [visible_data(part) for part in value]
        case _:
            return value


def visible_json(value: Any, *, indent: int | None = None) -> str:
    """Return a value as JSON in which hidden characters are the escapes of JSON itself."""
    text = json.dumps(value, ensure_ascii=False, default=str, indent=indent)
    return _escaped(text, lambda letter: json.dumps(letter)[1:-1])


def _escaped(text: str, escape: Callable[[str], str]) -> str:
    # Each question is answered much faster than the next. A newline is not hidden.
    if text.replace("\n", "").isprintable() and (text.isascii() or BLANKS.isdisjoint(text)):
        return text
    return "".join(escape(letter) if _is_hidden(letter) else letter for letter in text)


def _is_hidden(letter: str) -> bool:
    hidden = unicodedata.category(letter) in HIDDEN_CATEGORIES or letter in BLANKS
    return hidden and letter != "\n"


def is_said(text: str, texts: Sequence[str]) -> bool:
    """Whether a text, or what was left of it when it was shortened, is part of one of the texts."""
    said = ".*".join(re.escape(" ".join(part.split())) for part in text.split(ELLIPSIS))
    return any(re.search(said, " ".join(other.split())) for other in texts)


def value_words(value: Any, beside: Callable[[date], str] = lambda _: "") -> str:
    """Return a value as people say it: a day with its weekday, and what is said `beside` it."""
    match value:
        case None | "" | [] | {}:
            return "nothing"
        case bool():
            return "yes" if value else "no"
        case str():
            return _moment_words(value, beside) or value
        case int() | float():
            return str(value)
        case list() if all(isinstance(one, (str, int, float)) for one in value):
            return ", ".join(value_words(one, beside) for one in value)
    return visible_json(value)


def _moment_words(text: str, beside: Callable[[date], str]) -> str:
    """Return a date or a time in words, or '' for a text that is none."""
    try:
        if _DATE.fullmatch(text):
            day, at = date.fromisoformat(text), ""
        elif _TIME.fullmatch(text):
            found = datetime.fromisoformat(text)
            zone = found.strftime(" %Z") if found.tzinfo else ""
            day, at = found.date(), f", {found:%H:%M}{zone}"
        else:
            return ""
    except ValueError:
        return ""
    return f"{day:%A} {day.day} {day:%B %Y}{at}{beside(day)}"
