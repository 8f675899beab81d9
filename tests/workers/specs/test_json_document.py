"""JSON with lines, compared with Python's own JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.workers.specs import json_document
from interlock.workers.specs.json_document import read_json
from interlock.workers.specs.node import DEPTH_MAX, NODES_MAX, NUMBER_LENGTH_MAX, UnreadableError
from tests.any_text import any_text

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | any_text()
VALUES = st.recursive(
    SCALARS.filter(lambda value: value not in (float("inf"), float("-inf"))),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(any_text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


def refusal(text: str) -> str:
    """Return why a text cannot be read, with its line."""
    with pytest.raises(UnreadableError) as refused:
        read_json(text)
    return f"{refused.value.line}: {refused.value.problem}"


@given(value=VALUES, indent=st.sampled_from([None, 1, "\t"]), plain=st.booleans())
def test_json_is_read(value: Any, indent: int | str | None, *, plain: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=plain)

    assert read_json(text).plain() == value
    assert read_json(f" \r\n\t{text}\n").line == 2


@given(
    text=st.text(alphabet='{}[]:,"\\ 0-1.eEtruefalsnNaIi\n\tu', max_size=20) | any_text(max_size=9)
)
@example("")
@example('{"a": 1,}')
@example("[1,]")
@example("[,]")
@example("NaN")
@example("-Infinity")
@example("01")
@example("\ufeff1")
@example('"\\ud800"')
def test_a_text_that_python_refuses_as_json_is_refused(text: str) -> None:
    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        value = json.loads(text, parse_constant=refuse)
    except ValueError:
        assert "it is not JSON: " in refusal(text)
        return
    try:
        assert read_json(text).plain() == value
    except UnreadableError as error:
        assert "is there twice" in error.problem  # noqa: PT017 - Python accepts this text and takes the last one


def test_every_value_has_its_place_and_its_text() -> None:
    root = read_json('{"a": 1.50,\n "b":\n  [\n"x\\n", -0],\n"c": {}}')

    assert [(key, *node[:2]) for key, node in root.value.items()] == [
        ("a", 1, 2),
        ("b", 2, 2),
        ("c", 5, 1),
    ]
    assert [(*node[:2], node.text) for node in root.value["b"].value] == [
        (4, 1, "x\n"),
        (4, 8, "-0"),
    ]
    assert root.value["a"].text == "1.50"


REFUSED = [
    ('{"a": 1,\n "b" 2}', "2: it is not JSON: expected ':'; correct it"),
    ('{"a": 1\n "b": 2}', "2: it is not JSON: expected ','; correct it"),
    ('{"a": 1,\n}', "2: it is not JSON: expected a name in double quotes; correct it"),
    ("[1,\n\n 2", "3: it is not JSON: expected ','; correct it"),
    ("[1,\n\n tru]", "3: it is not JSON: Expecting value; correct it"),
    ('[1,\n "a\tb"]', "2: it is not JSON: Invalid control character; correct it"),
    ('[1,\n "a\n"]', "2: it is not JSON: Invalid control character; correct it"),
    ("[1,\n NaN]", "2: it is not JSON: NaN is not a number in JSON; correct it"),
    ("[1]\n x", "2: it is not JSON: 'x' comes after its end; correct it"),
    ('{"a": 1,\n "a": 2}', "2: 'a' is there twice, first in line 1; remove one"),
    ("[" * (DEPTH_MAX + 1), f"1: it is nested deeper than {DEPTH_MAX} levels; make it flatter"),
    ("1" * (NUMBER_LENGTH_MAX + 1), "1: it is not JSON: a number of 101 characters is too long"),
    ("1" * 5_000, "1: it is not JSON: Exceeds the limit"),
    ("", "1: it is not JSON: Expecting value; correct it"),
]


@pytest.mark.parametrize(("text", "expected"), REFUSED, ids=[expected for _, expected in REFUSED])
def test_a_refusal_has_its_line(text: str, expected: str) -> None:
    assert refusal(text).startswith(expected)


def test_the_depth_of_a_text_is_limited() -> None:
    assert read_json("[" * DEPTH_MAX + "]" * DEPTH_MAX).line == 1
    assert "deeper" in refusal("[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1))


def test_the_number_of_values_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    assert NODES_MAX == 1_000_000
    monkeypatch.setattr(json_document, "NODES_MAX", 10)

    assert read_json("[1,1,1,1,1,1,1,1,1]").plain() == [1] * 9
    assert refusal("[1,1,\n1,1,1,1,1,1,1,1]") == "2: it has more than 10 values; split it"
