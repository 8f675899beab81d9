"""Finds in English text the days, the times of day and the lengths of time that it names.

The dateparser library does the calendar arithmetic ("next Friday", "in two weeks"). This module
decides which words mean a day or a time: in a whole text the library takes "we" for Wednesday.
Times are wall times without an offset, because the offset of a place changes with the season.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta

from interlock.systems.threads.inference.reading.days import (
    MORNING,
    ORDINAL,
    counted,
    day_ends,
    days,
)
from interlock.systems.threads.inference.reading.lengths import LENGTH, length_min
from interlock.systems.threads.inference.reading.mention import Mention, When
from interlock.systems.threads.inference.reading.words import MONTHS

TEXT_CHARS_MAX = 4_000
_HOUR_WORDS = "one two three four five six seven eight nine ten eleven twelve"
_HOURS = _HOUR_WORDS.split()
_HOUR = rf"(?:[01]?\d|2[0-3]|{'|'.join(_HOURS)})"
_HALF = r"(?: ?(?P<{0}>[ap])\.?m\b\.?| in the (?P<{0}_part>" + MORNING + r"|afternoon|evening))"
_AT = r"(?:at|from|about|around|@|until|till|(?:ends|ending|finishes) at|by|before)"
_TIME = re.compile(
    rf"(?<![\w.:-])(?P<at>{_AT} (?:about |around )?)?(?:"
    r"(?P<hour>[01]?\d|2[0-3])[:h](?P<minute>[0-5]\d)(?::00)?" + f"(?:{_HALF.format('half')})?"
    rf"|(?P<hour12>1[0-2]|0?[1-9]|{'|'.join(_HOURS)})(?:[.:](?P<minute12>[0-5]\d))?"
    + _HALF.format("half12")
    + r""
    r"|(?P<dotted>[01]?\d|2[0-3])\.(?P<dotted_minute>[0-5]\d)"
    rf"|(?P<relation>half|quarter|quater|ten|five|twenty)"
    rf"(?: past| (?P<to>to)|(?<=half)) (?P<past>{_HOUR})" + f"(?:{_HALF.format('half_past')})?"
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
_EARLY = re.compile(rf"\b(?:{MORNING}|breakfast)\b", re.IGNORECASE)
_VAGUE = re.compile(
    r"\b(?:(?:(?:by |at |before )?the )?(?:end|beginning|start|middle) of (?:the |this |next )?"
    rf"(?:week|month|year|quarter|{MONTHS})"
    r"|(?:some ?time |early |late |later |mid )?(?:this|next|the coming|coming|in the) "
    r"(?:week|weekend|month|year|spring|summer|autumn|fall|winter|few days|days|weeks)"
    r"|(?:at|over|on) the weekend|some ?time|some day|one of these days|in a (?:few|couple of) \w+"
    rf"|(?:in|during|by|before|early|late|mid)[ -]{MONTHS}(?! \d)|sooner|soon"
    r"|(?<!no )(?<!not )later"
    r"|the (?:\w*day|week|month) (?:after|before)(?! tomorrow)|(?:after|before) (?:next|that)"
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
    rf"|\b\d{{1,2}}{ORDINAL}?(?: and | or | ?[-\u2013&/] ?| to )"
    rf"(?:the )?\d{{1,2}}{ORDINAL}?(?: of)? {MONTHS}",
    re.IGNORECASE,
)
_ELSEWHERE = re.compile(
    r"\b(?:[A-Z]\w+ time|UTC|GMT|CES?T|E[SD]T|P[SD]T|BST)\b(?<!Lunch time)(?<!This time)"
)
_LEFT_OVER = re.compile(
    r"\b(?:(?P<length>(?:\w+ (?:of )?)?"
    r"(?:(?:an?|half|quarter|few|couple(?: of)?|several|some) |\d+ ?)"
    r"(?:hours?|hrs?|minutes?|mins?)\b)|(?P<run>for (?:\w+ )?(?:days|weeks|months|years)\b)"
    r"|(?:weeks?|fortnights?|months?)\b)",
    re.IGNORECASE,
)
_ISO = re.compile(r"\b(\d{4}-\d{2}-\d{2})T(?=\d{2}:)")
_NAMED_HOURS: Mapping[str, int] = {"noon": 12, "midday": 12, "midnight": 0}
_RELATIONS: Mapping[str, int] = {
    "half": 30,
    "quarter": 15,
    "quater": 15,
    "five": 5,
    "ten": 10,
    "twenty": 20,
}
_HALF_DAY, _DAY_HOURS, _HOUR_MIN = 12, 24, 60
# "At 3" may mean the afternoon or the night, and "at 8" the morning or the evening.
_UNCLEAR_MAX = 8
# "6:30" is as unclear, and "7:30" is the morning.
_UNCLEAR_TIME_MAX = 6
# "From 2 to 3:30" is the afternoon, while "from 7 to 8" may be the morning or the evening.
_AFTERNOON_MAX = 17


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
    for finder in (counted, _unclear, _lengths, days, _ranges, _times):
        for mention in finder(clipped, base):
            if not any(taken[mention.start : mention.end]):
                taken[mention.start : mention.end] = b"\1" * (mention.end - mention.start)
                found.append(mention)
    found += _left_over(clipped, taken)
    return sorted(found, key=lambda mention: mention.start)


def without(text: str, taken: Sequence[Mention]) -> str:
    """Return a text without the words of some of its mentions."""
    for mention in reversed(taken):
        text = f"{text[: mention.start].rstrip()} {text[mention.end :].lstrip()}"
        text = re.sub(r"\s+([,.;:!?])", r"\1", text)
        text = re.sub(r"[,;:]\s*(?=[,.;:])", "", text)
    return text.strip()


def minutes_until(begin: time, ends: Sequence[time]) -> int | None:
    """Return how long it is to the first of some times that is after a begin, or None."""
    lengths = [_minutes(end) - _minutes(begin) for end in ends if end > begin]
    return min(lengths, default=None)


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


def _left_over(text: str, taken: bytearray) -> Iterator[Mention]:
    """Find what names a time by its words and was read as none: "a couple of hours"."""
    for match in _LEFT_OVER.finditer(text):
        # A week beside a day changes the day: "Friday and the week after".
        beside = any(taken[max(match.start() - 2, 0) : match.end() + 6])
        said = match["length"] or match["run"]
        if not any(taken[match.start() : match.end()]) and (said or beside):
            why, run = "I cannot read it as a time", match["run"] is not None
            yield Mention(*match.span(), match.group().strip(), unclear=why, is_clock=run)


def _lengths(text: str, _: datetime) -> Iterator[Mention]:
    for match in LENGTH.finditer(text):
        minutes = length_min(match)
        if minutes is not None:
            yield Mention(*match.span(), match.group().strip(), When(minutes=minutes))


def _ranges(text: str, _: datetime) -> Iterator[Mention]:
    for match in _RANGE.finditer(text):
        first, last = match["first"].lower(), match["last"].lower()
        half_last = match["b"]
        half_first = match["a"] or half_last
        exact = ":" in first or half_first or match["from"] or ":" in last or last in _NAMED_HOURS
        if not exact:
            continue
        begin = _clock(first, half_first, text)
        if begin is None and half_first is None:
            begin = _clock(first, "p", text)
            if begin is not None and begin.hour > _AFTERNOON_MAX:
                begin = None
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
    behind_days = day_ends(text)
    for match in _TIME.finditer(text):
        # "2.15" is a time behind "at" or a day alone.
        behind_day = match.start() - 2 in behind_days or match.start() - 1 in behind_days
        if match["dotted"] and not (match["at"] or behind_day):
            continue
        if match["bare"] and not match["at"] and "clock" not in match.group():
            continue
        exact = "clock" in match.group().lower() or _half(match, "half_bare")
        if (
            (match["bare"] or "").lower() in _HOURS
            and not exact
            and re.match(
                r" (?!at |o'clock|on |in the|tomorrow|today|tonight|and |sharp|for |with )\w",
                text[match.end() :],
            )
        ):
            continue
        moment = _read_time(match, text)
        said = match.group().strip()
        ends = re.match(r"(?:until|till|end|finish)", said, re.IGNORECASE) is not None
        if ends and previous is None:
            why = "its begin is not beside it"
            yield Mention(*match.span(), said, unclear=why, ends=_either(match, moment))
        elif moment is None:
            why = "it may be the morning or the afternoon"
            yield Mention(*match.span(), said, unclear=why, is_clock=True)
        elif ends and previous is not None:
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


def _either(match: re.Match[str], moment: time | None) -> tuple[time, ...]:
    """Return a time, or the two of the day where it is not clear which half is meant."""
    said = match["bare"] or match["hour"]
    if moment is not None or not said:
        return (moment,) if moment is not None else ()
    minute = f":{match['minute']}" if match["minute"] else ""
    both = (_clock(f"{said.lower()}{minute}", half, "") for half in ("a", "p"))
    return tuple(one for one in both if one is not None)


def _half(match: re.Match[str], name: str) -> str | None:
    if part := match[f"{name}_part"]:
        return "a" if part.lower().startswith("m") else "p"
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
