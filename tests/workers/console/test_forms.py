"""The form of an answer: its fields come from a schema, and their texts become typed values."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.kernel.errors import InvalidPayloadError
from interlock.workers.console.forms import answer_of, fields_of
from tests.any_text import any_text

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["text", "count"],
    "properties": {
        "text": {"type": "string", "maxLength": 40},
        "count": {"type": "integer"},
        "share": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "really": {"type": "boolean", "default": False},
        "tier": {"enum": ["low", "high"]},
        "tags": {"type": "array"},
        "to": {"$ref": "#/$defs/Person"},
    },
    "$defs": {"Person": {"type": "object", "properties": {"name": {"type": "string"}}}},
}


def test_each_type_has_its_field_and_what_is_proposed_is_filled_in() -> None:
    fields = {one.name: one for one in fields_of(SCHEMA, {"count": 25, "to": {"name": "Ann"}})}

    assert {name: one.kind for name, one in fields.items()} == {
        "text": "text",
        "count": "integer",
        "share": "number",
        "really": "boolean",
        "tier": "choice",
        "tags": "json",
        "to.name": "long",
    }
    assert (fields["count"].value, fields["to.name"].value) == ("25", "Ann")
    assert fields["really"].value == "false"
    assert fields["count"].required
    assert not fields["share"].required


def test_texts_become_values_of_their_type_and_what_is_left_empty_is_not_sent() -> None:
    texts = {"text": "25", "count": "25", "share": "0.5", "really": "true", "tier": "high"}
    texts |= {"tags": '["a"]', "to.name": "Ann"}

    whole = answer_of(fields_of(SCHEMA, {}), texts)
    short = answer_of(fields_of(SCHEMA, {}), {"text": "x", "count": "1"})

    expected: dict[str, Any] = {"text": "25", "count": 25, "share": 0.5, "really": True}
    assert whole == {**expected, "tier": "high", "tags": ["a"], "to": {"name": "Ann"}}
    assert short == {"text": "x", "count": 1}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("count", "'25'"),
        ("count", "true"),
        ("count", "2.5"),
        ("count", ""),
        ("tier", "middle"),
        ("tags", "[1,"),
        ("really", "1"),
        ("share", "much"),
        pytest.param("tags", "[" * 100_000, id="deep"),
    ],
)
def test_a_text_that_is_no_such_value_is_refused_by_the_name_of_its_field(
    name: str, text: str
) -> None:
    texts = {"text": "x", "count": "1", name: text}

    with pytest.raises(InvalidPayloadError, match=name):
        answer_of(fields_of(SCHEMA, {}), texts)


@pytest.mark.fuzz
@given(texts=st.dictionaries(st.sampled_from(list(SCHEMA["properties"])), any_text(max_size=9)))
def test_any_texts_are_an_answer_or_refused(texts: dict[str, str]) -> None:
    with suppress(InvalidPayloadError):
        json.dumps(answer_of(fields_of(SCHEMA, {}), texts))
