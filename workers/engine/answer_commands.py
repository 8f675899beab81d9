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
PLACEHOLDER = "..."
# Examples of values, by the format or else the type that a schema names.
EXAMPLES: Mapping[str, Any] = {
    "date-time": "2026-01-31T09:00:00Z",
    "date": "2026-01-31",
    "time": "09:00:00Z",
    "integer": 0,
    "number": 0,
    "boolean": False,
    "array": [],
    "object": {},
}


def text_field(choice: str) -> str:
    """Return the name of the field that has an answer's main text."""
    return TEXT_FIELDS.get(choice, "reason")


def example_answer(
    choice: str, schema: Mapping[str, Any], proposed: Mapping[str, Any]
) -> dict[str, Any]:
    """Return an answer with every field that the choice needs, to be filled in; {} if it has none.

    An edit has the values that are proposed now. Where the card asks for the values of one
    capability, the answer is its call with the values that are known.
    """
    payload, properties = proposed.get("payload") or {}, schema.get("properties") or {}
    if choice == "edit":
        shown = {name: payload[name] for name in EDITABLE if name in payload}
        return shown or _examples(properties, ("capability", "parameters"))
    asked = (properties.get("capability") or {}).get("const")
    if asked is not None:
        parameters = properties.get("parameters") or {}
        needed = _examples(parameters.get("properties") or {}, parameters.get("required") or ())
        return {"capability": asked, "parameters": {**needed, **payload.get("parameters", {})}}
    named = (text_field(choice),) if choice in TEXT_FIELDS else ()
    return _examples(properties, schema.get("required") or named)


def needs_answer(choice: str, schema: Mapping[str, Any]) -> bool:
    """Whether a choice is refused without any field."""
    return choice in ("edit", "provide") or bool(schema.get("required"))


def answer_flags(choice: str, answer: Mapping[str, Any]) -> str:
    """Return the options of `interlock decide` that give an answer, quoted for a shell."""
    if not answer:
        return ""
    if answer == {text_field(choice): PLACEHOLDER}:
        # In quotation marks, so that several words can take its place.
        return f" --text '{PLACEHOLDER}'"
    return f" --answer {shlex.quote(visible_json(answer))}"


def decide_command(
    record_id: str, choice: str, proposal: str, answer: Mapping[str, Any], deciders: Sequence[str]
) -> str:
    """Return the command line that makes a choice, as the first of those who may decide."""
    actor = ("--as", deciders[0]) if deciders else ()
    words = ("interlock", "decide", record_id, choice, "--proposal", proposal, *actor)
    return shlex.join(words) + answer_flags(choice, answer)


def _examples(properties: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return an example of each of these properties."""
    return {name: _example(properties.get(name) or {}) for name in names}


def _example(schema: Mapping[str, Any]) -> Any:
    for values in ("examples", "enum"):
        if schema.get(values):
            return schema[values][0]
    named = (str(schema.get(name)) for name in ("format", "type"))
    return next((EXAMPLES[name] for name in named if name in EXAMPLES), PLACEHOLDER)
