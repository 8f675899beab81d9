"""The programs in examples/own: a pipeline and an agent, each run from its start to its end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import agent
import pipeline
import pytest

from interlock.testing import Kit

NewKit = Callable[..., Kit[Any]]
OWN = Path(pipeline.__file__).parent
LINES_MAX = {"refund.py": 35, "pipeline.py": 50, "agent.py": 60}


@pytest.mark.parametrize("name", LINES_MAX)
def test_a_program_is_as_short_as_it_is_said_to_be(name: str) -> None:
    lines = [line for line in (OWN / name).read_text("utf-8").splitlines() if line.strip()]

    assert len(lines) <= LINES_MAX[name]


def test_a_document_is_summarised_within_its_budget_and_what_is_over_it_is_skipped(
    kit: NewKit,
) -> None:
    documents = kit(pipeline.document)
    text = "\n\n".join(["one two three four five six seven eight nine ten"] * 4)

    documents.submit(pipeline.Document(text=text, tokens=115))

    # Each reserves 100 and spends 10: the third would need 100 where 95 are left.
    assert documents.run().counters["tree.tokens"] == 20
    assert documents.data.skipped == 2
    assert documents.data.summary == " ".join(["one two three four five six seven eight"] * 2)


@pytest.fixture
def assistant(kit: NewKit) -> Kit[agent.Agent]:
    assistant: Kit[agent.Agent] = kit(agent.agent)
    assistant.submit(agent.Agent(goal="delete the old files"))
    assert assistant.run().state == "consent"
    return assistant


def said(assistant: Kit[agent.Agent]) -> list[str]:
    messages = assistant.data.messages
    return [str(message.get("tool") or message.get("output")) for message in messages]


def test_the_agent_asks_before_it_deletes_and_does_so_once(assistant: Kit[agent.Agent]) -> None:
    assert assistant.card.question == "May it call delete_files({'place': 'tray'})?"

    assistant.tell("tell", text="be quick")
    assistant.answer("approve")
    assert assistant.run().state == "done"

    assert assistant.data.messages[-1]["text"] == "done, with 1 letters read"
    assert said(assistant).count("the tray is empty") == 1


def test_the_agent_reads_why_it_may_not(assistant: Kit[agent.Agent]) -> None:
    assistant.answer("refuse", reason="they are needed")
    assert assistant.run().state == "done"

    assert "a person refused: they are needed" in said(assistant)
    assert "the tray is empty" not in said(assistant)
