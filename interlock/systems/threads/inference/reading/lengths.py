"""Lengths of time as people write them: "an hour and a half", "90 min", "half an hour".

dateparser reads moments and no lengths; of timelength and pytimeparse, neither reads "an hour and a
half" as ninety minutes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_NUMBERS: Mapping[str, float] = {
    "a": 1,
    "an": 1,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "eight": 8,
    "ten": 10,
    "fifteen": 15,
    "twenty": 20,
    "twenty-five": 25,
    "thirty": 30,
    "forty": 40,
    "forty-five": 45,
    "fifty": 50,
    "sixty": 60,
    "ninety": 90,
    "half a": 0.5,
    "half an": 0.5,
    "a half": 0.5,
    "a quarter of an": 0.25,
    # This is how the word is often misspelt.
    "a quater of an": 0.25,
    "quater of an": 0.25,
    "quarter of an": 0.25,
    "a quarter": 0.25,
    "three quarters of an": 0.75,
    "one and a half": 1.5,
    "two and a half": 2.5,
}
_ADDED: Mapping[str, float] = {"half": 0.5, "quarter": 0.25, "three quarters": 0.75}
_NUMBER = rf"(?:\d{{1,3}}(?:[.,]\d+)?|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
_HOUR_MIN = 60
LENGTH = re.compile(
    r"(?<![\w.:/-])(?:(?:for|takes?|lasts?|about|around|roughly|say) )*"
    rf"(?:(?P<hours>{_NUMBER})[ -]?(?:hours?|hrs?|h)\b"
    r"(?: and (?:a )?(?P<added>half|quarter|three quarters)\b"
    rf"|,? ?(?:and )?(?P<more>{_NUMBER})[ -]?(?:minutes?|mins?|m)\b)?"
    rf"|(?P<minutes>{_NUMBER})[ -]?(?:minutes?|mins?)\b)(?: long\b)?",
    re.IGNORECASE,
)


def length_min(match: re.Match[str]) -> int | None:
    """Return the whole minutes that a match of LENGTH means, or None if it has a part of one."""
    minutes = (
        _number(match["hours"]) * _HOUR_MIN + _number(match["minutes"]) + _number(match["more"])
    )
    minutes += _ADDED[match["added"].lower()] * _HOUR_MIN if match["added"] else 0
    return int(minutes) if minutes == int(minutes) else None


def _number(said: str | None) -> float:
    if said is None:
        return 0
    plain = said.lower()
    return _NUMBERS[plain] if plain in _NUMBERS else float(plain.replace(",", "."))
