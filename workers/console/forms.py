"""Makes a form from the JSON schema of an answer, and the answer from what was written into it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from interlock.kernel.errors import InvalidPayloadError

LONG = 60  # a text that may be longer than this gets several lines
NUMBERS = ("integer", "number")
_TYPES: Mapping[str, Any] = {"integer": int, "number": (int, float), "boolean": bool}
_NAMES = {"integer": "whole number", "number": "number", "boolean": "true or false", "json": "JSON"}
_WORDS = {**_NAMES, "string": "text", "array": "list", "object": "fields", "date-time": "time"}


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a form. `kind` is text, long, choice, integer, number, boolean or json.

    `value` is the text that it begins with. An optional field that is left empty is not sent.
    """

    name: str
    label: str
    kind: str
    value: str
    required: bool
    choices: tuple[str, ...] = ()
    hint: str = ""


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


def type_words(described: Mapping[str, Any]) -> str:
    """Return the type that a schema describes, as people say it; '' if it describes none."""
    described = _resolved(described, {})
    if choices := _choices(described):
        return "one of " + ", ".join(choices)
    kind = str(described.get("format") or described.get("type") or "")
    return _WORDS.get(kind, kind)


def answer_of(fields: list[FormField], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the answer that a form gives. Raises InvalidPayloadError, with each wrong field."""
    answer: dict[str, Any] = {}
    problems = []
    for field in fields:
        text = texts.get(field.name, "")
        if not text.strip() and not field.required:
            continue
        try:
            value = _value(field, text)
        except ValueError as wrong:
            problems.append(f"{field.label}: {wrong}")
            continue
        place = answer
        *groups, last = field.name.split(".")
        for group in groups:
            place = place.setdefault(group, {})
        place[last] = value
    if problems:
        raise InvalidPayloadError("the answer", problems)
    return answer


def _fields(
    schema: Mapping[str, Any],
    named: Mapping[str, Any],
    proposed: Mapping[str, Any],
    prefix: str = "",
    *,
    needed: bool = True,
) -> Iterator[FormField]:
    """Yield the fields. In a group that need not be given, no field must be filled in."""
    required = schema.get("required", ()) if needed else ()
    for name, part in schema.get("properties", {}).items():
        described = _resolved(part, named)
        value = proposed.get(name, described.get("default"))
        full = f"{prefix}{name}"
        if described.get("type") == "object" and described.get("properties"):
            inner = value if isinstance(value, Mapping) else {}
            all_named = {**named, **described.get("$defs", {})}
            needs = name in required
            yield from _fields(described, all_named, inner, f"{full}.", needed=needs)
            continue
        choices = _choices(described)
        kind = _kind(described, value)
        yield FormField(
            name=full,
            label=full.replace("_", " "),
            kind=kind,
            value=_text(value, kind),
            required=name in required,
            choices=choices,
            hint=str(described.get("description", "")),
        )


def _resolved(part: Mapping[str, Any], named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a field takes: without a reference, and without that it may be null."""
    if reference := part.get("$ref"):
        target = named.get(str(reference).rpartition("/")[2], {})
        return {**_resolved(target, named), **{k: v for k, v in part.items() if k != "$ref"}}
    options = [each for each in part.get("anyOf", ()) if each.get("type") != "null"]
    if len(options) == 1:
        return {**_resolved(options[0], named), **{k: v for k, v in part.items() if k != "anyOf"}}
    return part


def _choices(described: Mapping[str, Any]) -> tuple[str, ...]:
    if "const" in described:
        value = described["const"]
        return (value,) if isinstance(value, str) else (json.dumps(value),)
    values = described.get("enum", ())
    return tuple(values) if all(isinstance(each, str) for each in values) else ()


def _kind(described: Mapping[str, Any], value: Any) -> str:
    if _choices(described):
        return "choice" if isinstance(described.get("const", ""), str) else "json"
    kind = str(described.get("type", "json"))
    if kind == "string":
        is_long = int(described.get("maxLength", LONG + 1)) > LONG
        return "long" if is_long or len(str(value or "")) > LONG else "text"
    return kind if kind in (*NUMBERS, "boolean") else "json"


def _text(value: Any, kind: str) -> str:
    if value is None or (kind == "json" and not value):
        return ""
    if kind in ("text", "long", "choice") and isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2 if kind == "json" else None)


def _value(field: FormField, text: str) -> Any:
    """Return the value that a text stands for. Raises ValueError, with what is wrong."""
    if field.kind in ("text", "long"):
        return text.replace("\r\n", "\n")
    if field.kind == "choice":
        if text not in field.choices:
            raise ValueError(f"{text!r} is none of {', '.join(field.choices)}")
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{text[:80]!r} is no {_NAMES[field.kind]}") from None
    is_of_type = isinstance(value, _TYPES.get(field.kind, object))
    # Python counts true and false as numbers.
    if not is_of_type or (field.kind in NUMBERS and isinstance(value, bool)):
        raise ValueError(f"{text[:80]!r} is no {_NAMES[field.kind]}")
    return value
