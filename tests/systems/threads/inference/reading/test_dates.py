from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

import pytest

from interlock.systems.threads.inference.reading.dates import (
    TEXT_CHARS_MAX,
    find,
    mentions,
    minutes_until,
    undated,
)
from interlock.systems.threads.inference.reading.mention import When

# A Tuesday.
AT = "2026-03-10T09:00:00+01:00"


@pytest.mark.parametrize(
    ("text", "day", "time_of_day"),
    [
        ("Friday at 9:30", date(2026, 3, 13), time(9, 30)),
        ("next Friday, 8pm", date(2026, 3, 13), time(20)),
        ("tomorrow at noon", date(2026, 3, 11), time(12)),
        ("the day after tomorrow at 9", date(2026, 3, 12), time(9)),
        ("tonight at 8", date(2026, 3, 10), time(20)),
        ("in two weeks from 10 o'clock", date(2026, 3, 24), time(10)),
        ("on 26 March 2026 at 19:30 in the gym", date(2026, 3, 26), time(19, 30)),
        ("March 26th, 2026, 7.30 pm", date(2026, 3, 26), time(19, 30)),
        ("1st of April", date(2026, 4, 1), None),
        ("the 24th at 7 p.m.", date(2026, 3, 24), time(19)),
        ("the 3rd of May at 7:15 am", date(2026, 5, 3), time(7, 15)),
        ("2026-04-02 14:30", date(2026, 4, 2), time(14, 30)),
        ("2026-04-02T14:30:00", date(2026, 4, 2), time(14, 30)),
        ("Saturday at eleven", date(2026, 3, 14), time(11)),
        ("Monday, quarter past nine in the morning", date(2026, 3, 16), time(9, 15)),
        ("dinner on Friday at 8", date(2026, 3, 13), time(20)),
        ("breakfast on saturday at 9", date(2026, 3, 14), time(9)),
        ("ten to twelve on Friday", date(2026, 3, 13), time(11, 50)),
        ("24.3. at 10:00", date(2026, 3, 24), time(10)),
        ("5.6.2026", date(2026, 6, 5), None),
        ("tomorrow afternoon at 3", date(2026, 3, 11), time(15)),
        ("12 am tomorrow", date(2026, 3, 11), time(0)),
        ("Friday 8 pm", date(2026, 3, 13), time(20)),
        ("Saturday, March 21 at 9:00", date(2026, 3, 21), time(9)),
        ("Monday the 23rd at 18:00", date(2026, 3, 23), time(18)),
        ("Tuesday 10 March at 10:30", date(2026, 3, 10), time(10, 30)),
        ("Sunday 2026-03-22 at 8:15", date(2026, 3, 22), time(8, 15)),
        ("7 January at 12:45", date(2027, 1, 7), time(12, 45)),
        ("a week on Saturday", date(2026, 3, 21), None),
        ("Friday week at 7 pm", date(2026, 3, 20), time(19)),
        ("two weeks from today", date(2026, 3, 24), None),
        ("a fortnight on Monday", date(2026, 3, 30), None),
        ("within ten days", date(2026, 3, 20), None),
        ("by the 7th of next month at the very latest", date(2026, 4, 7), None),
        ("the last day of this month", date(2026, 3, 31), None),
        ("by the end of the month", date(2026, 3, 31), None),
        ("by the end of February", date(2027, 2, 28), None),
        ("no later than 15 November", date(2026, 11, 15), None),
        ("this coming Friday, 6 pm", date(2026, 3, 13), time(18)),
        ("thurs 8.15 in the mornng", date(2026, 3, 12), time(8, 15)),
        ("tomorow at half ten", date(2026, 3, 11), time(10, 30)),
        ("Friday at two o'clock in the afternoon at ours", date(2026, 3, 13), time(14)),
    ],
)
def test_a_day_and_a_time_are_read(text: str, day: date, time_of_day: time | None) -> None:
    assert find([text], AT) == When(day, time_of_day)


@pytest.mark.parametrize(
    "text",
    [
        "we may meet again",
        "extension 4417, not 4471",
        "84.20 from the joint account",
        "version 2.14 in room 2.15",
        "31 February",
        "at 3",
        "at 8",
        "the sun is out",
        "call 0800-12:3",
        "the 3rd",
        "",
    ],
)
def test_what_is_not_clear_is_not_guessed(text: str) -> None:
    assert find([text], AT) == When()


def test_the_first_text_wins_and_the_next_fills_the_gaps() -> None:
    assert find(["at 17:00", "Friday at 9:30"], AT) == When(date(2026, 3, 13), time(17))


@pytest.mark.parametrize("at", [None, "yesterday", 5])
def test_without_a_moment_it_is_read_as_of_now(at: object) -> None:
    before = datetime.now(UTC).date()
    found = find(["tomorrow"], at)
    after = datetime.now(UTC).date()

    assert found.day in {before + timedelta(days=1), after + timedelta(days=1)}


def test_only_the_beginning_of_a_long_text_is_searched() -> None:
    assert find(["x " * TEXT_CHARS_MAX + "tomorrow at 9:00"], AT) == When()


@pytest.mark.parametrize(
    ("text", "begin", "minutes"),
    [
        ("half an hour", None, 30),
        ("for three quarters of an hour", None, 45),
        ("an hour and a half", None, 90),
        ("1.5 hours", None, 90),
        ("takes 1 hour 15 minutes", None, 75),
        ("90 min", None, 90),
        ("a one-hour call", None, 60),
        ("14:00-16:30", time(14), 150),
        ("from 9 to 10:30", time(9), 90),
        ("2 to 4 pm", time(14), 120),
        ("from 11am to 1pm", time(11), 120),
        ("9:00 until noon", time(9), 180),
        ("at 8am in the garage, until noon", time(8), 240),
        ("from 2 to 3:30", time(14), 90),
        ("a quater of an hour", None, 15),
        ("5 minutes", None, 5),
        ("7 seconds", None, None),
    ],
)
def test_a_length_and_an_end_are_read(text: str, begin: time | None, minutes: int | None) -> None:
    assert find([text], AT) == When(None, begin, minutes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("every Tuesday", "every"),
        ("the first Monday of the month", "first Monday of"),
        ("some time next week", "some time next week"),
        ("at the end of the month", "at the end of the month"),
        ("Friday or Saturday", "Friday or Saturday"),
        ("5 and 6 May", "5 and 6 May"),
        ("at 14:00 London time", "London time"),
        ("on 31 February", "on 31 February"),
        ("Wednesday 10 March", "Wednesday 10 March"),
        ("5 March", "5 March"),
        ("at 3", "at 3"),
        ("from 7 to 8", "from 7"),
        ("the 31st of next month", "the 31st of next month"),
        ("it takes a couple of hours", "a couple of hours"),
        ("Friday, for three weeks", "for three weeks"),
        ("Friday, then the Friday after", "the Friday after"),
        ("it goes on until five", "until five"),
    ],
)
def test_what_is_no_exact_time_is_named(text: str, words: str) -> None:
    assert [one.words for one in mentions(text, AT) if one.unclear] == [words]


@pytest.mark.parametrize(("begin", "minutes"), [(time(14), 180), (time(3), 120), (time(18), None)])
def test_an_end_without_a_begin_is_counted_from_one(begin: time, minutes: int | None) -> None:
    (mention,) = mentions("it goes on until five", AT)

    assert minutes_until(begin, mention.ends) == minutes


def test_a_text_without_its_times_reads_on() -> None:
    said = "Lunch with Tom on Friday at 12:30, half an hour, at Luigi's"

    assert undated(said, AT) == "Lunch with Tom, at Luigi's"
