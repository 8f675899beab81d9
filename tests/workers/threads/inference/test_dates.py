from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

import pytest

from interlock.workers.threads.inference.dates import TEXT_CHARS_MAX, When, find

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
