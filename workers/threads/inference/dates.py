"""Finds in English text the day and the time of day when something is to happen.

The dateparser library does the calendar arithmetic ("next Friday", "in two weeks"). This module
decides which words mean a day or a time: in a whole text the library takes "we" for Wednesday.
Times are wall times without an offset, because the offset of a place changes with the season.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from importlib import import_module
from typing import Any

TEXT_CHARS_MAX = 4_000
_LANGUAGES = ["en"]
_MONTHS = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_WEEKDAYS = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_ORDINAL = r"(?:st|nd|rd|th)"
_COUNT = r"(?:\d{1,2}|an?|one|two|three|four|five|six)"
_WRITTEN = (
    r"\d{4}-\d{2}-\d{2}"
    r"|\d{1,2}\.\d{1,2}\.(?:\d{4})?"
    rf"|(?:the )?\d{{1,2}}{_ORDINAL}?(?: of)? {_MONTHS}(?:,? \d{{4}}\b)?"
    rf"|{_MONTHS} \d{{1,2}}{_ORDINAL}?(?:,? \d{{4}})?"
    rf"|the \d{{1,2}}{_ORDINAL}"
)
_DAY = re.compile(
    rf"\b(?:(?P<written>{_WRITTEN})"
    # A weekday beside a date adds nothing to the date.
    rf"|{_WEEKDAYS}(?!,? (?:{_WRITTEN})(?![\w:]))"
    r"|the day after tomorrow|tomorrow|today|tonight"
    rf"|in {_COUNT} (?:day|week)s?"
    r")(?![\w:])",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"(?<![\w.:-])(?:"
    r"(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?: ?(?P<half>[ap])\.?m\b\.?)?"
    r"|(?P<hour12>1[0-2]|0?[1-9])(?:[.](?P<minute12>[0-5]\d))? ?(?P<half12>[ap])\.?m\b\.?"
    r"|(?P<name>noon|midday|midnight)\b"
    r"|(?:at|from) (?P<bare>[01]?\d|2[0-3])(?: o'clock)?(?![\w:/-]|[.,]\d| ?[ap]\.?m\b)"
    r")",
    re.IGNORECASE,
)
_LATE = re.compile(r"\b(?:afternoon|evening|tonight)\b", re.IGNORECASE)
_ISO = re.compile(r"\b(\d{4}-\d{2}-\d{2})T(?=\d{2}:)")
_LOCK = threading.Lock()
_YEAR = re.compile(r"\d{4}")
_NAMED_HOURS: Mapping[str, int] = {"noon": 12, "midday": 12, "midnight": 0}
_HALF_DAY = 12
# "At 3" may mean the afternoon or the night, so no time is read from it.
_UNCLEAR = frozenset({"1", "2", "3", "4", "5", "6"})


@dataclass(frozen=True, slots=True)
class When:
    """A day and a time of day; each is None if it is not known."""

    day: date | None = None
    time_of_day: time | None = None

    def or_else(self, other: When) -> When:
        """Return a copy with the unknown parts taken from `other`."""
        return When(self.day or other.day, self.time_of_day or other.time_of_day)


def find(texts: Iterable[str], moment: object) -> When:
    """Return the first day and the first time of day in the texts, counted from a moment."""
    base = _wall_time(moment)
    found = When()
    for text in texts:
        clipped = _ISO.sub(r"\1 ", text[:TEXT_CHARS_MAX])
        found = found.or_else(When(_first_day(clipped, base), _first_time(clipped)))
    return found


def _wall_time(moment: object) -> datetime:
    if isinstance(moment, str):
        try:
            return datetime.fromisoformat(moment).replace(tzinfo=None)
        except ValueError:
            pass
    return datetime.now(UTC).replace(tzinfo=None)


def _first_day(text: str, base: datetime) -> date | None:
    dateparser: Any = import_module("dateparser")
    for match in _DAY.finditer(text):
        words = match.group().lower().removeprefix("the ").replace("tonight", "today")
        settings = {
            # The library takes a date of today for one a year ahead.
            "RELATIVE_BASE": base - timedelta(days=1) if match["written"] else base,
            "PREFER_DATES_FROM": "future",
            "DATE_ORDER": "YMD" if words[:4].isdigit() else "DMY",
            "TIMEZONE": "UTC",
            "RETURN_AS_TIMEZONE_AWARE": False,
        }
        # The library keeps caches and is not documented to be thread-safe.
        with _LOCK:
            moment = dateparser.parse(words, languages=_LANGUAGES, settings=settings)
        # The library reads "the 3rd", written on the 10th, as a day of last week.
        if isinstance(moment, datetime) and (_YEAR.search(words) or moment.date() >= base.date()):
            return moment.date()
    return None


def _first_time(text: str) -> time | None:
    match = _TIME.search(text)
    if match is None:
        return None
    if name := match["name"]:
        return time(_NAMED_HOURS[name.lower()])
    written = match["hour"] or match["hour12"] or match["bare"]
    hour = int(written)
    half = match["half"] or match["half12"] or ("p" if _LATE.search(text) else None)
    if half is None and written in _UNCLEAR:
        return None
    if half is not None and hour <= _HALF_DAY:
        hour = hour % _HALF_DAY + (_HALF_DAY if half.lower() == "p" else 0)
    return time(hour, int(match["minute"] or match["minute12"] or 0))
