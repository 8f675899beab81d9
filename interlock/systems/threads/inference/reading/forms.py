"""The form that a parameter must have, in words, and values of that form read from an answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from interlock.systems.threads.inference.reading.mention import When

ONE_OF_MAX = 12
_NUMBER = re.compile(r"(?<![\w.,])[-+]?\d+(?:\.\d+)?(?!\w|[.,]\d)")
_SEPARATOR = re.compile(r"[,;\n]")
_YES_OR_NO: Mapping[str, bool] = {"yes": True, "true": True, "no": False, "false": False}


@dataclass(frozen=True, slots=True)
class Form:
    """One kind of value: its name, an example, and how it is read from an answer and its date."""

    words: str
    example: str
    read: Callable[[str, When], Any]


def form_of(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Form:
    """Return the form that a parameter's schema asks for."""
    plain = _resolved(schema, definitions)
    options = [plain["const"]] if "const" in plain else plain.get("enum")
    if options:
        shown = ", ".join(map(str, options[:ONE_OF_MAX]))
        return Form(f"one of: {shown}", str(options[0]), lambda text, _: _option(text, options))
    kind = plain.get("type")
    by_format = _BY_FORMAT.get(str(plain.get("format"))) if kind == "string" else None
    return by_format or _BY_TYPE.get(str(kind), _ANYTHING)


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow a reference into the definitions, and an optional value to its kind."""
    reference = str(schema.get("$ref", ""))
    if reference.startswith("#/$defs/"):
        # Followed once: a definition that refers to itself has no form to be named.
        schema = definitions.get(reference.removeprefix("#/$defs/"), {})
    kinds = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
    return kinds[0] if len(kinds) == 1 else schema


def _option(text: str, options: list[Any]) -> Any:
    said = text.strip().rstrip(".").lower()
    return next((option for option in options if str(option).lower() == said), None)


def _moment(_: str, when: When) -> str | None:
    exact = when.day is not None and when.time_of_day is not None
    return f"{when.day}T{when.time_of_day}" if exact else None


def _day(_: str, when: When) -> str | None:
    return None if when.day is None else str(when.day)


def _number(text: str, _: When) -> int | float | None:
    found = _NUMBER.findall(text)
    if len(found) != 1:
        return None
    return float(found[0]) if "." in found[0] else int(found[0])


def _whole_number(text: str, when: When) -> int | None:
    number = _number(text, when)
    return number if isinstance(number, int) else None


def _yes_or_no(text: str, _: When) -> bool | None:
    return _YES_OR_NO.get(text.strip().rstrip(".").lower())


def _list(text: str, _: When) -> list[str]:
    return [part.strip() for part in _SEPARATOR.split(text) if part.strip()]


def _text(text: str, _: When) -> str:
    return text


def _nothing(_text: str, _when: When) -> None:
    return None


_BY_FORMAT: Mapping[str, Form] = {
    "date-time": Form("date and time", "2026-11-24 10:00", _moment),
    "date": Form("date", "2026-11-24", _day),
}
_BY_TYPE: Mapping[str, Form] = {
    "integer": Form("whole number", "3", _whole_number),
    "number": Form("number", "2.5", _number),
    "boolean": Form("yes or no", "yes", _yes_or_no),
    "array": Form("list", "one, two", _list),
    "string": Form("text", "some words", _text),
}
_ANYTHING = Form("value, given with `values`", "{}", _nothing)
