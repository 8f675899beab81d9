"""What an agent's line must look like to be a report, and what it is told otherwise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.kernel.reason import TransitionReason
from interlock.workers.specs.json_line import COUNT_MAX, DEPTH_MAX, NAME_LENGTH_MAX, TEXT_LENGTH_MAX
from interlock.workers.supervision.reports import (
    LINE_BYTES_MAX,
    SUBTASKS_MAX,
    AgentBlocked,
    AgentFailed,
    AgentReady,
    Compacted,
    CompactNeeded,
    Progress,
    RejectedLine,
    Report,
    SplitRequested,
    Subtask,
    TokensUsed,
    ToolCompleted,
    ToolStarted,
    VerifyRequested,
    parse_line,
)

TYPES = [
    "ready",
    "tool_started",
    "tool_completed",
    "compact_needed",
    "compacted",
    "verify_requested",
    "failed",
    "progress",
    "usage",
    "blocked",
    "split",
]
FIELDS = [
    *["tool", "id", "success", "summary", "error", "reason", "message", "percent", "tokens_in"],
    *["tokens_out", "context_used", "context_size", "cost_micro", "task", "text", "subtasks"],
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(FIELDS), inner),
    max_leaves=10,
)


def line(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def told(given_line: bytes) -> str:
    rejected = parse_line(given_line)
    assert isinstance(rejected, RejectedLine), rejected
    return rejected.reason


@pytest.mark.parametrize(
    ("given_line", "report"),
    [
        (line(type="ready"), AgentReady()),
        (line(type="tool_started", tool="Bash", id="t1"), ToolStarted("Bash", "t1")),
        (
            line(type="tool_completed", tool="Bash", id="t1", success=False),
            ToolCompleted("Bash", "t1", success=False),
        ),
        (line(type="compact_needed"), CompactNeeded()),
        (line(type="compacted"), Compacted()),
        (line(type="verify_requested", summary=""), VerifyRequested("")),
        (line(type="failed", error="no disk"), AgentFailed("no disk")),
        (line(type="failed", error="no disk", reason=None), AgentFailed("no disk")),
        (
            line(type="failed", error="too long", reason="prompt_too_long"),
            AgentFailed("too long", TransitionReason.PROMPT_TOO_LONG),
        ),
        (line(type="progress", message="half"), Progress("half")),
        (line(type="progress", message="all", percent=100), Progress("all", 100)),
        (line(type="usage", cost_micro=0), TokensUsed(cost_micro=0)),
        (
            line(
                type="usage",
                tokens_in=1,
                tokens_out=2,
                context_used=3,
                context_size=4,
                cost_micro=5,
            ),
            TokensUsed(1, 2, 3, 4, 5),
        ),
        (line(type="blocked", task="backlog/t-1"), AgentBlocked(task="backlog/t-1")),
        (line(type="blocked", text="needs a key"), AgentBlocked(text="needs a key")),
        (
            line(type="split", subtasks=[{"title": "a", "text": "b"}, {"title": "c"}]),
            SplitRequested((Subtask("a", "b"), Subtask("c"))),
        ),
    ],
)
def test_a_line_of_each_type_is_its_report(given_line: bytes, report: Report) -> None:
    assert parse_line(given_line) == report
    assert parse_line(given_line + b"\r\n") == report


@pytest.mark.parametrize("reason", TransitionReason)
def test_every_published_reason_may_be_named(reason: TransitionReason) -> None:
    assert parse_line(line(type="failed", error="e", reason=str(reason))) == AgentFailed(
        "e", reason
    )


@pytest.mark.parametrize(
    ("given_line", "sentence"),
    [
        (b"", "the line is empty"),
        (b" \n", "the line is empty"),
        (b'{"type": "rea', "no JSON: Unterminated string starting at at column 10"),
        (b"warning: no config found", "the line is no JSON"),
        (b'{"type": "ready"} {"type": "ready"}', "no JSON: Extra data"),
        (b'\xff{"type": "ready"}', "not UTF-8 at byte 0"),
        (b"[]", "no JSON object, it is []"),
        (b'"ready"', "no JSON object, it is 'ready'"),
        (b"{}", "has no type"),
        (line(type="exploded"), "'exploded' is no type of report; known: ready, tool_started"),
        (line(type=None), "None is no type of report"),
        (line(type=["ready"]), "['ready'] is no type of report"),
        (line(type="ready", pid=7), "ready has no field 'pid'"),
        (b'{"type": "ready", "type": "compacted"}', "the field 'type' is there twice"),
        (line(type="tool_started", tool="Bash"), "tool_started needs the field 'id'"),
        (line(type="failed"), "failed needs the field 'error'"),
        (line(type="failed", error=" "), "failed: error must not be empty"),
        (line(type="failed", error=7), "failed: error must be text, it is 7"),
        (line(type="failed", error="e", reason="bored"), "reason 'bored' is unknown; known: comp"),
        (line(type="failed", error="e", reason=[]), "reason [] is unknown"),
        (line(type="tool_completed", tool="a", id="b", success=1), "success must be true or false"),
        (line(type="tool_started", tool="a" * (NAME_LENGTH_MAX + 1), id="b"), "at most 200"),
        (line(type="progress", message="a" * (TEXT_LENGTH_MAX + 1)), "at most 16000"),
        (line(type="progress", message="a", percent=101), "a whole number 0 to 100, it is 101"),
        (line(type="progress", message="a", percent=-1), "a whole number 0 to 100, it is -1"),
        (line(type="progress", message="a", percent=True), "whole number 0 to 100, it is True"),
        (line(type="progress", message="a", percent=0.5), "whole number 0 to 100, it is 0.5"),
        (line(type="usage"), "usage has no number"),
        (line(type="usage", tokens_in=-1), "tokens_in must be a whole number"),
        (line(type="usage", cost_micro=COUNT_MAX + 1), "cost_micro must be a whole number"),
        (line(type="usage", context_size=0), "context_size must be a whole number 1 to"),
        (b'{"type": "usage", "tokens_in": NaN}', "has NaN, which JSON has no word for"),
        (b'{"type": "usage", "tokens_in": -Infinity}', "has -Infinity, which JSON has"),
        (b'{"type": "usage", "tokens_in": 1e999}', "the number '1e999' is too large"),
        (b'{"type": "usage", "tokens_in": ' + b"9" * 5000 + b"}", "number of too many digits"),
        (line(type="blocked"), "blocked needs either 'task' or 'text'"),
        (line(type="blocked", task="a/b", text="c"), "blocked needs either 'task' or 'text'"),
        (line(type="blocked", task="no task"), "blocked: task: 'no task' cannot be an id"),
        (line(type="split", subtasks=[]), "must be a list of 1 to 50, it is []"),
        (line(type="split", subtasks={}), "must be a list of 1 to 50, it is {}"),
        (line(type="split", subtasks=[{"title": "a"}] * (SUBTASKS_MAX + 1)), "list of 1 to 50"),
        (line(type="split", subtasks=["a"]), "subtasks[0] must be an object, it is 'a'"),
        (line(type="split", subtasks=[{"title": "a"}, {}]), "subtasks[1] needs the field 'title'"),
        (line(type="split", subtasks=[{"title": "a", "type": "b"}]), "has no field 'type'"),
        (b'{"type": "progress", "message": "\\ud800"}', "'\\ud800' has a lone surrogate"),
        (b'{"type": "ready", "\\udfff": 1}', "'\\udfff' has a lone surrogate"),
        (b'{"type": "progress", "message": "a\\u0000"}', "'a\\x00' has a NUL character"),
    ],
    ids=lambda given: repr(given)[:60],
)
def test_what_is_no_report_is_told_in_one_sentence(given_line: bytes, sentence: str) -> None:
    assert sentence in told(given_line)


def test_a_line_of_exactly_the_limit_is_read_and_a_longer_one_is_not() -> None:
    start = line(type="ready")
    full = start + b" " * (LINE_BYTES_MAX - len(start))

    assert parse_line(full + b"\n") == AgentReady()
    assert told(full + b" ") == "the line has 65537 bytes, at most 65536 are allowed"


def test_a_line_may_not_be_nested_deeper_than_the_limit() -> None:
    def nested(levels: int) -> bytes:
        return b'{"type": "ready", "x": ' + b"[" * levels + b"]" * levels + b"}"

    assert told(nested(DEPTH_MAX - 1)) == "ready has no field 'x'"
    assert told(nested(DEPTH_MAX)) == f"the line is nested deeper than {DEPTH_MAX} levels"
    assert told(nested(30_000)) == "the line is nested too deep"


def well_told(report: Report | RejectedLine) -> bool:
    if isinstance(report, RejectedLine):
        assert report.reason
        assert "\n" not in report.reason
        report.reason.encode()
    return True


@given(st.binary())
def test_any_bytes_are_a_report_or_rejected(given_line: bytes) -> None:
    assert well_told(parse_line(given_line))


@given(st.dictionaries(st.text() | st.sampled_from(FIELDS), JSON), st.sampled_from(TYPES) | JSON)
def test_any_json_is_a_report_or_rejected(fields: dict[str, Any], of: Any) -> None:
    assert well_told(parse_line(json.dumps({**fields, "type": of}).encode()))


@given(st.data())
def test_any_damage_to_a_good_line_is_a_report_or_rejected(data: st.DataObject) -> None:
    good = line(type="split", subtasks=[{"title": "a\u00e4", "text": "b"}], reason=None)
    at = data.draw(st.integers(0, len(good)))

    assert well_told(parse_line(good[:at] + data.draw(st.binary(max_size=3)) + good[at + 1 :]))
