"""Finds in English text the days, the times of day and the lengths of time that it names.

The dateparser library does the calendar arithmetic ("next Friday", "in two weeks"). This module
decides which words mean a day or a time: in a whole text the library takes "we" for Wednesday.
Times are wall times without an offset, because the offset of a place changes with the season.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from importlib import import_module
from typing import Any

from interlock.workers.threads.inference.reading.lengths import LENGTH, length_min
from interlock.workers.threads.inference.reading.words import MONTHS

TEXT_CHARS_MAX = 4_000
# A day without a year that is this far ahead was probably meant for a day that has passed.
DAYS_AHEAD_MAX = 300
_LANGUAGES = ["en"]
_WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_WEEKDAY = r"(?:mon|tue(?:s)?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\b\.?"
_ORDINAL = r"(?:st|nd|rd|th)"
_COUNT = r"(?:\d{1,2}|an?|one|two|three|four|five|six)"
_WRITTEN = (
    r"\d{4}-\d{2}-\d{2}"
    r"|\d{1,2}\.\d{1,2}\.(?:\d{4})?"
    r"|\d{1,2}/\d{1,2}(?:/\d{4})?"
    rf"|(?:the )?\d{{1,2}}{_ORDINAL}?(?: of)? {MONTHS}(?:,? \d{{4}}\b)?"
    rf"|{MONTHS} (?:the )?\d{{1,2}}{_ORDINAL}?(?:,? \d{{4}}\b)?"
    rf"|the \d{{1,2}}{_ORDINAL}"
)
_DAY = re.compile(
    r"\b(?P<before>(?:(?:on|by|before|until|till|for|due(?: on| by)?|deadline(?: is)?)"
    r"(?: the coming| this coming| this| next| coming)? )?(?:this |next |coming )?)"
    rf"(?:(?:(?P<beside>{_WEEKDAY}),? )?(?P<written>{_WRITTEN})"
    rf"|(?P<weekday>{_WEEKDAY})"
    r"|(?P<near>(?:the )?day after tomorrow|tomorrow|tmrw|tmr|today|tonight)"
    rf"|(?P<count>in {_COUNT} (?:day|week)s?)"
    r")(?!\w|:\d)"
    r"(?P<part>'?s? (?:in the )?(?:early |late )?(?:morning|afternoon|evening|night)\b)?",
    re.IGNORECASE,
)
_OTHER_WORDS = frozenset({"mon", "wed", "fri", "sat", "sun"})
_HOUR_WORDS = "one two three four five six seven eight nine ten eleven twelve"
_HOURS = _HOUR_WORDS.split()
_HOUR = rf"(?:[01]?\d|2[0-3]|{'|'.join(_HOURS)})"
_HALF = r"(?: ?(?P<{0}>[ap])\.?m\b\.?| in the (?P<{0}_part>morning|afternoon|evening))"
_AT = r"(?:at|from|about|around|@|until|till|(?:ends|ending|finishes) at|by|before)"
_TIME = re.compile(
    rf"(?<![\w.:-])(?P<at>{_AT} (?:about |around )?)?(?:"
    r"(?P<hour>[01]?\d|2[0-3])[:h](?P<minute>[0-5]\d)(?::00)?" + f"(?:{_HALF.format('half')})?"
    rf"|(?P<hour12>1[0-2]|0?[1-9]|{'|'.join(_HOURS)})(?:[.:](?P<minute12>[0-5]\d))?"
    + _HALF.format("half12")
    + r""
    r"|(?P<dotted>[01]?\d|2[0-3])\.(?P<dotted_minute>[0-5]\d)"
    rf"|(?P<relation>half|quarter|ten|five|twenty)(?: past| (?P<to>to)) (?P<past>{_HOUR})"
    + f"(?:{_HALF.format('half_past')})?"
    r"|(?P<name>noon|midday|midnight)\b"
    rf"|(?P<bare>{_HOUR})(?: o'clock)?" + f"(?:{_HALF.format('half_bare')})?"
    r")(?![\w:/-]|[.,]\d| ?[ap]\.?m\b)",
    re.IGNORECASE,
)
_RANGE = re.compile(
    rf"(?<![\w.:-])(?P<from>from |between )?(?P<first>{_HOUR}(?:[:.][0-5]\d)?)"
    r"(?: ?(?P<a>[ap])\.?m\b\.?)?"
    r"\s*(?:-|\u2013|to|till|until|and)\s*"
    rf"(?P<last>{_HOUR}(?:[:.][0-5]\d)?|noon|midday|midnight)"
    r"(?: ?(?P<b>[ap])\.?m\b\.?)?(?![\w:/%.-]*\w)",
    re.IGNORECASE,
)
_LATE = re.compile(
    r"\b(?:afternoon|evening|tonight|dinner|supper|drinks|theatre|concert|cinema|party)\b",
    re.IGNORECASE,
)
_EARLY = re.compile(r"\b(?:morning|breakfast)\b", re.IGNORECASE)
_VAGUE = re.compile(
    r"\b(?:(?:(?:by |at |before )?the )?(?:end|beginning|start|middle) of (?:the |this |next )?"
    rf"(?:week|month|year|quarter|{MONTHS})"
    r"|(?:some ?time |early |late |later |mid )?(?:this|next|the coming|coming|in the) "
    r"(?:week|weekend|month|year|spring|summer|autumn|fall|winter|few days|days|weeks)"
    r"|(?:at|over|on) the weekend|some ?time|some day|one of these days|in a (?:few|couple of) \w+"
    rf"|(?:in|during|by|before|early|late|mid)[ -]{MONTHS}(?! \d)|soon|(?:sooner|later)"
    r"|in \w+ (?:months?|years?)|eow|eod|fortnight|asap|yesterday"
    r"|last (?:week|month|night|year))\b",
    re.IGNORECASE,
)
_REPEATED = re.compile(
    r"\b(?:every|each|(?:daily|weekly|fortnightly|monthly|quarterly|yearly|annually)"
    r"(?=\W*$|[,.;]| at | on | from | until | starting )"
    r"|(?:first|second|third|fourth|last) (?:mon|tues|wednes|thurs|fri|satur|sun)day (?:of|in)"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)days|biweekly|twice|once a|times a)\b",
    re.IGNORECASE,
)
_ALTERNATIVE = re.compile(
    r"\b(?:\d{1,2}(?::\d\d)?(?: ?[ap]m)?|\w+day|tomorrow|noon) or (?:at |on )?"
    r"(?:\d{1,2}\b|\w+day\b|tomorrow\b|the day after|noon)"
    rf"|\b\d{{1,2}}{_ORDINAL}?(?: and | or | ?[-\u2013&/] ?| to )"
    rf"(?:the )?\d{{1,2}}{_ORDINAL}?(?: of)? {MONTHS}",
    re.IGNORECASE,
)
_ELSEWHERE = re.compile(
    r"\b(?:[A-Z]\w+ time|UTC|GMT|CES?T|E[SD]T|P[SD]T|BST)\b(?<!Lunch time)(?<!This time)"
)
_ISO = re.compile(r"\b(\d{4}-\d{2}-\d{2})T(?=\d{2}:)")
_LOCK = threading.Lock()
_YEAR = re.compile(r"\d{4}")
_NAMED_HOURS: Mapping[str, int] = {"noon": 12, "midday": 12, "midnight": 0}
_RELATIONS: Mapping[str, int] = {"half": 30, "quarter": 15, "five": 5, "ten": 10, "twenty": 20}
_MONTHS_MAX = 12
_HALF_DAY, _DAY_HOURS, _HOUR_MIN = 12, 24, 60
# "At 3" may mean the afternoon or the night, and "at 8" the morning or the evening.
_UNCLEAR_MAX = 8
# "6:30" is as unclear, and "7:30" is the morning.
_UNCLEAR_TIME_MAX = 6


@dataclass(frozen=True, slots=True)
class When:
    """A day, a time of day and a length of time; each is None if it is not known."""

    day: date | None = None
    time_of_day: time | None = None
    minutes: int | None = None

    def or_else(self, other: When) -> When:
        """Return a copy with the unknown parts taken from `other`."""
        return When(
            self.day or other.day,
            self.time_of_day or other.time_of_day,
            self.minutes if self.minutes is not None else other.minutes,
        )


@dataclass(frozen=True, slots=True)
class Mention:
    """Some words of a text that name a time: what they mean, or why that is not clear."""

    start: int
    end: int
    words: str
    when: When = When()
    unclear: str | None = None
    # Whether it names a time, but no exact one: "next week".
    is_vague: bool = False
    # Whether it names a time of day, and not a day.
    is_clock: bool = False
    # The part of a day or another addition that `when` has no place for: "morning".
    beside: str = ""


def find(texts: Sequence[str], moment: object) -> When:
    """Return the first day, time of day and length in the texts, counted from a moment."""
    found = When()
    for text in texts:
        for mention in mentions(text, moment):
            found = found.or_else(mention.when)
    return found


def mentions(text: str, moment: object) -> list[Mention]:
    """Return what a text says about time, in its order; the words of no two mentions overlap."""
    base = _wall_time(moment)
    clipped = _ISO.sub(r"\1 ", text[:TEXT_CHARS_MAX])
    found: list[Mention] = []
    taken = bytearray(len(clipped))
    for finder in (_unclear, _lengths, _days, _ranges, _times):
        for mention in finder(clipped, base):
            if not any(taken[mention.start : mention.end]):
                taken[mention.start : mention.end] = b"\1" * (mention.end - mention.start)
                found.append(mention)
    return sorted(found, key=lambda mention: mention.start)


def without(text: str, taken: Sequence[Mention]) -> str:
    """Return a text without the words of some of its mentions."""
    for mention in reversed(taken):
        text = f"{text[: mention.start].rstrip()} {text[mention.end :].lstrip()}"
        text = re.sub(r"\s+([,.;:!?])", r"\1", text)
        text = re.sub(r"[,;:]\s*(?=[,.;:])", "", text)
    return text.strip()


def undated(text: str, moment: object) -> str:
    """Return a text without the words that name a time."""
    return without(text, [one for one in mentions(text, moment) if not one.unclear])


def _wall_time(moment: object) -> datetime:
    if isinstance(moment, str):
        try:
            return datetime.fromisoformat(moment).replace(tzinfo=None)
        except ValueError:
            pass
    return datetime.now(UTC).replace(tzinfo=None)


def _unclear(text: str, _: datetime) -> Iterator[Mention]:
    for pattern, why in (
        (_REPEATED, "it is to happen more than once"),
        (_ALTERNATIVE, "it gives more than one time"),
        (_VAGUE, "it is no exact day or time"),
        (_ELSEWHERE, "it is the time of another place"),
    ):
        for match in pattern.finditer(text):
            vague = pattern is _VAGUE
            yield Mention(*match.span(), match.group().strip(), unclear=why, is_vague=vague)


def _lengths(text: str, _: datetime) -> Iterator[Mention]:
    for match in LENGTH.finditer(text):
        minutes = length_min(match)
        if minutes is not None:
            yield Mention(*match.span(), match.group().strip(), When(minutes=minutes))


def _days(text: str, base: datetime) -> Iterator[Mention]:
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
    dateparser: Any = import_module("dateparser")
    named = match["written"] or match["weekday"] or match["near"] or match["count"]
    said = named.lower().removeprefix("the ").replace("tonight", "today").rstrip(".")
    said = said.replace("tmrw", "tomorrow").replace("tmr", "tomorrow")
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
        "RELATIVE_BASE": base - timedelta(days=1) if match["written"] else base,
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


def _ranges(text: str, _: datetime) -> Iterator[Mention]:
    for match in _RANGE.finditer(text):
        first, last = match["first"].lower(), match["last"].lower()
        half_last = match["b"]
        half_first = match["a"] or half_last
        exact = ":" in first or half_first or match["from"] or ":" in last or last in _NAMED_HOURS
        if not exact:
            continue
        begin = _clock(first, half_first, text)
        end = _clock(last, half_last, text) or _clock(last, "p", text)
        if begin is None or end is None:
            continue
        if match["a"] is None and half_last and begin > end:
            begin = begin.replace(hour=begin.hour - _HALF_DAY)
        minutes = _minutes(end) - _minutes(begin)
        if minutes <= 0 and half_last is None and end.hour < _HALF_DAY:
            minutes += _HALF_DAY * _HOUR_MIN
        when = When(time_of_day=begin, minutes=minutes if minutes > 0 else None)
        why = None if minutes > 0 else "its end is before its begin"
        yield Mention(*match.span(), match.group().strip(), when, why)


def _times(text: str, _: datetime) -> Iterator[Mention]:
    previous: time | None = None
    behind_days = {match.end() for match in _DAY.finditer(text)}
    for match in _TIME.finditer(text):
        # "2.15" is a time behind "at" or a day alone.
        behind_day = match.start() - 2 in behind_days or match.start() - 1 in behind_days
        if match["dotted"] and not (match["at"] or behind_day):
            continue
        if match["bare"] and not match["at"] and "clock" not in match.group():
            continue
        if (match["bare"] or "").lower() in _HOURS and re.match(
            r" (?!o'clock|on |in the|tomorrow|today|tonight|and |sharp|for |with )\w",
            text[match.end() :],
        ):
            continue
        moment = _read_time(match, text)
        said = match.group().strip()
        if moment is None:
            why = "it may be the morning or the afternoon"
            yield Mention(*match.span(), said, unclear=why, is_clock=True)
        elif previous is not None and re.match(r"(?:until|till|end|finish)", said, re.IGNORECASE):
            minutes = _minutes(moment) - _minutes(previous)
            when = When(minutes=minutes if minutes > 0 else None)
            backwards = None if minutes > 0 else "its end is before its begin"
            yield Mention(*match.span(), said, when, backwards)
        else:
            previous = previous or moment
            yield Mention(*match.span(), said, When(time_of_day=moment))


def _read_time(match: re.Match[str], text: str) -> time | None:
    if name := match["name"]:
        return time(_NAMED_HOURS[name.lower()])
    if relation := match["relation"]:
        past = _clock(match["past"].lower(), _half(match, "half_past"), text)
        if past is None:
            return None
        shift = _RELATIONS[relation.lower()] * (-1 if match["to"] else 1)
        return (datetime.combine(date.min, past, UTC) + timedelta(days=1, minutes=shift)).time()
    if match["dotted"]:
        return time(int(match["dotted"]), int(match["dotted_minute"]))
    said = (match["hour"] or match["hour12"] or match["bare"]).lower()
    minute = match["minute"] or match["minute12"]
    half = _half(match, "half") or _half(match, "half12") or _half(match, "half_bare")
    return _clock(f"{said}:{minute}" if minute else said, half, text)


def _half(match: re.Match[str], name: str) -> str | None:
    if part := match[f"{name}_part"]:
        return "a" if part.lower() == "morning" else "p"
    return match[name]


def _clock(said: str, half: str | None, text: str) -> time | None:
    """Return the time that a clock's words mean, or None where the half of the day is not clear."""
    if said in _NAMED_HOURS:
        return time(_NAMED_HOURS[said])
    written, _, minute = said.replace(".", ":").partition(":")
    hour = _HOURS.index(written) + 1 if written in _HOURS else int(written)
    if half is None and hour < _HALF_DAY and not written.startswith("0"):
        late, early = _LATE.search(text), _EARLY.search(text)
        if late and not early and (hour <= _UNCLEAR_MAX or not minute):
            half = "p"
        elif early and not late:
            half = "a"
        elif hour <= (_UNCLEAR_TIME_MAX if minute else _UNCLEAR_MAX):
            return None
    if half is not None and hour <= _HALF_DAY:
        hour = hour % _HALF_DAY + (_HALF_DAY if half.lower() == "p" else 0)
    return time(hour, int(minute or 0)) if hour < _DAY_HOURS else None


def _minutes(moment: time) -> int:
    return moment.hour * _HOUR_MIN + moment.minute
