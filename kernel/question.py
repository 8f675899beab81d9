"""The sentences that the questions of several machines' cards are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def shall_begin(data: Mapping[str, Any]) -> str:
    """Return the question of a record that waits for its first trigger."""
    del data
    return "Shall work on this begin?"


def failure_detail(data: Mapping[str, Any]) -> str:
    """Return the detail of a record's failure as a sentence, or an empty text."""
    return as_sentence((data.get("failure") or {}).get("detail", ""))


def failure_reason(data: Mapping[str, Any]) -> str:
    """Return the reason of a record's failure as a sentence."""
    failure = data.get("failure") or {}
    return as_sentence(failure.get("reason") or failure.get("detail") or "no reason was given")


def as_sentence(text: str) -> str:
    """Return a text with a full stop at its end, or an empty text."""
    text = text.strip()
    return text if not text or text.endswith((".", "!", "?", "…")) else f"{text}."
