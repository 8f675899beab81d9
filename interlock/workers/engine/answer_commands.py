"""Makes the command lines that answer a card. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from interlock.workers.text import visible_json

# The field of an answer that `--text` stands for, by choice; a reason where none is named.
TEXT_FIELDS: Mapping[str, str] = {"redirect": "feedback", "provide": "text", "edit": "intent"}
# The fields of a proposal that a person may edit.
EDITABLE = ("intent", "item_ids", "parameters")
# What a person has to replace. No value that a capability would accept stands in its place: a
# command that is pasted as it is must be refused.
PLACEHOLDER = "..."


def text_field(choice: str) -> str:
    """Return the name of the field that has an answer's main text."""
    return TEXT_FIELDS.get(choice, "reason")


def example_answer(
    choice: str, schema: Mapping[str, Any], proposed: Mapping[str, Any]
) -> dict[str, Any]:
    """Return an answer with every field that the choice needs, to be filled in; {} if it has none.

    An edit has the values that are proposed now. Where the card asks for the values of one
    capability, the answer is its call with the values that are known; if only one is missing, that
    value as text is an answer.
    """
    payload, properties = proposed.get("payload") or {}, schema.get("properties") or {}
    if choice == "edit":
        shown = {name: payload[name] for name in EDITABLE if name in payload}
        return shown or _examples(
            properties, schema.get("required") or ("capability", "parameters")
        )
    asked = (properties.get("capability") or {}).get("const")
    if asked is not None:
        parameters = properties.get("parameters") or {}
        known = payload.get("parameters") or {}
        missing = [name for name in parameters.get("required") or () if name not in known]
        if len(missing) == 1:
            return {text_field(choice): PLACEHOLDER}
        needed = _examples(parameters.get("properties") or {}, missing)
        return {"capability": asked, "parameters": {**needed, **known}}
    named = (text_field(choice),) if choice in TEXT_FIELDS else ()
    any_of = [name for way in schema.get("anyOf") or () for name in way.get("required") or ()]
    return _examples(properties, schema.get("required") or named or any_of)


def unfilled(answer: Any) -> bool:
    """Whether an answer still has a placeholder of an example in it."""
    match answer:
        case dict():
            return any(map(unfilled, answer.values()))
        case list():
            return any(map(unfilled, answer))
        case _:
            return bool(answer == PLACEHOLDER)


def needs_answer(schema: Mapping[str, Any]) -> bool:
    """Whether a choice with this schema is refused without any field."""
    return bool(schema.get("required") or schema.get("anyOf"))


def answer_flags(choice: str, answer: Mapping[str, Any]) -> str:
    """Return the options of `interlock decide` that give an answer, quoted for a shell."""
    if not answer:
        return ""
    if answer == {text_field(choice): PLACEHOLDER}:
        # In quotation marks, so that several words can take its place.
        return f" --text '{PLACEHOLDER}'"
    if answer.keys() == {text_field(choice)}:
        return f" --text {shlex.quote(str(answer[text_field(choice)]))}"
    return f" --answer {shlex.quote(visible_json(answer))}"


def decide_command(
    record_id: str, choice: str, proposal: str, answer: Mapping[str, Any], deciders: Sequence[str]
) -> str:
    """Return the command line that makes a choice, as the first of those who may decide."""
    actor = ("--as", deciders[0]) if deciders else ()
    words = ("interlock", "decide", record_id, choice, "--proposal", proposal, *actor)
    return shlex.join(words) + answer_flags(choice, answer)


def _examples(properties: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return placeholders for these properties, each in the shape of its example or its type."""
    return {name: _example(properties.get(name) or {}) for name in names}


def _example(schema: Mapping[str, Any]) -> Any:
    shapes: Mapping[str, Any] = {"array": [PLACEHOLDER], "object": {"name": PLACEHOLDER}}
    given = schema.get("examples") or [shapes.get(str(schema.get("type")), PLACEHOLDER)]
    return _emptied(given[0])


def _emptied(value: Any) -> Any:
    """Return a value with a placeholder for each value inside it."""
    match value:
        case dict():
            return {name: _emptied(part) for name, part in value.items()}
        case list():
            return [*map(_emptied, value)]
        case _:
            return PLACEHOLDER
