"""The programs in examples/own: a pipeline and an agent, each run from its start to its end."""

from __future__ import annotations

from pathlib import Path

import agent
import pipeline
import pytest

from tests.workflow.at_work import AtWork, Start

OWN = Path(pipeline.__file__).parent
LINES_MAX = {"refund.py": 35, "pipeline.py": 50, "agent.py": 60}


@pytest.mark.parametrize("name", LINES_MAX)
def test_a_program_is_as_short_as_it_is_said_to_be(name: str) -> None:
    lines = [line for line in (OWN / name).read_text("utf-8").splitlines() if line.strip()]

    assert len(lines) <= LINES_MAX[name]


def test_a_document_is_summarised_within_its_budget_and_what_is_over_it_is_skipped(
    at_work: Start,
) -> None:
    flow = pipeline.document
    worker = at_work(flow, flow.children.summarise)
    text = "\n\n".join(["one two three four five six seven eight nine ten"] * 4)

    worker.client.submit(flow, pipeline.Document(text=text, tokens=115), id="one")
    ended = worker.reach("one", "done")

    # Each reserves 100 and spends 10: the third would need 100 where 95 are left.
    assert ended.data["skipped"] == 2
    assert ended.data["summary"] == " ".join(["one two three four five six seven eight"] * 2)
    assert ended.counters["tree.tokens"] == 20


@pytest.fixture
def assistant(at_work: Start) -> AtWork:
    worker = at_work(agent.agent)
    worker.client.submit(agent.agent, agent.Agent(goal="delete the old files"), id="one")
    return worker


def said(worker: AtWork) -> list[str]:
    messages = worker.client.get(agent.agent, "one").messages
    return [str(message.get("tool") or message.get("output")) for message in messages]


def test_the_agent_asks_before_it_deletes_and_does_so_once(assistant: AtWork) -> None:
    assistant.reach("one", "consent")
    card = assistant.client.card("one")
    assert card
    assert card.question == "May it call delete_files({'place': 'tray'})?"

    assistant.client.fire("one", "tell", {"text": "be quick"})
    assistant.answer("one", "approve")
    ended = assistant.reach("one", "done")

    assert ended.data["messages"][-1]["text"] == "done, with 1 letters read"
    assert said(assistant).count("the tray is empty") == 1


def test_the_agent_reads_why_it_may_not(assistant: AtWork) -> None:
    assistant.reach("one", "consent")

    assistant.answer("one", "refuse", reason="they are needed")
    assistant.reach("one", "done")

    assert "a person refused: they are needed" in said(assistant)
    assert "the tray is empty" not in said(assistant)
