"""The values that a capability may return, and how long ones are cut."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.kernel.traits import Children
from interlock.workers.gateways.capabilities.result import (
    VALUE_BYTES_MAX,
    InvalidResultError,
    SplitWork,
    check_split,
    fit,
)
from interlock.workers.text import one_line
from tests.any_text import any_text

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | any_text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc\u00e4\U0001f600"), inner),
    max_leaves=30,
)


class Colour(StrEnum):
    RED = "red"


@settings(deadline=None)
@given(JSON)
def test_plain_json_comes_back_unchanged(value: Any) -> None:
    assert fit(value) == (value, False)


@settings(deadline=None)
@given(JSON, st.integers(1, 1000))  # so that there are fewer values than may be looked at
def test_whatever_is_too_large_is_cut_to_fit_and_says_so(value: Any, times: int) -> None:
    plain, cut = fit([value] * times)

    assert len(json.dumps(plain, ensure_ascii=False).encode()) <= VALUE_BYTES_MAX
    assert cut or plain == [value] * times


def test_a_long_text_keeps_its_beginning() -> None:
    plain, cut = fit({"output": "\U0001f600" * VALUE_BYTES_MAX, "after": 1})

    assert cut
    assert plain["output"].startswith("\U0001f600" * 1000)
    assert "after" not in plain


def test_a_number_is_never_halved() -> None:
    plain, cut = fit([10**15] * 5000)

    assert cut
    assert set(plain) == {10**15}


def test_tuples_and_words_of_an_enum_become_plain() -> None:
    plain, _ = fit({"colours": (Colour.RED,)})

    assert plain == {"colours": ["red"]}
    assert type(plain["colours"][0]) is str


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (float("nan"), "result is nan"),
        ({"a": [1, float("inf")]}, "result.a[1] is inf"),
        ({"a": b"bytes"}, "result.a is a bytes"),
        ([object()], "result[0] is a object"),
        ({1: 2}, "has the key 1"),
        ("\ud800", "lone surrogate at 0"),
        ({"\udfff": 1}, "lone surrogate"),
        (2**63, "beyond 64 bits"),
        ({1, 2}, "is a set"),
    ],
)
def test_a_value_that_json_cannot_express_is_named_with_its_path(
    value: object, problem: str
) -> None:
    with pytest.raises(InvalidResultError) as raised:
        fit(value)

    assert problem in str(raised.value)
    str(raised.value).encode()


def test_a_cycle_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)

    with pytest.raises(InvalidResultError, match="nested deeper"):
        fit(loop)


def test_a_shared_part_that_unfolds_without_bound_is_refused() -> None:
    value: list[Any] = [1]
    for _ in range(30):
        value = [value, value]

    with pytest.raises(InvalidResultError, match="comes after 100000 other values"):
        fit(value)


def test_a_sentence_is_one_bounded_line_that_every_log_takes() -> None:
    line = one_line("first\n\n  second \ud800" + "x" * 5000)

    assert line.startswith("first second \\ud800")
    assert len(line) == 500
    line.encode()


@pytest.mark.parametrize("many", [0, Children.NUMBER_MAX + 1])
def test_a_split_has_at_least_one_child_and_at_most_so_many(many: int) -> None:
    with pytest.raises(InvalidResultError, match=f"must have 1 to {Children.NUMBER_MAX} members"):
        check_split(SplitWork(({"title": "a"},) * many, "group"))


def test_each_child_of_a_split_needs_a_title_and_plain_json() -> None:
    with pytest.raises(InvalidResultError, match="has no title"):
        check_split(SplitWork(({"title": "a"}, {"text": "b"}), "group"))
    with pytest.raises(InvalidResultError, match=r"children\[0\].fields is a bytes"):
        check_split(SplitWork(({"title": "a", "fields": b""},), "group"))
