"""Reads what people search for: `machine:thread state:failed older:1h words`."""

from __future__ import annotations

import re
from typing import Any

from interlock.kernel.errors import CallError

UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
NAMES = ("machine", "state", "effect", "parent", "id", "older")
_AGE = re.compile(r"(\d{1,6})([smhd])")
_TERM = re.compile(rf"({'|'.join(NAMES)}):(\S+)")


def conditions(text: str, now_ms: int) -> dict[str, Any]:
    """Return the conditions of a list, as `Client.page` takes them. Raises CallError."""
    found: dict[str, Any] = {}
    words = []
    for word in text.split():
        term = _TERM.fullmatch(word)
        if term is None:
            words.append(word)
            continue
        name, value = term.groups()
        if name == "older":
            found["since_ms"] = (0, now_ms - _age_ms(value))
        else:
            found["id_prefix" if name == "id" else name] = value
    return found | ({"text": " ".join(words)} if words else {})


def _age_ms(text: str) -> int:
    age = _AGE.fullmatch(text)
    if age is None:
        raise CallError(f"older:{text} is no time; write a number and s, m, h or d, as in older:1h")
    return int(age[1]) * UNITS_MS[age[2]]
