"""`interlock report`: the lines that it writes for the supervisor, and its refusals."""

from __future__ import annotations

import os

import pytest
from typer.testing import CliRunner, Result

from interlock.workers.cli import app
from interlock.workers.supervision.cli import line_of
from interlock.workers.supervision.reports import (
    RejectedLine,
    SplitRequested,
    Subtask,
    ToolCompleted,
    UsageTotal,
    UsedTokens,
)
from interlock.workers.supervision.streams.interlock import ReportKinds, parse_line


def report_command(*words: str) -> Result:
    return CliRunner().invoke(app, ["report", *words])


def test_a_report_is_a_line_that_the_supervisor_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.pipe()
    monkeypatch.setenv("INTERLOCK_REPORT_FD", str(theirs))
    # An agent has no store, so an invalid setting must not matter to it.
    monkeypatch.setenv("INTERLOCK_STORE_URL", "nonsense")

    assert report_command("tool_completed", "tool=bash", "id=x7", "success=false").exit_code == 0
    line = os.read(ours, 1_000)
    assert parse_line(line, ReportKinds.AGENT) == ToolCompleted("bash", "x7", success=False)
    os.close(ours)
    gone = report_command("ready")
    os.close(theirs)

    assert gone.exit_code == 1
    assert "the report cannot be written" in gone.output


def test_a_field_is_json_if_it_can_be() -> None:
    line = line_of("split", ['subtasks=[{"title": "one"}]'])

    assert parse_line(line, ReportKinds.AGENT) == SplitRequested((Subtask("one"),))


def test_a_process_with_a_session_has_more_kinds_of_reports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = os.pipe()
    monkeypatch.setenv("INTERLOCK_REPORT_FD", str(theirs))
    words = ("final_costs", "cost_micro=70", 'tokens={"cache_read_tokens": 5}')
    refused = report_command(*words)
    # People are to see what was refused: the supervisor gets the line and notes why.
    assert isinstance(parse_line(os.read(ours, 1_000), ReportKinds.AGENT), RejectedLine)
    monkeypatch.setenv("INTERLOCK_REPORT_KINDS", "session")

    assert refused.exit_code == 1, "an agent without a session cannot report it"
    assert report_command(*words).exit_code == 0
    expected = UsageTotal(70, UsedTokens(cache_read_tokens=5), final=True)
    assert parse_line(os.read(ours, 1_000), ReportKinds.SESSION) == expected
    unnamed, others = report_command("session"), report_command("blocked", "text=why")
    os.close(ours)
    os.close(theirs)
    assert "session: it has no id; write it" in unnamed.output
    assert "known: session" in " ".join(others.output.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("dance",), "'dance' is no type of report; known: ready"),
        (("tool_started", "tool"), "'tool' must be name=value"),
        (("tool_started", "tool=x"), "tool_started: it has no id; write it"),
        (("ready",), "only an agent that Interlock runs can report"),
    ],
)
def test_an_invalid_report_is_refused_with_a_sentence(
    words: tuple[str, ...], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("INTERLOCK_REPORT_FD", raising=False)
    monkeypatch.delenv("INTERLOCK_REPORT_KINDS", raising=False)
    answer = report_command(*words)

    assert answer.exit_code == 1
    assert sentence in " ".join(answer.output.split())
