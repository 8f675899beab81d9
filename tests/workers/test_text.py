"""Text for people: every character that could mislead them is an escape."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.kernel.amounts import dollars
from interlock.kernel.store.codec import storable
from interlock.workers.text import (
    clock,
    cut_to_bytes,
    duration,
    moment,
    visible,
    visible_data,
    visible_json,
    visible_line,
)
from tests.any_text import any_text

CATEGORIES = {"control characters": "Cc", "format characters": "Cf"}
MISLEADING = {
    "separators of lines": ["\u2028", "\u2029"],
    "directions": list("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"),
    "zero width": list("\u200b\u200c\u200d\u2060\ufeff\u180e\u034f\u115f\u3164"),
    "tags": [chr(point) for point in range(0xE0020, 0xE0080)],
    "halves of pairs": [chr(point) for point in range(0xD800, 0xE000)],
}


def misleading(kind: str) -> list[str]:
    """Return all characters of a kind."""
    if kind in MISLEADING:
        return MISLEADING[kind]
    every = map(chr, range(sys.maxunicode + 1))
    return [letter for letter in every if unicodedata.category(letter) == CATEGORIES[kind]]


@pytest.mark.parametrize("kind", [*CATEGORIES, *MISLEADING])
def test_every_misleading_character_is_an_escape_in_ascii(kind: str) -> None:
    for letter in misleading(kind):
        shown = visible_line(f"a{letter}b")
        assert shown.isascii(), hex(ord(letter))
        assert shown.isprintable(), hex(ord(letter))
        assert shown.startswith("a\\"), hex(ord(letter))


def test_the_escapes_are_those_of_source_code() -> None:
    assert visible("\x1b[2K\r\u202e\U000e0041") == r"\x1b[2K\r\u202e\U000e0041"
    assert visible("one\ntwo") == "one\ntwo"
    assert visible_line("one\ntwo") == r"one\ntwo"


@given(any_text())
def test_visible_text_is_not_changed_again_and_letters_stay(text: str) -> None:
    shown = visible_line(text)

    assert visible_line(shown) == shown
    assert all(letter in shown for letter in text if letter.isalnum() and letter.isprintable())


@given(st.dictionaries(any_text(), st.one_of(any_text(), st.integers(), st.lists(any_text()))))
def test_data_is_visible_and_json_loses_nothing(value: dict[str, object]) -> None:
    shown = json.dumps(visible_data(value), ensure_ascii=False)
    assert visible(shown) == shown

    text = visible_json(value)
    assert visible_line(text) == text
    assert json.loads(text) == value


def test_what_cannot_be_stored_is_escaped_wherever_it_is_in_the_data() -> None:
    name = b"caf\xe9.txt".decode(errors="surrogateescape")

    found = storable({"paths": [name, ("ü", 1)], name: "\ud800", "none": None})

    assert found == {"paths": [r"caf\xe9.txt", ["ü", 1]], r"caf\xe9.txt": r"\ud800", "none": None}


@given(st.text(), st.integers(min_value=3, max_value=40))
def test_a_text_that_is_cut_has_at_most_so_many_bytes_and_says_so(text: str, size: int) -> None:
    cut = cut_to_bytes(text, size, end="...")

    assert len(cut.encode()) <= size
    whole = len(text.encode()) <= size
    assert (cut == text) if whole else (cut.endswith("...") and text.startswith(cut[:-3]))


@pytest.mark.parametrize(
    ("micro", "text"),
    [
        (0, "$0.00"),
        (1, "$0.0000010"),
        (12_000, "$0.012"),
        (10_000, "$0.01"),
        (60_000, "$0.06"),
        (99_600, "$0.10"),
        (123_456, "$0.12"),
        (1_234_567, "$1.23"),
        (-500_000, "-$0.50"),
    ],
)
def test_money_has_cents_and_below_ten_cents_two_digits(micro: int, text: str) -> None:
    assert dollars(micro) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-5, "0 s"),
        (0, "0 s"),
        (200, "0.2 s"),
        (1_500, "1.5 s"),
        (10_900, "10 s"),
        (119_999, "119 s"),
        (120_000, "2 min"),
        (7_199_999, "119 min"),
        (7_200_000, "2 h"),
        (172_799_999, "47 h"),
        (172_800_000, "2 d"),
    ],
)
def test_a_length_of_time_is_told_in_one_unit(ms: int, text: str) -> None:
    assert duration(ms) == text


def test_a_time_has_its_date_and_says_that_it_is_utc() -> None:
    assert moment(1_767_225_599_999) == "2025-12-31 23:59:59 UTC"
    assert clock(1_767_225_599_007) == "23:59:59.007"
