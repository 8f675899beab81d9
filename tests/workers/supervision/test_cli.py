"""`interlock report`: what it writes for whoever keeps the agent, and what it refuses."""

from __future__ import annotations

import os

import pytest
from typer.testing import CliRunner, Result

from interlock.workers.cli import app
from interlock.workers.supervision.cli import line_of
from interlock.workers.supervision.reports import SplitRequested, Subtask, ToolCompleted, parse_line
from interlock.workers.supervision.session_reports import CostsFinal, TokenCounts
from interlock.workers.supervision.session_streams import read_session_report


def said(*words: str) -> Result:
    return CliRunner().invoke(app, ["report", *words])


def test_a_report_is_a_line_that_its_keeper_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.pipe()
    monkeypatch.setenv("INTERLOCK_REPORT_FD", str(theirs))
    # An agent is given no store; a setting that nobody could read must not matter to it.
    monkeypatch.setenv("INTERLOCK_STORE_URL", "nonsense")

    assert said("tool_completed", "tool=bash", "id=x7", "success=false").exit_code == 0
    assert parse_line(os.read(ours, 1_000)) == ToolCompleted("bash", "x7", success=False)
    os.close(ours)
    gone = said("ready")
    os.close(theirs)

    assert gone.exit_code == 1
    assert "nobody reads the report" in gone.output


def test_a_field_is_json_where_it_can_be() -> None:
    line = line_of("split", ['subtasks=[{"title": "one"}]'])

    assert parse_line(line) == SplitRequested((Subtask("one"),))


def test_a_codon_says_what_codons_say(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.pipe()
    monkeypatch.setenv("INTERLOCK_REPORT_FD", str(theirs))
    words = ("final_costs", "cost_micro=70", 'tokens={"cache_read_tokens": 5}')
    refused = said(*words)
    monkeypatch.setenv("INTERLOCK_REPORT_KINDS", "session")

    assert refused.exit_code == 1, "an agent of a task cannot say it"
    assert said(*words).exit_code == 0
    told = CostsFinal(70, TokenCounts(cache_read_tokens=5))
    assert read_session_report(os.read(ours, 1_000)) == told
    unnamed, others = said("session"), said("blocked", "text=why")
    os.close(ours)
    os.close(theirs)
    assert "session needs the field 'id'" in unnamed.output
    assert "known: session" in " ".join(others.output.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("dance",), "'dance' is no type of report; known: ready"),
        (("tool_started", "tool"), "'tool' must be name=value"),
        (("tool_started", "tool=x"), "tool_started needs the field 'id'"),
        (("ready",), "only an agent that Interlock runs can report"),
    ],
)
def test_what_is_no_report_is_refused_in_a_sentence(
    words: tuple[str, ...], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("INTERLOCK_REPORT_FD", raising=False)
    monkeypatch.delenv("INTERLOCK_REPORT_KINDS", raising=False)
    answer = said(*words)

    assert answer.exit_code == 1
    assert sentence in " ".join(answer.output.split())
