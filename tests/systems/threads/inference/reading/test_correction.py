"""What the embedded model makes of a person's words about a call that failed: one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from bench.judge_requests import catalog
from interlock.systems.threads.inference.embedded import propose
from interlock.systems.threads.inference.question import Question, Target
from interlock.systems.threads.inference.reading.meaning import meanings
from tests.systems.threads.inference.questions import question

AT = "2026-03-10T09:00:00+01:00"
# The request, and the call that was made of it.
BADGE = (
    "Print a visitor badge for Mr Okafor",
    "print_badge",
    {"name": "Print a visitor badge for Mr Okafor"},
)
RIGHT_BADGE = ("Print a visitor badge for Mr Okafor", "print_badge", {"name": "Mr Okafor"})
NOTE = ("Note the alarm code: 4711", "append_note", {"text": "The alarm code: 4711"})
FILING = (
    "File tray/a.pdf under invoices",
    "file_document",
    {"path": "tray/a.pdf", "folder": "invoices"},
)
DENTIST = (
    "Dentist on Thursday at 10:30",
    "add_appointment",
    {"title": "Dentist", "start": "2026-03-12T10:30:00"},
)
Base = tuple[str, str, Mapping[str, Any]]


def about(base: Base, said: str, kind: str = "provided", **changes: Any) -> Question:
    title, capability, parameters = base
    call = {"capability": capability, "parameters": parameters}
    known: dict[str, Any] = {
        "inciting": {"title": title, "text": "", "at": AT},
        "items": (),
        "feedback": ({"phase": "action", "kind": kind, "text": said, "values": {}},),
        "intent": title,
        "catalog": catalog(),
        "previous": {"kind": "standard", **call},
        "turned_down": ({**call, "why": "it failed: no ink."},),
    }
    return question(Target.ACTION, **{**known, **changes})


def proposed(asked: Question) -> tuple[str, str | None, Mapping[str, Any]]:
    payload = propose(asked, meanings())[Target.ACTION].payload
    return payload["kind"], payload["capability"], payload["parameters"]


@pytest.mark.parametrize("kind", ["provided", "redirected"])
@pytest.mark.parametrize(
    ("base", "said", "changed"),
    [
        (BADGE, "The name on the badge must be Mr Okafor", {"name": "Mr Okafor"}),
        (BADGE, "Mr Okafor", {"name": "Mr Okafor"}),
        (RIGHT_BADGE, "It should say Dr Okafor.", {"name": "Dr Okafor"}),
        (RIGHT_BADGE, "name: 'Dr A. Okafor'", {"name": "Dr A. Okafor"}),
        (RIGHT_BADGE, "change the name to Ms Okafor", {"name": "Ms Okafor"}),
        (NOTE, "The code is 4712", {"text": "The code is 4712"}),
        (FILING, "The folder must be letters", {"folder": "letters"}),
        (FILING, "It is tray/b.pdf", {"path": "tray/b.pdf"}),
        (DENTIST, "The title must be Dr Brown", {"title": "Dr Brown"}),
        (DENTIST, "no, at 16:30", {"start": "2026-03-12T16:30:00"}),
    ],
)
def test_words_become_the_value(
    base: Base, said: str, kind: str, changed: Mapping[str, Any]
) -> None:
    _, capability, parameters = base

    assert proposed(about(base, said, kind)) == ("standard", capability, {**parameters, **changed})


def test_words_that_ask_for_something_else_become_the_new_request() -> None:
    said = "Put 'badge for Mr Okafor' on my to-do list"
    kind, capability, parameters = proposed(about(BADGE, said))

    assert (kind, capability) == ("standard", "add_task")
    assert parameters["title"] == "Badge for Mr Okafor"


@pytest.mark.parametrize("said", ["try again", "once more please"])
def test_words_that_change_nothing_are_no_value(said: str) -> None:
    assert proposed(about(RIGHT_BADGE, said)) == ("standard", "print_badge", RIGHT_BADGE[2])


@pytest.mark.parametrize(
    "said",
    [
        "Do not print it",
        "I do not know",
        "Why did it fail?",
        "Is the name to be Mr Silva?",
        "Do not file tray/a.pdf",
        "I already filed tray/a.pdf under plans",
        "Was the dentist put on the calendar for Friday at 9:30?",
        "Do not write that down in the notes",
    ],
)
def test_words_that_are_no_order_are_no_value(said: str) -> None:
    assert proposed(about(RIGHT_BADGE, said))[0] == "clarification"


def test_two_values_for_one_parameter_are_asked_about() -> None:
    assert proposed(about(FILING, "It is tray/b.pdf or tray/c.pdf"))[0] == "clarification"


def test_words_in_another_wish_are_no_value() -> None:
    said = "Put 'the name is Mr Silva' on my to-do list"

    assert proposed(about(RIGHT_BADGE, said))[1] == "add_task"


def test_the_name_or_number_of_a_capability_is_no_value() -> None:
    assert proposed(about(RIGHT_BADGE, "append_note"))[1] == "append_note"
    for said in ("print badge", "3"):
        assert proposed(about(RIGHT_BADGE, said)) == ("standard", *RIGHT_BADGE[1:])


def test_an_answer_to_a_question_for_values_is_no_correction() -> None:
    asks = {"kind": "clarification", "capability": "append_note", "parameters": {}}
    found = proposed(about(RIGHT_BADGE, "tea at four", previous=asks))

    assert found == ("standard", "append_note", {"text": "tea at four"})
