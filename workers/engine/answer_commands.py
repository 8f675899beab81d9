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
PLACEHOLDERS: Mapping[str, Any] = {"integer": 0, "number": 0, "boolean": False, "array": []}


def text_field(choice: str) -> str:
    """Return the name of the field that has an answer's main text."""
    return TEXT_FIELDS.get(choice, "reason")


def example_answer(
    choice: str, schema: Mapping[str, Any], proposed: Mapping[str, Any]
) -> dict[str, Any]:
    """Return an answer with every field that the choice needs, to be filled in; {} if it has none.

    An edit has the values that are proposed now.
    """
    if choice == "edit":
        payload = proposed.get("payload") or {}
        shown = {name: payload[name] for name in EDITABLE if name in payload}
        return shown or {"capability": PLACEHOLDER, "parameters": {}}
    properties = schema.get("properties") or {}
    values = properties.get("values") or {}
    if missing := values.get("required"):
        kinds = values.get("properties") or {}
        return {"values": {name: _placeholder(kinds.get(name) or {}) for name in missing}}
    named = schema.get("required") or ([text_field(choice)] if choice in TEXT_FIELDS else [])
    return {name: _placeholder(properties.get(name) or {}) for name in named}


def needs_answer(choice: str, schema: Mapping[str, Any]) -> bool:
    """Whether a choice is refused without any field."""
    return choice in ("edit", "provide") or bool(schema.get("required"))


def answer_flags(choice: str, answer: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the options of `interlock decide` that give an answer."""
    if not answer:
        return ()
    if answer == {text_field(choice): PLACEHOLDER}:
        return ("--text", PLACEHOLDER)
    return ("--answer", visible_json(answer))


def decide_command(
    record_id: str, choice: str, proposal: str, answer: Mapping[str, Any], deciders: Sequence[str]
) -> str:
    """Return the command line that makes a choice, as the first of those who may decide."""
    actor = ("--as", deciders[0]) if deciders else ()
    flags = ("--proposal", proposal, *actor, *answer_flags(choice, answer))
    return shlex.join(("interlock", "decide", record_id, choice, *flags))


def _placeholder(schema: Mapping[str, Any]) -> Any:
    return PLACEHOLDERS.get(str(schema.get("type")), PLACEHOLDER)
