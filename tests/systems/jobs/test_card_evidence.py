"""What stands beside the card of a job."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from interlock.systems.jobs.card_evidence import evidence
from interlock.workers.terminal.page import Sentence
from tests.systems.jobs.machines.jobs import PureJob


def test_a_card_shows_what_the_reviewer_said_and_its_verdict() -> None:
    case = PureJob.at("reviewing", review={"command": "look"})
    case.fire(
        "review_completed",
        verdict="approval_required",
        summary="it is good",
        reasons=["one word is wrong"],
        evidence=[],
    )
    client: Any = SimpleNamespace(settings=SimpleNamespace(host="here"))

    shown = {each.title: each.parts for each in evidence(client, case.record)}

    said = Sentence("it is good\none word is wrong")
    assert list(shown["What the reviewer says: approval_required"]) == [said]
