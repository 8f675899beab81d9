"""Makes a form from the JSON schema of an answer, and the answer from what was written into it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from interlock.kernel.errors import InvalidPayloadError
from interlock.workers.gateways.capabilities.registry import InvalidParametersError
from interlock.workers.text import visible, visible_json

LONG = 60  # a text that may be longer than this gets several lines
GROUPS_MAX = 2  # an object that is deeper inside others is written as JSON
NUMBERS = ("integer", "number")
LINES = ("string", *NUMBERS, "boolean")  # the types of values that a list has one a line
ZULU = "Z"  # ends a time in UTC
_TYPES: Mapping[str, Any] = {"integer": int, "number": (int, float), "boolean": bool}
_NAMES = {"integer": "whole number", "number": "number", "boolean": "true or false", "json": "JSON"}


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a form, in the fieldset that is called `group`, or in none.

    `kind` is text, long, choice, integer, number, boolean, lines, date, utc, local or json. Each of
    the `lines` is a value of the kind `each`. `utc` is a time in UTC, and `local` one that has no
    time zone. `value` is the text that the field begins with. An optional field that is left empty,
    or with the default that nobody proposed, is not sent; a list that a person empties is.
    """

    name: str
    label: str
    kind: str
    value: str
    required: bool
    choices: tuple[str, ...] = ()
    hint: str = ""
    group: str = ""
    each: str = ""
    is_default: bool = False


def fields_of(schema: Mapping[str, Any], proposed: Mapping[str, Any]) -> list[FormField]:
    """Return the fields of an answer; what is proposed is filled in."""
    return list(_fields(schema, schema.get("$defs", {}), proposed))


def for_capability(schema: Mapping[str, Any], capability: str) -> Mapping[str, Any]:
    """Return the schema of an answer that names this capability: with its own parameters."""
    for rule in schema.get("allOf", ()):
        named = rule.get("if", {}).get("properties", {}).get("capability", {})
        parameters = rule.get("then", {}).get("properties", {}).get("parameters")
        if parameters and named.get("const") == capability:
            return {**schema, "properties": {**schema["properties"], "parameters": parameters}}
    return schema


def answer_of(fields: Sequence[FormField], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the answer that a form gives. Raises InvalidPayloadError, with each wrong field."""
    answer: dict[str, Any] = {}
    problems = []
    for field in fields:
        text = texts.get(field.name, "")
        if field.is_default and not field.required and text == field.value:
            continue
        is_emptied = field.kind == "lines" and field.name in texts and field.value
        if not (text.strip() or field.required or is_emptied):
            continue
        try:
            value = _value(field, text)
        except ValueError as wrong:
            problems.append(f"{field.name}: {wrong}")
            continue
        place = answer
        *groups, last = field.name.split(".")
        for group in groups:
            place = place.setdefault(group, {})
        place[last] = value
    if problems:
        raise InvalidPayloadError("the answer", problems)
    return answer


def without_unchanged(
    fields: Sequence[FormField], texts: Mapping[str, str], words: str
) -> dict[str, str]:
    """Return the texts of a form without what it was filled in with, where a person wrote words.

    Words in the field `words` say what is to be different. Where all that was filled in was left as
    it was, it is therefore not sent beside them.
    """
    optional = (one for one in fields if not one.required and one.name != words)
    filled = {one.name: one.value for one in optional if one.value}
    changed = any(texts.get(name, "") != value for name, value in filled.items())
    if changed or not texts.get(words, "").strip():
        return dict(texts)
    return {name: text for name, text in texts.items() if name not in filled}


def problems_by_field(
    fields: Sequence[FormField], refusal: InvalidPayloadError
) -> tuple[dict[str, str], list[str]]:
    """Return what is wrong with each field of a form, and the problems that are of no field."""
    inside = "parameters." if isinstance(refusal, InvalidParametersError) else ""
    wrong: dict[str, list[str]] = {}
    others = []
    for problem in refusal.problems:
        path, _, said = problem.partition(": ")
        place = f"{inside}{path}".replace("[", ".") + "."
        name = next((one.name for one in fields if place.startswith(f"{one.name}.")), "")
        if said and name:
            wrong.setdefault(name, []).append(said)
        else:
            others.append(problem)
    return {name: "; ".join(found) for name, found in wrong.items()}, others


def _fields(
    schema: Mapping[str, Any],
    named: Mapping[str, Any],
    proposed: Mapping[str, Any],
    groups: tuple[str, ...] = (),
    *,
    needed: bool = True,
) -> Iterator[FormField]:
    """Yield the fields. In a group that need not be given, no field must be filled in."""
    required = schema.get("required", ()) if needed else ()
    inner: list[FormField] = []
    for name, part in schema.get("properties", {}).items():
        described = resolved(part, named)
        value = proposed.get(name, described.get("default"))
        is_group = described.get("type") == "object" and described.get("properties")
        if is_group and len(groups) < GROUPS_MAX:
            all_named = {**named, **described.get("$defs", {})}
            values = value if isinstance(value, Mapping) else {}
            found = _fields(described, all_named, values, (*groups, name), needed=name in required)
            if groups:
                inner += found  # behind all fields of the group itself, which so is one fieldset
            else:
                yield from found
            continue
        kind, choices, each = _kind(described, value, named)
        yield FormField(
            name=".".join((*groups, name)),
            label=name.replace("_", " "),
            kind=kind,
            value=_text(value, kind),
            required=name in required,
            choices=choices,
            hint=str(described.get("description", "")),
            group=": ".join(groups).replace("_", " "),
            each=each,
            is_default=name not in proposed,
        )
    yield from inner


def resolved(part: Any, named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a field takes: without a reference, and without that it may be null.

    `named` are the definitions that may be referred to. A schema that is true or false, or refers
    to itself without end, describes nothing: {}.
    """
    if not isinstance(part, Mapping):
        return {}
    if reference := part.get("$ref"):
        name = str(reference).rpartition("/")[2]
        target = resolved(named.get(name), {k: v for k, v in named.items() if k != name})
        return {**target, **{k: v for k, v in part.items() if k != "$ref"}}
    options = [resolved(each, named) for each in part.get("anyOf", ())]
    options = [each for each in options if each.get("type") != "null"]
    if len(options) == 1:
        return {**options[0], **{k: v for k, v in part.items() if k != "anyOf"}}
    if isinstance(types := part.get("type"), list) and len({*types} - {"null"}) == 1:
        return {**part, "type": next(each for each in types if each != "null")}
    return part


def _listed(described: Mapping[str, Any]) -> list[Any]:
    """Return the values that are allowed, where a schema lists them; null is left out."""
    listed = [described["const"]] if "const" in described else described.get("enum", ())
    return [each for each in listed if each is not None]


def _choices(described: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values that are allowed: as they are if all are texts, and otherwise as JSON."""
    listed = _listed(described)
    if _are_texts(listed):
        return tuple(listed)
    return tuple(json.dumps(each, ensure_ascii=False) for each in listed)


def _are_texts(values: Sequence[Any]) -> bool:
    return all(isinstance(each, str) for each in values)


def _kind(
    described: Mapping[str, Any], value: Any, named: Mapping[str, Any]
) -> tuple[str, tuple[str, ...], str]:
    """Return the kind of a field that can show a value, its choices, and the kind of its lines."""
    if choices := _choices(described):
        return "choice" if _are_texts(_listed(described)) else "json", choices, ""
    match described.get("type"):
        case "string":
            return _kind_of_text(described, value), (), ""
        case "integer" | "number" | "boolean" as kind:
            return kind, (), ""
        case "array":
            return _kind_of_list(resolved(described.get("items"), named), value)
    return "json", (), ""


def _kind_of_text(described: Mapping[str, Any], value: Any) -> str:
    """Return the kind of field for a text. A date or time that the field cannot show is a text."""
    text = "" if value is None else str(value)
    if _has_hidden(text):
        return "json"
    with suppress(ValueError):
        match described.get("format"):
            case "date" if not text or date.fromisoformat(text).isoformat() == text:
                return "date"
            case "date-time" if not text or _is_to_the_second(text.removesuffix(ZULU)):
                return "utc" if not text or text.endswith(ZULU) else "local"
    is_long = int(described.get("maxLength", LONG + 1)) > LONG
    return "long" if is_long or len(text) > LONG or "\n" in text else "text"


def _has_hidden(text: str) -> bool:
    """Whether a text has characters that nobody sees, or that a browser changes. A tab is none."""
    return visible(text.replace("\t", " ")) != text.replace("\t", " ")


def _is_to_the_second(text: str) -> bool:
    """Whether a text is a time as browsers have it. Raises ValueError if it is no time at all."""
    time = datetime.fromisoformat(text)
    return time.tzinfo is None and not time.microsecond and time.isoformat() == text


def _kind_of_list(items: Mapping[str, Any], value: Any) -> tuple[str, tuple[str, ...], str]:
    """Return the kind of field for a list: lines if each of its values is plain and fits on one."""
    if items.get("type") in LINES or _choices(items):
        kind, choices, _ = _kind(items, None, {})
        each = kind if kind in (*NUMBERS, "boolean", "choice", "json") else "text"
        values = [] if value is None else value
        if each != "json" and isinstance(values, list) and all(_fits(one, each) for one in values):
            return "lines", choices, each
    return "json", (), ""


def _fits(value: Any, each: str) -> bool:
    """Whether a value of a list can be shown as a line of its own."""
    if each in ("text", "choice"):
        is_line = isinstance(value, str) and bool(value.strip()) and "\n" not in value
        return is_line and not _has_hidden(value)
    return isinstance(value, (int, float))


def _text(value: Any, kind: str) -> str:
    if value is None or (kind == "json" and not value):
        return ""
    if kind == "lines":
        return "\n".join(one if isinstance(one, str) else json.dumps(one) for one in value)
    if kind == "utc":
        return str(value).removesuffix(ZULU)
    if isinstance(value, str) and kind != "json":
        return value
    return visible_json(value, indent=2 if kind == "json" else None)


def _value(field: FormField, text: str) -> Any:
    """Return the value that a text stands for. Raises ValueError, with what is wrong."""
    if field.kind != "lines":
        return _typed(field.kind, field.choices, text)
    values = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            values += [_typed(field.each, field.choices, line)] if line.strip() else []
        except ValueError as wrong:
            raise ValueError(f"line {number}: {wrong}") from None
    return values


def _typed(kind: str, choices: Sequence[str], text: str) -> Any:
    """Return the value of a kind that a text stands for. Raises ValueError."""
    match kind:
        case "text" | "long":
            return text
        case "choice":
            if text not in choices:
                raise ValueError(f"{text!r} is none of {', '.join(choices)}")
            return text
        case "date" | "utc" | "local":
            return _time(kind, text)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{text[:80]!r} is no {_NAMES[kind]}") from None
    is_of_type = isinstance(value, _TYPES.get(kind, object))
    # Python counts true and false as numbers.
    if not is_of_type or (kind in NUMBERS and isinstance(value, bool)):
        raise ValueError(f"{text[:80]!r} is no {_NAMES[kind]}")
    return value


def _time(kind: str, text: str) -> str:
    """Return a date or a time as JSON has it. A browser leaves out seconds that are 0."""
    try:
        if kind == "date":
            return date.fromisoformat(text.strip()).isoformat()
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        like = "date, such as 2026-01-31" if kind == "date" else "time, such as 2026-01-31T09:30"
        raise ValueError(f"{text[:80]!r} is no {like}") from None
    return f"{time.isoformat()}{ZULU if kind == 'utc' and time.tzinfo is None else ''}"
