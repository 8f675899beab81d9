"""The command lines of a card: each has an example of what its answer needs."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from interlock.workers.engine.answer_commands import decide_command, example_answer, unfilled

REFUND = {
    "properties": {
        "order_id": {"type": "string"},
        "amount_eur": {"type": "number"},
        "at": {"type": "string", "format": "date-time"},
        "kind": {"enum": ["full", "part"]},
        "note": {"type": "string"},
    },
    "required": ["order_id", "amount_eur", "at", "kind"],
}
ASKED = {"properties": {"capability": {"const": "refund"}, "parameters": REFUND}}


def test_a_card_that_asks_for_values_shows_those_that_are_known_and_no_others() -> None:
    known = {"payload": {"capability": "refund", "parameters": {"order_id": "a"}}}

    found = example_answer("provide", ASKED, known)

    parameters = {"order_id": "a", "amount_eur": "...", "at": "...", "kind": "..."}
    assert found == {"capability": "refund", "parameters": parameters}


def test_a_card_that_asks_for_one_value_takes_it_as_text() -> None:
    parameters = {"order_id": "a", "at": "2026-01-31T09:00:00Z", "kind": "full"}
    known = {"payload": {"capability": "refund", "parameters": parameters}}

    assert example_answer("provide", ASKED, known) == {"text": "..."}


@pytest.mark.parametrize("kind", ["string", "integer", "number", "boolean", "array", "object"])
def test_no_example_is_an_answer_before_it_is_filled_in(kind: str) -> None:
    schema = {"properties": {"x": {"type": kind, "examples": [1]}}, "required": ["x"]}

    assert unfilled(example_answer("approve", schema, {}))
    assert not unfilled({"text": "Wait... no.", "values": [0, False, {}]})


@pytest.mark.parametrize(
    ("answer", "deciders", "flags"),
    [
        ({}, (), []),
        ({"text": "..."}, (), ["--text", "..."]),
        ({"text": "it's"}, ("ann", "bob"), ["--as", "ann", "--text", "it's"]),
        ({"values": {"a": "\x1b"}}, (), ["--answer", '{"values": {"a": "\\u001b"}}']),
    ],
)
def test_a_command_is_quoted_for_a_shell(
    answer: dict[str, Any], deciders: tuple[str, ...], flags: list[str]
) -> None:
    command = decide_command("a/b~1", "provide", "a/b~1:4", answer, deciders)

    words = ["interlock", "decide", "a/b~1", "provide", "--proposal", "a/b~1:4", *flags]
    assert shlex.split(command) == words
    assert command.isprintable()
    if "--answer" in words:
        assert json.loads(words[-1]) == answer
