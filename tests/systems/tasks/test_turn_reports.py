"""A coding agent's whole stream on the records of a task: its messages and its usage."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from interlock.kernel.errors import StoreDownError
from interlock.kernel.event import Note
from interlock.systems.tasks import turn_reports
from interlock.systems.tasks.turn_reports import TurnReports
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.specs.json_line import COUNT_MAX
from interlock.workers.supervision.reports import (
    MessageWritten,
    ToolCompleted,
    ToolStarted,
    UsageAdded,
)
from interlock.workers.supervision.streams import STREAMS
from interlock.workers.supervision.streams.interlock import ReportKinds
from tests.systems.tasks.claims import claimed
from tests.systems.threads.threads import client_of
from tests.workers.supervision.streams.sample import SAMPLE, TOTAL

LAST_MESSAGE = "The sum is right now and its test passes."


@pytest.fixture
def client(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


def test_the_messages_of_an_agent_are_noted_and_its_usage_is_counted(client: Client) -> None:
    claim = claimed(client, "b/one").alive()
    reports = TurnReports(client.records, claim.names.turn, client.show(claim.names.agent))
    stream = STREAMS["claude"](ReportKinds.AGENT)

    for line in SAMPLE:
        reports.hear(*stream.feed(line))
    reports.hear(MessageWritten(" "), UsageAdded(), MessageWritten("of a subagent", own=False))

    notes = [line for line in client.history(claim.names.agent) if isinstance(line, Note)]
    assert [note.detail["message"] for note in notes if note.kind == "progress"] == [
        "I run the tests first, then read the code.",
        LAST_MESSAGE,
        "of a subagent",
    ]
    assert sum(note.kind == "usage" for note in notes) == 7
    assert not [note.detail for note in notes if note.kind == "report_refused"]
    assert client.show(claim.names.agent).counters == {
        "tokens_in": TOTAL.all_input,
        "tokens_out": TOTAL.output_tokens,
        "spent": 87_654,
        "tree.tokens_in": TOTAL.all_input,
        "tree.tokens_out": TOTAL.output_tokens,
        "tree.spent": 87_654,
    }
    assert (reports.spent_micro, reports.summary) == (87_654, LAST_MESSAGE)


@pytest.mark.parametrize(("used", "state"), [(90, "running"), (91, "compacting")])
def test_a_context_that_is_nearly_full_is_compacted(client: Client, used: int, state: str) -> None:
    claim = claimed(client, "b/one").alive()
    reports = TurnReports(client.records, claim.names.turn, client.show(claim.names.agent))

    reports.hear(UsageAdded(context_used=used, context_size=100))

    assert client.show(claim.names.turn).state == state


def test_usage_that_the_store_did_not_take_is_counted_once_when_it_is_back(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = claimed(client, "b/one").alive()
    dispatch, agent = client.dispatch, client.show(claim.names.agent)
    reports = TurnReports(client.records, claim.names.turn, agent)
    note = dispatch.lifecycle.note

    def answer_lost(*args: Any, **options: Any) -> None:
        note(*args, **options)
        raise StoreDownError("away")

    monkeypatch.setattr(dispatch.lifecycle, "note", answer_lost)
    reports.hear(UsageAdded(cost_micro=5))
    monkeypatch.setattr(dispatch.lifecycle, "note", Mock(side_effect=StoreDownError("away")))
    reports.hear(UsageAdded(cost_micro=COUNT_MAX), UsageAdded(cost_micro=7))
    monkeypatch.setattr(dispatch.lifecycle, "note", note)
    reports.count_usage()

    # What is added up stops growing where a script no longer counts exactly.
    assert client.show(agent.id).counters["spent"] == 5 + COUNT_MAX
    notes = [line for line in client.history(agent.id) if isinstance(line, Note)]
    assert sum(note.kind == "usage" for note in notes) == 2


def test_an_agent_that_never_ends_its_tool_calls_takes_no_more_memory(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_reports, "OPEN_TOOLS_MAX", 2)
    claim = claimed(client, "b/one").alive()
    reports = TurnReports(client.records, claim.names.turn, client.show(claim.names.agent))

    reports.hear(*(ToolStarted("edit", f"call-{n}") for n in range(3)))

    last = client.history(claim.names.agent)[-1]
    assert isinstance(last, Note)
    assert last.detail == {"reason": "more than 2 tool calls run at once"}
    reports.hear(*(ToolCompleted("edit", f"call-{n}", success=True) for n in (2, 0)))
    assert client.show(claim.names.turn).state == "tool_use"
    reports.hear(ToolCompleted("edit", "call-1", success=True))
    assert client.show(claim.names.turn).state == "running"
