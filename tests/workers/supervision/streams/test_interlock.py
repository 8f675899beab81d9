"""Our own lines that are reports, and the reasons for which others are rejected."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.kernel.reason import TransitionReason
from interlock.workers.specs.json_line import COUNT_MAX, DEPTH_MAX, NAME_LENGTH_MAX, TEXT_LENGTH_MAX
from interlock.workers.supervision.reports import (
    AgentBlocked,
    AgentFailed,
    AgentReady,
    Compacted,
    CompactNeeded,
    MessageWritten,
    Progress,
    RejectedLine,
    Report,
    SessionOpened,
    SplitRequested,
    Subtask,
    ToolCompleted,
    ToolStarted,
    UsageAdded,
    UsageTotal,
    UsedTokens,
    WorkFinished,
)
from interlock.workers.supervision.streams.interlock import (
    LINE_BYTES_MAX,
    LINE_SUBTASKS_MAX,
    ReportKinds,
    parse_line,
)
from tests.any_text import any_text

FOUR = {
    "input_tokens": 1,
    "output_tokens": 2,
    "cache_creation_tokens": 3,
    "cache_read_tokens": 4,
}
SIGNAL = {"type": "path_exists", "value": "a"}
PART = {"scope": "small", "signals": [SIGNAL], "owned_files": ["src"], "after": [1]}
TYPES = [
    "session",
    "message",
    "costs",
    "final_costs",
    "result",
    "context_exceeded",
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
    st.none() | st.booleans() | st.integers() | st.floats() | any_text(),
    lambda inner: st.lists(inner) | st.dictionaries(any_text() | st.sampled_from(FIELDS), inner),
    max_leaves=10,
)


def line(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def read(given_line: bytes, kinds: ReportKinds = ReportKinds.AGENT) -> Report | RejectedLine:
    return parse_line(given_line, kinds)


def rejection(given_line: bytes, kinds: ReportKinds = ReportKinds.AGENT) -> str:
    rejected = read(given_line, kinds)
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
        (line(type="verify_requested", summary=""), WorkFinished("")),
        (line(type="failed", error="no disk"), AgentFailed("no disk")),
        (line(type="failed", error="no disk", reason=None), AgentFailed("no disk")),
        (line(type="failed", error="busy", retry_after_s=3), AgentFailed("busy", retry_after_s=3)),
        (
            line(type="failed", error="too long", reason="prompt_too_long"),
            AgentFailed("too long", TransitionReason.PROMPT_TOO_LONG),
        ),
        (line(type="progress", message="half"), Progress("half")),
        (line(type="progress", message="all", percent=100), Progress("all", 100)),
        (line(type="usage", cost_micro=0), UsageAdded(0)),
        (line(type="usage", tokens_in=7), UsageAdded(tokens=UsedTokens(7))),
        (
            line(
                type="usage",
                tokens_in=1,
                tokens_out=2,
                cache_creation_tokens=3,
                cache_read_tokens=4,
                context_used=5,
                context_size=6,
                cost_micro=7,
            ),
            UsageAdded(7, UsedTokens(1, 2, 3, 4), 5, 6),
        ),
        (line(type="blocked", task="backlog/t-1"), AgentBlocked(task="backlog/t-1")),
        (line(type="blocked", text="needs a key"), AgentBlocked(text="needs a key")),
        (
            line(type="split", subtasks=[{"title": "a", "text": "b"}, {"title": "c"}]),
            SplitRequested((Subtask("a", "b"), Subtask("c"))),
        ),
        (
            line(type="split", subtasks=[{"title": "a"}, {**PART, "title": "b"}]),
            SplitRequested((Subtask("a"), Subtask("b", "", "small", (SIGNAL,), ("src",), (1,)))),
        ),
        (
            line(type="split", subtasks=[{"title": "a", "signals": [], "after": []}]),
            SplitRequested((Subtask("a"),)),
        ),
    ],
)
def test_a_line_of_each_type_is_its_report(given_line: bytes, report: Report) -> None:
    assert read(given_line) == report
    assert read(given_line + b"\r\n") == report


@pytest.mark.parametrize(
    ("message", "report"),
    [
        ({"type": "session", "id": "s1"}, SessionOpened("s1")),
        ({"type": "message", "text": "hello\nyou"}, MessageWritten("hello\nyou")),
        ({"type": "message", "text": "", "continues": True}, MessageWritten("", continues=True)),
        (
            {"type": "costs", "cost_micro": 9, "tokens": FOUR},
            UsageTotal(9, UsedTokens(1, 2, 3, 4)),
        ),
        ({"type": "costs", "cost_micro": COUNT_MAX}, UsageTotal(COUNT_MAX)),
        ({"type": "final_costs", "cost_micro": 0, "tokens": {}}, UsageTotal(0, final=True)),
        ({"type": "result", "text": "all clean"}, WorkFinished("all clean")),
        ({"type": "result"}, WorkFinished("")),
        ({"type": "context_exceeded"}, AgentFailed("", TransitionReason.PROMPT_TOO_LONG)),
        (
            {"type": "context_exceeded", "detail": "9 of 8"},
            AgentFailed("9 of 8", TransitionReason.PROMPT_TOO_LONG),
        ),
        ({"type": "verify_requested", "summary": "done"}, WorkFinished("done")),
    ],
)
def test_a_line_of_a_session_is_this_report(message: dict[str, Any], report: Report) -> None:
    assert read(line(**message), ReportKinds.SESSION) == report


@pytest.mark.parametrize(
    ("given_line", "report"),
    [
        (line(type="tool_started", tool=7, id=1), ToolStarted("7", "1")),
        (
            line(type="tool_completed", tool=True, id=1.5, success=False),
            ToolCompleted("true", "1.5", success=False),
        ),
        (line(type="failed", error=404), AgentFailed("404")),
        (line(type="verify_requested", summary=42), WorkFinished("42")),
        (line(type="blocked", task=3), AgentBlocked(task="3")),
        (line(type="split", subtasks=[{"title": 12}]), SplitRequested((Subtask("12"),))),
    ],
    ids=lambda given: repr(given)[:60],
)
def test_a_number_or_a_boolean_is_taken_where_a_text_is_expected(
    given_line: bytes, report: Report
) -> None:
    assert read(given_line) == report


@pytest.mark.parametrize("kinds", ReportKinds)
@pytest.mark.parametrize(
    ("fields", "ends"),
    [
        ({"type": "failed"}, True),
        ({"type": "blocked", "text": []}, True),
        ({"type": "split", "subtasks": [{"titel": "a"}]}, True),
        ({"type": "progress"}, False),
        ({"type": ["failed"]}, False),
        ({"type": {"failed": 1}}, False),
        ({}, False),
    ],
)
def test_a_refused_report_that_the_work_ends_without_success_is_marked(
    fields: dict[str, Any], kinds: ReportKinds, *, ends: bool
) -> None:
    rejected = read(line(**fields), kinds)

    assert isinstance(rejected, RejectedLine)
    assert rejected.ends is ends


@pytest.mark.parametrize("reason", TransitionReason)
def test_every_published_reason_may_be_given(reason: TransitionReason) -> None:
    assert read(line(type="failed", error="e", reason=str(reason))) == AgentFailed("e", reason)


@pytest.mark.parametrize(
    ("given_line", "sentence"),
    [
        (b"", "the line is empty"),
        (b" \n", "the line is empty"),
        (b'{"type": "rea', "not JSON: Unterminated string starting at at column 10"),
        (b"warning: no config found", "the line is not JSON"),
        (b'{"type": "ready"} {"type": "ready"}', "not JSON: Extra data"),
        (b'\xff{"type": "ready"}', "not UTF-8 at byte 0"),
        (b"[]", "not a JSON object, it is []"),
        (b'"ready"', "not a JSON object, it is 'ready'"),
        (b"{}", "has no type"),
        (line(type="exploded"), "'exploded' is no type of report; known: ready, tool_started"),
        (line(type=None), "None is no type of report"),
        (line(type=["ready"]), "['ready'] is no type of report"),
        (line(type="ready", pid=7), "ready: 'pid' is not a field here; take it out"),
        (b'{"type": "ready", "type": "compacted"}', "the field 'type' is there twice"),
        (line(type="tool_started", tool="Bash"), "tool_started: it has no id; write it"),
        (line(type="failed"), "failed: it has no error; write it"),
        (line(type="failed", error=" "), "failed: error: ' ': it is empty; write a text"),
        (line(type="failed", error=[7]), "failed: error: [7]: write a text"),
        (
            line(type="failed", error="e", reason="bored"),
            "failed: reason: 'bored': write completed, ",
        ),
        (line(type="failed", error="e", reason=[]), "failed: reason: []: write completed, "),
        (
            line(type="tool_completed", tool="a", id="b", success=1),
            "success: 1: write true or false",
        ),
        (line(type="tool_started", tool="a" * (NAME_LENGTH_MAX + 1), id="b"), "at most 200"),
        (line(type="progress", message="a" * (TEXT_LENGTH_MAX + 1)), "at most 16000"),
        (line(type="progress", message="a", percent=101), "percent: 101: write 100 or less"),
        (line(type="progress", message="a", percent=-1), "percent: -1: write 0 or more"),
        (line(type="progress", message="a", percent=True), "percent: True: write a whole number"),
        (line(type="progress", message="a", percent=0.5), "percent: 0.5: write a whole number"),
        (line(type="usage"), "usage has no number"),
        (line(type="usage", tokens_in=-1), "tokens_in: -1: write 0 or more"),
        (
            line(type="usage", cost_micro=COUNT_MAX + 1),
            f"cost_micro: {COUNT_MAX + 1}: write {COUNT_MAX} or less",
        ),
        (line(type="usage", cache_read_tokens=1.5), "cache_read_tokens: 1.5: write a whole number"),
        (
            line(type="usage", tokens={}),
            "usage: 'tokens' is not a field here; did you mean 'tokens_in'?",
        ),
        (line(type="usage", context_size=0), "context_size: 0: write 1 or more"),
        (b'{"type": "usage", "tokens_in": NaN}', "has NaN, which is not a JSON number"),
        (b'{"type": "usage", "tokens_in": -Infinity}', "which is not a JSON number"),
        (b'{"type": "usage", "tokens_in": 1e999}', "the number '1e999' is too large"),
        (b'{"type": "usage", "tokens_in": ' + b"9" * 5000 + b"}", "number of too many digits"),
        (line(type="blocked"), "blocked needs either 'task' or 'text'"),
        (line(type="blocked", task="a/b", text="c"), "blocked needs either 'task' or 'text'"),
        (line(type="blocked", task="no task"), "blocked: task: 'no task': it cannot be an id"),
        (line(type="split", subtasks=[]), "subtasks: []: these are 0, at least 1 must be there"),
        (line(type="split", subtasks={}), "subtasks: {}: write a list"),
        (
            line(type="split", subtasks=[{"title": "a"}] * (LINE_SUBTASKS_MAX + 1)),
            "these are 51, at most 50 are allowed",
        ),
        (line(type="split", subtasks=["a"]), "subtasks (entry 1): 'a': write an object"),
        (
            line(type="split", subtasks=[{"title": "a"}, {}]),
            "subtasks (entry 2): it has no title; write it",
        ),
        (
            line(type="split", subtasks=[{"title": "a", "type": "b"}]),
            "subtasks (entry 1): 'type' is not a field here",
        ),
        (b'{"type": "progress", "message": "\\ud800"}', "'\\ud800' has a lone surrogate"),
        (b'{"type": "ready", "\\udfff": 1}', "'\\udfff' has a lone surrogate"),
        (b'{"type": "progress", "message": "a\\u0000"}', "'a\\x00' has a NUL character"),
    ],
    ids=lambda given: repr(given)[:60],
)
def test_a_line_that_is_no_report_is_rejected_with_one_sentence(
    given_line: bytes, sentence: str
) -> None:
    assert sentence in rejection(given_line)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"type": "sesion", "id": "s"}, "'sesion' is no type of report; known: session,"),
        ({"type": "mail", "to": "a", "text": "b"}, "'mail' is no type of report"),
        ({"type": "split", "subtasks": [{"title": "a"}]}, "'split' is no type of report"),
        ({"type": "session"}, "session: it has no id; write it"),
        ({"type": "session", "id": " "}, "session: id: ' ': it is empty; write a text"),
        ({"type": "session", "id": "s" * 201}, "it has 201 characters, at most 200"),
        ({"type": "message", "text": {}}, "message: text: {}: write a text"),
        (
            {"type": "message", "text": "x" * (TEXT_LENGTH_MAX + 1)},
            "it has 16001 characters, at most 16000",
        ),
        ({"type": "costs"}, "costs: it has no cost_micro; write it"),
        ({"type": "costs", "cost_micro": COUNT_MAX + 1}, f"write {COUNT_MAX} or less"),
        ({"type": "costs", "cost_micro": True}, "costs: cost_micro: True: write a whole number"),
        ({"type": "costs", "cost_micro": "1"}, "costs: cost_micro: '1': write a whole number"),
        ({"type": "costs", "cost_micro": 1, "tokens": 4}, "costs: tokens: 4: write an object"),
        (
            {"type": "costs", "cost_micro": 1, "tokens": {"in": 4}},
            "costs: tokens: 'in' is not a field here",
        ),
        (
            {"type": "final_costs", "cost_micro": 1, "tokens": {"input_tokens": -4}},
            "final_costs: tokens.input_tokens: -4: write 0 or more",
        ),
        ({"type": "result", "text": "a\0b"}, "has a NUL character"),
    ],
)
def test_a_line_that_is_no_report_of_a_session_is_rejected_with_one_sentence(
    message: dict[str, Any], reason: str
) -> None:
    rejected = rejection(line(**message), ReportKinds.SESSION)

    assert reason in rejected
    assert "\n" not in rejected


@pytest.mark.parametrize("kind", ["session", "message", "costs", "final_costs", "result"])
def test_an_agent_has_no_reports_of_a_session(kind: str) -> None:
    assert f"{kind!r} is no type of report; known: ready," in rejection(line(type=kind))


def test_a_line_of_exactly_the_limit_is_read_and_a_longer_one_is_not() -> None:
    start = line(type="ready")
    full = start + b" " * (LINE_BYTES_MAX - len(start))

    assert read(full + b"\n") == AgentReady()
    assert rejection(full + b" ") == "the line has 65537 bytes, at most 65536 are allowed"


def test_a_line_may_not_be_nested_deeper_than_the_limit() -> None:
    def nested(levels: int) -> bytes:
        return b'{"type": "ready", "x": ' + b"[" * levels + b"]" * levels + b"}"

    assert rejection(nested(DEPTH_MAX - 1)) == "ready: 'x' is not a field here; take it out"
    assert rejection(nested(DEPTH_MAX)) == f"the line is nested deeper than {DEPTH_MAX} levels"
    assert rejection(nested(30_000)) == "the line is nested too deep"


def is_well_formed(report: Report | RejectedLine) -> bool:
    if isinstance(report, RejectedLine):
        assert report.reason
        assert "\n" not in report.reason
        report.reason.encode()
    return True


def test_an_addition_names_what_a_record_counts() -> None:
    usage = UsageAdded(7, UsedTokens(1, 2, 3, 4), 5, 6)

    assert usage.deltas == {"tokens_in": 8, "tokens_out": 2, "spent": 7}
    assert UsageAdded(context_used=5).deltas == {}
    assert UsageAdded(0, UsedTokens(COUNT_MAX, 0, 1)).deltas == {"tokens_in": COUNT_MAX}


@given(st.binary())
def test_any_bytes_are_a_report_or_rejected(given_line: bytes) -> None:
    assert all(is_well_formed(read(given_line, kinds)) for kinds in ReportKinds)


@given(st.dictionaries(any_text() | st.sampled_from(FIELDS), JSON), st.sampled_from(TYPES) | JSON)
def test_any_json_is_a_report_or_rejected(fields: dict[str, Any], kind: Any) -> None:
    given_line = json.dumps({**fields, "type": kind}).encode()

    assert all(is_well_formed(read(given_line, kinds)) for kinds in ReportKinds)


@given(st.data())
def test_any_damage_to_a_good_line_is_a_report_or_rejected(data: st.DataObject) -> None:
    good = line(type="split", subtasks=[{"title": "a\u00e4", "text": "b"}], reason=None)
    index = data.draw(st.integers(0, len(good)))

    assert is_well_formed(read(good[:index] + data.draw(st.binary(max_size=3)) + good[index + 1 :]))
