"""The sentences that the questions of several machines' cards are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.kernel.shortened import shortened

VALUE_LENGTH_MAX = 120
TITLE_LENGTH_MAX = 200


def shall_begin(data: Mapping[str, Any]) -> str:
    """Return the question of a record that waits for its first trigger."""
    del data
    return "Shall work on this begin?"


def nothing(data: Mapping[str, Any]) -> str:
    """Return an empty text, whatever the record's data."""
    del data
    return ""


def title_in(data: Mapping[str, Any]) -> str:
    """Return the title in a record's data, or else its description, or ''."""
    return str(data.get("title") or data.get("description") or "")


def as_title(text: str) -> str:
    """Return the first line of a text, as the title of a record."""
    return text.strip().partition("\n")[0][:TITLE_LENGTH_MAX]


def inner(data: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return what data have below these names, or nothing where that is no mapping.

    The data of a workflow may have fields of any kind under names that our machines use too.
    """
    for name in names:
        found = data.get(name)
        data = found if isinstance(found, Mapping) else {}
    return data


def value_text(value: Any) -> str:
    """Return a value so that its type can be seen: 25 is a number, '25' is a text."""
    return shortened(repr(value), VALUE_LENGTH_MAX)


def action_line(payload: Mapping[str, Any]) -> str:
    """Return an action as one line, with its values.

    In the question of a card that proposes this action the console shows its name instead.
    """
    parameters = payload.get("parameters") or {}
    shown = ", ".join(f"{name}={value_text(value)}" for name, value in sorted(parameters.items()))
    return f"{payload.get('capability') or payload.get('summary') or payload.get('kind')}({shown})"


def as_sentence(text: str) -> str:
    """Return a text with a full stop at its end, or an empty text."""
    text = text.strip()
    return text if not text or text.endswith((".", "!", "?", "…")) else f"{text}."
