"""The embedded model on three sets of requests: what it does wrongly, and what it does alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bench.judge_requests import (
    ALONE_MIN,
    BANDS,
    FLOOR,
    PAGE,
    SETS,
    WRONG_MAX,
    Verdict,
    asked,
    figures,
    judge,
)
from interlock.systems.threads.requests import read_request
from scripts.documents import renewed

INBOX = Path(__file__).parents[4] / "examples" / "inbox"
PLAIN = {"note", "task", "appointment", "document", "tool"}
TRAPS = {"negation_or_past", "question", "unable", "several", "unreadable"}
# What was measured at the first look, before anybody knew the requests: more than the target.
MEASURED_WRONG = {"held out": 2 / 150}
each_set = pytest.mark.parametrize("name", SETS)


def shown(verdicts: list[Verdict]) -> list[tuple[str, object]]:
    return [(one.request["title"], one.payload["parameters"]) for one in verdicts]


@each_set
def test_a_set_has_ten_kinds_five_of_them_traps(name: str) -> None:
    requests = [one.request for one in judge(name)]

    assert len(requests) == len({request["id"] for request in requests}) >= 150
    kinds = Counter(request["kind"] for request in requests)
    assert kinds >= Counter(dict.fromkeys(PLAIN, 20) | dict.fromkeys(TRAPS, 10))
    assert set(kinds) == PLAIN | TRAPS
    assert all(request["trap"] is (request["kind"] in TRAPS) for request in requests)


@each_set
def test_hardly_anything_is_done_wrongly_without_a_person(name: str) -> None:
    verdicts = judge(name)

    wrong = [one for one in verdicts if one.wrong]
    assert len(wrong) <= MEASURED_WRONG.get(name, WRONG_MAX) * len(verdicts), shown(wrong)


@each_set
def test_most_plain_requests_need_no_person(name: str) -> None:
    plain = [one for one in judge(name) if not one.request["trap"]]

    alone = [one for one in plain if one.acts and one.right]
    assert len(alone) >= ALONE_MIN * len(plain), shown([one for one in plain if not one.acts])


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        (
            "02-dentist",
            {
                "title": "Dentist",
                "start": "2026-03-10T10:30:00",
                "duration_min": 30,
                "details": "Dr Salman can see me then, in Mill Street.",
            },
        ),
        (
            "03-wifi-password",
            {"text": 'The wifi password has changed. For guests it is now "seven quiet herons".'},
        ),
        ("04-invoice", {"path": "tray/invoice-2041.txt"}),
        ("05-visitor-badge", {"name": "Mr Okafor"}),
        (
            "10-server-room",
            {
                "title": "Look at the server room",
                "due": "2026-03-02",
                "details": "The air conditioning shows a red light and it is getting warm.",
            },
        ),
    ],
)
def test_the_examples_that_need_no_person_are_right(name: str, parameters: object) -> None:
    request = read_request(INBOX / f"{name}.md", host="here")
    inciting = {"at": request["inciting"]["at"], "items": request["items"] or ()}

    action, confidence = asked(inciting, request["inciting"]["title"], request["inciting"]["text"])

    assert action.payload["parameters"] == parameters
    assert confidence >= FLOOR


def test_a_confidence_promises_no_more_than_it_keeps() -> None:
    proposals = [one for name in SETS for one in judge(name) if one.right is not None]

    for low in (band for band in BANDS if band >= FLOOR):
        above = [one for one in proposals if one.confidence >= low]
        assert sum(bool(one.right) for one in above) >= low * len(above)


def test_the_page_has_the_figures() -> None:
    # `python -m bench.judge_requests --write` draws them.
    assert PAGE.read_text("utf-8") == renewed(PAGE, figures)
