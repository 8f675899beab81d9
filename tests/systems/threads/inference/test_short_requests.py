"""The embedded model and the capabilities of the examples, on requests of one line."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from interlock.systems.threads.inference.embedded import EmbeddedModel
from interlock.systems.threads.inference.question import Target
from interlock.workers.gateways.capabilities.registry import load_registry
from interlock.workers.gateways.llm.outcome import Answered
from tests.systems.threads.inference.questions import ask, question

GOLDEN = Path(__file__).parents[1] / "golden" / "short_requests.json"
# Of 50 each: before the tuning 34 of the held-out ones were right, and 32 of the fresh ones.
RIGHT_MIN = {"tuned": 29, "held_out": 44, "fresh": 42}
TRIED_BY_NEWCOMERS = 7


@cache
def answers(part: str) -> list[tuple[str, list[str], str]]:
    """Return each request with what is right and what the model proposes."""
    document = json.loads(GOLDEN.read_text(encoding="utf-8"))
    catalog = tuple(one.offered for one in load_registry("examples.capabilities").catalog())
    model = EmbeddedModel()
    found = []
    for request in document[part]:
        inciting = {"title": request["title"], "text": "", "at": document["at"]}
        asked = question(Target.ACTION, inciting=inciting, items=(), catalog=catalog)
        outcome = ask(model, asked)
        assert isinstance(outcome, Answered)
        found.append(
            (request["title"], request["expected"], named(outcome.answer[Target.ACTION].payload))
        )
    return found


def named(payload: Any) -> str:
    """Return a proposal as the golden file names it."""
    if payload["kind"] == "standard":
        return str(payload["capability"])
    return f"{payload['capability']}?" if payload["capability"] else "none"


@pytest.mark.parametrize("part", RIGHT_MIN)
def test_short_requests_are_understood_or_asked_about(part: str) -> None:
    found = answers(part)

    assert sum(answer in right for _, right, answer in found) >= RIGHT_MIN[part]
    # What is not understood is asked about: no capability is proposed that was not meant.
    assert [row for row in found if row[2] != "none" and row[2] not in row[1]] == []


def test_what_newcomers_tried_is_understood() -> None:
    for title, right, answer in answers("tuned")[:TRIED_BY_NEWCOMERS]:
        assert answer in right, title
