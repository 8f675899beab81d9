"""Reads and writes single values of files: times, money, paths, numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from functools import cache
from math import isfinite
from typing import Annotated, Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from interlock.workers.specs.json_line import shown
from interlock.workers.specs.problems import Location, node_within
from interlock.workers.specs.yaml_document import Node

PRIORITY_MAX = 9
PRIORITY_DEFAULT = 5
_DURATION = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII)
_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
# All digits fit into a Decimal of the default precision: nothing is rounded.
_MONEY = re.compile(r"\d{1,12}(?:\.\d{0,12})?(?:[eE][-+]?\d{1,2})?", re.ASCII)
_MICRO_DIGITS = 6
_ADVICE = {
    "string_type": "it is not text; put it in quotation marks",
    "string_too_short": "it is empty; write a text",
    "string_too_long": "it has {length} characters, at most {max_length} are allowed",
    "string_pattern_mismatch": (
        "it is not a name; use up to 64 letters, digits and ._~-, a letter or digit first"
    ),
    "string_unicode": "it has a lone surrogate, which is no text",
    "bool_type": "write true or false",
    "int_type": "write a whole number",
    "greater_than_equal": "write {ge} or more",
    "less_than_equal": "write {le} or less",
    "list_type": "write a list",
    "dict_type": "write lines of the form key: value",
    "too_long": "these are {length}, at most {max_length} are allowed",
    "literal_error": "write {expected}",
}


@dataclass(frozen=True, slots=True)
class ValueKind:
    """The reader and the writer of one kind of value in a file.

    `read` raises ValueError with advice on what to write instead.
    """

    read: Callable[[Node], Any]
    write: Callable[[Any], Any]


def read_value(
    model: type[BaseModel], field: str, kind: ValueKind, node: Node, location: Location
) -> Any:
    """Return a value as the model's field takes it, or None if it is refused at the location."""
    try:
        value = kind.read(node)
    except ValueError as error:
        location.refuse(node.line, f"{shown(node.plain())}: {error}")
        return None
    if field not in model.model_fields:
        return value
    try:
        return _adapter(model, field).validate_python(value, strict=True)
    except ValidationError as refusal:
        for fault in refusal.errors(include_url=False):
            part = location
            for step in fault["loc"]:
                part = part.inside(step)
            inner = node_within(node, fault["loc"])
            part.refuse(inner.line, f"{shown(inner.plain())}: {_advice(fault, kind)}")
        return None


class Dollars(str):
    """An amount of US dollars as it is written: a number with exactly these digits."""

    __slots__ = ()


def duration_text(seconds: int) -> str:
    """Return a duration as people write it: 5400 is 1h30m."""
    written = ""
    for unit, length in _UNITS.items():
        count, seconds = divmod(seconds, length)
        written += f"{count}{unit}" if count else ""
    return written or "0s"


def money_text(micro: int) -> Dollars:
    """Return micro-dollars as dollars, exactly."""
    whole, rest = divmod(micro, 10**_MICRO_DIGITS)
    return Dollars(f"{whole}.{rest:06}".rstrip("0").removesuffix("."))


def check_json(node: Node, location: Location) -> None:
    """Refuse every value that JSON cannot hold."""
    if isinstance(node.value, dict):
        for key, inner in node.value.items():
            if isinstance(key, str) and _is_text(key):
                check_json(inner, location.inside(key))
            else:
                problem = f"the key {shown(key)} is not text; put it in quotation marks"
                location.refuse(inner.line, problem)
    elif isinstance(node.value, list):
        for index, inner in enumerate(node.value):
            check_json(inner, location.inside(index))
    elif isinstance(node.value, str) and not _is_text(node.value):
        location.refuse(node.line, f"{shown(node.value)}: {_ADVICE['string_unicode']}")
    elif isinstance(node.value, date):
        location.refuse(node.line, f"{node.text}: a date is not JSON; put it in quotation marks")
    elif isinstance(node.value, float) and not isfinite(node.value):
        problem = f"{node.text}: JSON has no such number; put it in quotation marks"
        location.refuse(node.line, problem)


def _is_text(text: str) -> bool:
    # Pydantic accepts a lone surrogate; as a key it would be stored as another text.
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _duration(node: Node) -> int:
    if type(node.value) is int:
        return node.value
    found = _DURATION.fullmatch(node.value) if isinstance(node.value, str) else None
    if not node.value or not found:
        raise ValueError("write whole seconds, or a time like 90s, 10m, 2h, 1h30m or 3d")
    counts = zip(found.groups(default="0"), _UNITS.values(), strict=True)
    return sum(int(count) * length for count, length in counts)


def _money(node: Node) -> int:
    # The text and not the value: a float has already lost digits.
    if isinstance(node.value, str | int | float) and _MONEY.fullmatch(node.text):
        micro = Decimal(node.text).scaleb(_MICRO_DIGITS)
        if micro == micro.to_integral_value():
            return int(micro)
    raise ValueError("write US dollars like 5 or 0.05, with at most 6 decimals")


def _path(node: Node) -> Any:
    path = node.value
    if isinstance(path, str) and path.startswith("~"):
        raise ValueError("write the whole path; only a shell replaces ~")
    if isinstance(path, str) and "\0" in path:
        raise ValueError("no path has a NUL character; take it out")
    return path


def _priority(node: Node) -> int:
    value: int = node.value
    if type(value) is not int or not 0 <= value <= PRIORITY_MAX:
        raise ValueError(f"write 0 (first) to {PRIORITY_MAX} (last)")
    return value


def _slots(node: Node) -> int:
    value: int = node.value
    if type(value) is not int or value < 1:
        raise ValueError("write a whole number, 1 or more; leave it out to set no limit")
    return value


def _same(value: Any) -> Any:
    return value


PLAIN = ValueKind(Node.plain, _same)
DURATION = ValueKind(_duration, duration_text)
MONEY = ValueKind(_money, money_text)
PATH = ValueKind(_path, _same)
PRIORITY = ValueKind(_priority, _same)
SLOTS = ValueKind(_slots, _same)


def kind_of(model: type[BaseModel], field: str) -> ValueKind:
    """Return the kind of value of a model's field: one of a few choices, or a plain value."""
    shape = model.model_fields[field].annotation
    if isinstance(shape, type) and issubclass(shape, StrEnum):
        return _choice_of(shape)
    return PLAIN


def _choice_of(choices: type[StrEnum]) -> ValueKind:
    def read(node: Node) -> StrEnum:
        if isinstance(node.value, str) and node.value in {*choices}:
            return choices(node.value)
        *others, last = choices
        raise ValueError(f"write {', '.join(others)} or {last}")

    return ValueKind(read, str)


@cache
def _adapter(model: type[BaseModel], field: str) -> TypeAdapter[Any]:
    """Return an adapter that validates one field of a model by itself."""
    info = model.model_fields[field]
    shape: Any = info.annotation
    return TypeAdapter(Annotated[(shape, *info.metadata)] if info.metadata else shape)


def _advice(fault: Any, kind: ValueKind) -> str:
    """Return what to write instead of a value that the kernel's model refuses."""
    value, facts = fault["input"], dict(fault.get("ctx", {}))
    if fault["type"] == "string_type" and isinstance(value, list | dict | None):
        return "write a text"
    facts |= {"length": len(value)} if isinstance(value, str | list) else {}
    facts |= {bound: kind.write(facts[bound]) for bound in ("ge", "le") if bound in facts}
    advice = _ADVICE.get(fault["type"])
    return advice.format_map(facts) if advice else str(fault["msg"]).removeprefix("Value error, ")


def parse_duration(text: str) -> int:
    """Return the seconds of a duration as people write it. Raises ValueError with advice."""
    return _duration(Node(0, int(text) if text.isdecimal() else text))


def parse_money(text: str) -> int:
    """Return US dollars as whole micro-dollars. Raises ValueError with advice."""
    return _money(Node(0, text, text))
