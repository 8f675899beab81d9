from __future__ import annotations

from collections.abc import Mapping
from time import process_time
from typing import Any

import pytest

from interlock.system.models import OfferedCapability
from interlock.systems.threads.inference.question import Question
from interlock.systems.threads.inference.reading.account import account
from interlock.systems.threads.inference.reading.request import TEXT_CHARS_MAX, read
from interlock.systems.threads.inference.reading.sentences import has_question
from interlock.systems.threads.inference.reading.values import Filled, fill, rare_hints
from tests.systems.threads.inference.questions import question

AT = "2026-03-10T09:00:00+01:00"


def choice(required: tuple[str, ...] = (), **hints: str) -> OfferedCapability:
    properties: dict[str, Any] = {
        name: {"type": "array" if hint == "list" else "string", "x-from": hint}
        for name, hint in hints.items()
    }
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return OfferedCapability("add_task", "put an item on the todo list", (), schema)


def filled_in(chosen: OfferedCapability, asked: Question) -> Filled:
    request = read(asked)
    return fill(account(chosen, request, frozenset()), request)


def found(
    title: str, text: str, chosen: OfferedCapability, *, fields: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    inciting = {"title": title, "text": text, "at": AT, "fields": fields or {}}
    return filled_in(chosen, question(inciting=inciting)).parameters


@pytest.mark.parametrize(
    ("hint", "title", "text", "value"),
    [
        ("title", "Buy milk", "the oat one", "Buy milk"),
        ("title", "Todo", "Buy milk. The oat one.", "Buy milk"),
        ("title", "", "Buy milk\nand bread", "Buy milk"),
        ("text", "Milk", "the oat one", "the oat one"),
        ("text", "Milk", "", "Milk"),
        ("date", "pay", "by 1 April please", "2026-04-01"),
        ("datetime", "call", "tomorrow at 10:30", "2026-03-11T10:30:00"),
        ("command", "run", "see:\n```sh\nls -l\ndf -h\n```\nthanks", "ls -l\ndf -h"),
        ("command", "run", "just `make test` it", "make test"),
        ("path", "file scans/a-1.pdf", "under taxes", "scans/a-1.pdf"),
        ("path", "x", "it is ~/Desktop/b_2.docx, I think.", "~/Desktop/b_2.docx"),
        ("path", "x", "move ./report.final.odt!", "./report.final.odt"),
        ("list", "three things", "- milk\n- bread\n2. butter", ["milk", "bread", "butter"]),
    ],
)
def test_a_hint_says_where_to_take_a_value_from(
    hint: str, title: str, text: str, value: object
) -> None:
    assert found(title, text, choice(it=hint)) == {"it": value}


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        ("date", "some day"),
        ("datetime", "tomorrow"),
        ("datetime", "at 10:30"),
        ("command", "run it"),
        ("command", "``` ```"),
        ("path", "see https://example.org/a.html or me@example.org, e.g. at 3.14 p.m."),
        ("list", "milk and bread"),
        ("colour", "green"),
    ],
)
def test_what_is_not_there_is_not_invented(hint: str, text: str) -> None:
    assert found("x", text, choice(it=hint)) == {}


def test_what_the_producer_gave_goes_before_what_is_found() -> None:
    given = {"it": "from the front matter", "other": 1}

    assert found("Milk", "", choice(it="title"), fields=given) == {"it": "from the front matter"}


def test_a_guess_that_does_not_fit_is_none() -> None:
    schema = {
        "type": "object",
        "properties": {"short": {"type": "string", "maxLength": 3, "x-from": "title"}},
    }

    assert found("too long", "", OfferedCapability("a", "b", (), schema)) == {}


def test_a_text_that_is_too_long_is_not_cut_but_asked_about() -> None:
    inciting = {"title": "x", "text": "a" * (TEXT_CHARS_MAX + 1)}
    filled = filled_in(choice(("it",), it="text"), question(inciting=inciting))

    assert filled.parameters == {}
    assert filled.lack == "it must have at most 16000 characters"


@pytest.mark.parametrize("unit", ["\n", " ", "a/", "a.", "`", "```\n", "- ", "1.1 ", "`a", "a" * 9])
def test_a_long_and_odd_text_is_read_in_no_time(unit: str) -> None:
    text = "x" + unit * (200_000 // len(unit)) + "x"
    began = process_time()
    read(question(inciting={"title": text, "text": text, "at": AT}))

    assert process_time() - began < 5


def test_what_is_missing_is_named_with_its_form() -> None:
    schema = {
        "type": "object",
        "properties": {
            "when": {"type": "string", "format": "date-time"},
            "copies": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "paper": {"$ref": "#/$defs/Paper"},
        },
        "required": ["when", "copies", "paper"],
        "$defs": {"Paper": {"enum": ["thick", "thin"]}},
    }
    filled = filled_in(OfferedCapability("a", "b", (), schema), question(inciting={"title": "x"}))

    assert filled.lack == (
        "for this I still need: when (date and time), copies (whole number),"
        " paper (one of: thick, thin)"
    )


@pytest.mark.parametrize(
    ("schema", "answer", "value"),
    [
        ({"type": "integer"}, "3", 3),
        ({"type": "integer"}, "3 copies, please", 3),
        ({"type": "integer"}, "3 or 4", None),
        ({"type": "integer"}, "2.5", None),
        ({"type": "integer", "minimum": 5}, "3", None),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "boolean"}, "Yes.", True),
        ({"type": "string"}, "Sam", "Sam"),
        ({"type": "string", "format": "date"}, "tomorrow", "2026-03-11"),
        ({"type": "string", "format": "date-time"}, "2026-11-24 10:00", "2026-11-24T10:00:00"),
        ({"type": "string", "format": "date-time"}, "tomorrow at noon", "2026-03-11T12:00:00"),
        ({"type": "string", "format": "date-time"}, "later", None),
        ({"enum": ["thick", "thin"]}, "THICK", "thick"),
        ({"type": "array", "items": {"type": "string"}}, "a, b", ["a", "b"]),
    ],
)
def test_one_missing_value_is_answered_by_itself(
    schema: dict[str, Any], answer: str, value: Any
) -> None:
    parameters = {"type": "object", "properties": {"it": schema}, "required": ["it"]}
    chosen = OfferedCapability("a", "b", (), parameters)
    asks = {"kind": "clarification", "capability": "a", "parameters": {}}
    given = ({"phase": "action", "kind": "provided", "text": answer, "values": {}},)
    asked = question(inciting={"title": "x", "at": AT}, previous=asks, feedback=given)

    filled = filled_in(chosen, asked)

    assert filled.parameters == ({} if value is None else {"it": value})
    if value is None:
        assert filled.lack is not None
        assert filled.lack.startswith("it must be given as ")
        assert repr(answer) in filled.lack


@pytest.mark.parametrize("answer", ["2", "#2.", "add_task", "Add task"])
def test_a_pick_of_a_capability_is_no_text_of_the_request(answer: str) -> None:
    asked = question(inciting={}, catalog=(choice(),), feedback=({"text": answer},))

    request = read(asked)

    assert (request.text, request.remarks) == ("", ())


def test_only_required_and_rare_hints_are_telling() -> None:
    chosen = choice(("a", "b"), a="title", b="datetime", c="command")

    assert rare_hints(chosen) == ("datetime",)


@pytest.mark.parametrize("inciting", [{}, {"title": None, "text": 3, "fields": [], "at": {}}])
def test_an_odd_request_is_an_empty_one(inciting: Mapping[str, Any]) -> None:
    request = read(question(inciting=inciting, feedback=({"text": None, "values": None},)))

    assert (request.title, request.text, request.remarks) == ("", "", ())


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("How tall is it", True),
        ("The bridge. Is it safe", True),
        ("two sugars, right?", True),
        ("Could you note this down?", False),
        ("note what he said", False),
        ("run `ls *.txt?`", False),
        ("Whatever", False),
        ("", False),
    ],
)
def test_a_question_is_told_from_a_polite_wish(text: str, *, asked: bool) -> None:
    assert has_question(text) is asked
