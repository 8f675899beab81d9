"""Finds in English text the days that it names, counted from a moment.

The dateparser library does the calendar arithmetic of a written day and of a weekday. It reads
neither "a week on Friday" nor "the 7th of next month" nor "the last day of the month".
"""

from __future__ import annotations

import calendar
import re
import threading
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from importlib import import_module
from typing import Any

from interlock.systems.threads.inference.reading.mention import Mention, When
from interlock.systems.threads.inference.reading.words import MONTHS

# A day without a year that is this far ahead was probably meant for a day that has passed.
DAYS_AHEAD_MAX = 300
# Words as they are often misspelt.
TOMORROW = r"(?:tom+or+ow|tom+or+o|tmrw|tmr)"
MORNING = r"(?:mornin?g|mornng)"
_LANGUAGES = ["en"]
_WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_WEEKDAY = r"(?:mon|tue(?:s)?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\b\.?"
ORDINAL = r"(?:st|nd|rd|th)"
_NUMBER_WORDS = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
_NUMBERS: Mapping[str, int] = {
    **{word: number for number, word in enumerate(_NUMBER_WORDS.split(), 1)},
    "a": 1,
    "an": 1,
}
_COUNT = rf"(?:\d{{1,2}}|{'|'.join(_NUMBERS)})"
_BEFORE = (
    r"(?:(?:on|by|before|until|till|for|due(?: on| by)?|deadline(?: is|:)?|(?:no|not) later than)"
    r"(?: the coming| this coming| this| next| coming)? )?"
    r"(?:this coming |the coming |this |next |coming )?"
)
_LATEST = r"(?:,? (?:at )?the (?:very )?latest\b)?"
_WRITTEN = (
    r"\d{4}-\d{2}-\d{2}"
    r"|\d{1,2}\.\d{1,2}\.(?:\d{4})?"
    r"|\d{1,2}/\d{1,2}(?:/\d{4})?"
    rf"|(?:the )?\d{{1,2}}{ORDINAL}?(?: of)? {MONTHS}(?:,? \d{{4}}\b)?"
    rf"|{MONTHS} (?:the )?\d{{1,2}}{ORDINAL}?(?:,? \d{{4}}\b)?"
    rf"|the \d{{1,2}}{ORDINAL}"
)
_DAY = re.compile(
    rf"\b(?P<before>{_BEFORE})"
    rf"(?:(?:(?P<beside>{_WEEKDAY}),? )?(?P<written>{_WRITTEN})"
    rf"|(?P<weekday>{_WEEKDAY})"
    rf"|(?P<near>(?:the )?day after {TOMORROW}|{TOMORROW}|today|tonight)"
    r")(?!\w|:\d)"
    rf"{_LATEST}"
    rf"(?P<part>'?s? (?:in the )?(?:early |late )?(?:{MORNING}|afternoon|evening|night)\b)?",
    re.IGNORECASE,
)
_ANCHOR = rf"(?:{_WEEKDAY}|today|{TOMORROW}|now)"
# Days that are counted from others: "a week on Friday", "Friday week", "within ten days".
_COUNTED = re.compile(
    rf"\b{_BEFORE}(?:"
    rf"(?P<count>{_COUNT}) (?P<unit>day|week)s? (?:from|on|after) (?:the coming |this |next )?"
    rf"(?P<anchor>{_ANCHOR})"
    rf"|(?P<fortnight>a fortnight) (?:from|on|after) (?P<of_fortnight>{_ANCHOR})"
    rf"|(?P<ahead>{_ANCHOR}) (?P<later>week|fortnight)(?! \d)"
    rf"|(?:in|within)(?: the next)? (?:(?P<in_count>{_COUNT}) (?P<in_unit>day|week)s?(?:'? time)?"
    r"|(?P<in_fortnight>a fortnight)(?:'s time)?)"
    rf")(?!\w|'s){_LATEST}",
    re.IGNORECASE,
)
_OF_MONTH = re.compile(
    rf"\b{_BEFORE}(?:the )?(?:(?P<number>\d{{1,2}}){ORDINAL}(?: day)?(?: of)?"
    r"|(?P<last>last day of)"
    r"|(?:(?<=by )|(?<=before )|(?<=until )|(?<=till )|(?<=by the )|(?<=before the )"
    r"|(?<=until the )|(?<=till the ))end of)"
    rf" (?:(?P<next>next|the (?:coming|following)) month|(?P<this>this|the) month"
    rf"|(?P<month>{MONTHS})(?! \d))(?!\w){_LATEST}",
    re.IGNORECASE,
)
_OTHER_WORDS = frozenset({"mon", "wed", "fri", "sat", "sun"})
_YEAR = re.compile(r"\d{4}")
_MONTHS_MAX, _WEEK_DAYS = 12, 7
_LOCK = threading.Lock()


def counted(text: str, base: datetime) -> Iterator[Mention]:
    """Find the days that are counted from others or within a month."""
    for match in _COUNTED.finditer(text):
        anchor = (match["anchor"] or match["of_fortnight"] or match["ahead"] or "now").lower()
        first = base.date() if anchor == "now" else _calendar_day(anchor, base, written=False)
        if first is not None:
            when = When(day=first + timedelta(days=_days_later(match)))
            yield Mention(*match.span(), match.group().strip(), when)
    for match in _OF_MONTH.finditer(text):
        if match["number"] and match["month"]:
            # That is a written day.
            continue
        day = _day_of_month(match, base.date())
        why = None if day is not None else "there is no such day"
        yield Mention(*match.span(), match.group().strip(), When(day=day), why)


def _days_later(match: re.Match[str]) -> int:
    unit = match["unit"] or match["in_unit"] or match["later"] or "fortnight"
    said = (match["count"] or match["in_count"] or "one").lower()
    count = _NUMBERS.get(said) or int(said)
    each = {"day": 1, "week": _WEEK_DAYS, "fortnight": 2 * _WEEK_DAYS}[unit.lower()]
    return count * each


def _day_of_month(match: re.Match[str], today: date) -> date | None:
    """Return a day of this month, the next or a named one, or None if there is no such day."""
    year, month = today.year, today.month
    if match["month"]:
        month = [name.lower() for name in calendar.month_abbr].index(match["month"][:3].lower())
        year += month < today.month
    elif match["next"]:
        year, month = (year, month + 1) if month < _MONTHS_MAX else (year + 1, 1)
    last = calendar.monthrange(year, month)[1]
    number = int(match["number"]) if match["number"] else last
    day = date(year, month, number) if 1 <= number <= last else None
    return day if day is not None and day >= today else None


def days(text: str, base: datetime) -> Iterator[Mention]:
    """Find the days that a text names: "Friday", "3 May", "the day after tomorrow"."""
    for match in _DAY.finditer(text):
        if (match["weekday"] or "").lower() in _OTHER_WORDS:
            # These are words of their own where no time or day follows.
            after = text[match.end() : match.end() + 12]
            if not match["before"] and not re.match(r"[ ,]+(?:at |@ ?)?\d", after):
                continue
        day = _parsed(match, base)
        if day is None:
            why = "there is no such day, or day and month may be swapped"
            yield Mention(*match.span(), match.group().strip(), unclear=why)
            continue
        written = match["written"] or ""
        beside = (match["part"] or "").replace("'s", "").strip()
        unclear = None
        if match["beside"] and not _WEEKDAYS[day.weekday()].startswith(match["beside"][:3].lower()):
            unclear = f"{day} is a {_WEEKDAYS[day.weekday()].title()}"
        elif written and not _YEAR.search(written) and (day - base.date()).days > DAYS_AHEAD_MAX:
            unclear = f"the next one is {day}"
        when = When(day=day)
        yield Mention(*match.span(), match.group().strip(), when, unclear, beside=beside)


def _parsed(match: re.Match[str], base: datetime) -> date | None:
    named = match["written"] or match["weekday"] or match["near"]
    return _calendar_day(named, base, written=match["written"] is not None)


def _calendar_day(named: str, base: datetime, *, written: bool) -> date | None:
    dateparser: Any = import_module("dateparser")
    said = named.lower().removeprefix("the ").replace("tonight", "today").rstrip(".")
    if re.fullmatch(_WEEKDAY, said):
        # The library does not know "thurs".
        said = said[:3]
    said = re.sub(TOMORROW, "tomorrow", said)
    said = f"the {said}" if said.startswith("day after") else said
    order = "YMD" if said[:4].isdigit() else "DMY"
    if slashed := re.fullmatch(r"(\d{1,2})/(\d{1,2})(?:/\d{4})?", said):
        first, second = map(int, slashed.groups())
        if first <= _MONTHS_MAX and second <= _MONTHS_MAX and first != second:
            return None
        order = "MDY" if second > _MONTHS_MAX else "DMY"
    said = f"{said}." if re.fullmatch(r"\d{1,2}\.\d{1,2}", said) else said
    settings = {
        # The library takes a date of today for one a year ahead.
        "RELATIVE_BASE": base - timedelta(days=1) if written else base,
        "PREFER_DATES_FROM": "future",
        "DATE_ORDER": order,
        "TIMEZONE": "UTC",
        "RETURN_AS_TIMEZONE_AWARE": False,
    }
    # The library keeps caches and is not documented to be thread-safe.
    with _LOCK:
        moment = dateparser.parse(said, languages=_LANGUAGES, settings=settings)
    # The library reads "the 3rd", written on the 10th, as a day of last week.
    if isinstance(moment, datetime) and (_YEAR.search(said) or moment.date() >= base.date()):
        return moment.date()
    return None


def day_ends(text: str) -> frozenset[int]:
    """Return where the days end that a text names."""
    return frozenset(match.end() for match in _DAY.finditer(text))
