"""A coding agent's published stream, read line by line: complete, cut, mixed and broken."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.kernel.reason import TransitionReason
from interlock.workers.specs.json_line import NAME_LENGTH_MAX, TEXT_LENGTH_MAX
from interlock.workers.supervision.reports import (
    AgentFailed,
    AgentReady,
    Compacted,
    CompactNeeded,
    MessageWritten,
    RejectedLine,
    SessionOpened,
    ToolCompleted,
    ToolStarted,
    WorkFinished,
)
from interlock.workers.supervision.streams import claude
from interlock.workers.supervision.streams.claude import ClaudeStream
from interlock.workers.supervision.streams.interlock import LINE_BYTES_MAX
from tests.workers.supervision.streams.sample import (
    REPORTS,
    SAMPLE,
    assistant,
    boundary,
    fed,
    init,
    line,
    result,
    status,
    tool_result,
    tool_use,
)


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def test_the_sample_is_read_as_these_reports() -> None:
    assert fed(SAMPLE) == REPORTS


@pytest.mark.parametrize("lines", range(len(SAMPLE)))
def test_a_stream_that_ends_early_reports_its_lines_up_to_there(lines: int) -> None:
    reports = fed(SAMPLE[:lines])

    assert reports == REPORTS[: len(reports)]
    assert not [report for report in reports if isinstance(report, WorkFinished | AgentFailed)]


@pytest.mark.parametrize("number", range(len(SAMPLE)))
def test_a_line_cut_in_the_middle_costs_only_itself(number: int) -> None:
    cut = SAMPLE[number][: len(SAMPLE[number]) // 2]

    reports = fed([*SAMPLE[:number], cut, *SAMPLE[number + 1 :]])

    assert "the line is not JSON" in next(x.reason for x in reports if isinstance(x, RejectedLine))
    assert (reports[-1] == REPORTS[-1]) is (number < len(SAMPLE) - 1)


@pytest.mark.parametrize("garbage", [b"(node:7) Warning: old", b"\xff\xfe", b"[]", b"{}"])
def test_garbage_between_the_lines_is_rejected_and_changes_nothing(garbage: bytes) -> None:
    reports = fed(line for known in SAMPLE for line in (garbage, known))

    assert [report for report in reports if not isinstance(report, RejectedLine)] == REPORTS
    assert len(reports) == len(REPORTS) + len(SAMPLE)


def test_two_streams_share_no_memory() -> None:
    first, second = ClaudeStream(), ClaudeStream()

    both = [(fed([line], first), fed([line], second)) for line in SAMPLE]

    assert [report for left, _ in both for report in left] == REPORTS
    assert [report for _, right in both for report in right] == REPORTS


def test_blank_lines_and_unknown_kinds_are_skipped() -> None:
    silent = [
        b"",
        b"\n",
        line("stream_event", event={}),
        line("rate_limit_event"),
        line("a_kind_of_next_year", anything=[1]),
        line("system", subtype="api_retry", attempt=1),
        line("system"),
        status("requesting"),
        line("user", message={"content": "a prompt"}),
        line("user", message={"content": [text("a prompt")]}),
    ]

    assert fed(silent) == []


@pytest.mark.parametrize(
    ("given_line", "reason"),
    [
        (line("assistant"), "the assistant line has no message, it is None"),
        (line("user", message=[]), "the user line has no message, it is []"),
        (line("user", message={}), "the message's content must be a list, it is None"),
        (line("user", message={"content": ["text"]}), "must be an object, it is 'text'"),
        (tool_result(""), "a tool_result block needs the field 'tool_use_id'"),
        (line("result"), "the result line has no subtype, it is None"),
        (json.dumps({"type": 7}).encode(), "the line has no type, it is 7"),
        (b'{"type": "assistant", "x": NaN}', "the line has NaN, which is not a JSON number"),
        (b'{"type": ' + b"[" * 100_000, "the line is nested too deep"),
    ],
)
def test_a_known_kind_with_another_shape_is_rejected(given_line: bytes, reason: str) -> None:
    (rejected,) = fed([given_line])

    assert isinstance(rejected, RejectedLine)
    assert reason in rejected.reason


def test_reports_before_a_broken_block_are_kept() -> None:
    reports = fed([assistant(text("b"), tool_use("a"), 7)])

    assert reports[:2] == [MessageWritten("b"), ToolStarted("Bash", "a")]
    assert [type(report) for report in reports[2:]] == [RejectedLine]


@pytest.mark.parametrize(
    "broken",
    [
        line("assistant"),
        line("assistant", message={"content": 5, "usage": 5}),
        line("assistant", message={"content": [5, {"type": "text", "text": {}}]}),
        assistant({"type": "tool_use", "name": "Bash"}),
        assistant({"type": "tool_use", "id": "a", "name": ""}),
        line("system", subtype="init"),
        line("result", subtype=None, modelUsage={"m": 5}, usage=[]),
        line("result", modelUsage=[], usage={"output_tokens": {}}),
    ],
)
def test_a_line_of_another_shape_is_rejected_and_the_next_is_read(broken: bytes) -> None:
    reports = fed([broken, init("a")])

    assert RejectedLine in [type(report) for report in reports]
    assert reports[-2:] == [SessionOpened("a"), AgentReady()]


def test_a_tool_result_larger_than_our_own_lines_still_ends_its_tool() -> None:
    large = tool_result("a", content="x" * 2 * LINE_BYTES_MAX)

    assert fed([assistant(tool_use("a")), large])[-1] == ToolCompleted("Bash", "a", success=True)


def test_a_line_beyond_the_streams_own_limit_is_not_read() -> None:
    (rejected,) = fed([line("user", padding="x" * ClaudeStream.line_bytes_max)])

    assert isinstance(rejected, RejectedLine)
    assert "at most 4194304 are allowed" in rejected.reason


def test_broken_characters_and_nul_do_not_cost_the_line() -> None:
    reports = fed([assistant(text("a\ud83d\0b")), result(result="c\udc00\0")])

    assert reports[0] == MessageWritten("a?\N{REPLACEMENT CHARACTER}b")
    assert reports[-1] == WorkFinished("c?\N{REPLACEMENT CHARACTER}")


def test_reported_texts_are_limited() -> None:
    long = tool_use("a" * 2 * NAME_LENGTH_MAX)
    reports = fed([assistant(long), result(result="b" * 2 * TEXT_LENGTH_MAX)])

    assert reports[1] == ToolStarted("Bash", "a" * NAME_LENGTH_MAX)
    assert reports[-1] == WorkFinished("b" * (TEXT_LENGTH_MAX - 3) + "...")


def test_a_tool_that_ends_without_a_start_is_rejected() -> None:
    (rejected,) = fed([tool_result("a")])

    assert rejected == RejectedLine("the tool call 'a' ended without a start")


def test_a_tool_ends_once() -> None:
    reports = fed([assistant(tool_use("a")), tool_result("a"), tool_result("a")])

    assert reports[2] == ToolCompleted("Bash", "a", success=True)
    assert isinstance(reports[3], RejectedLine)


def test_a_tool_that_starts_twice_is_rejected() -> None:
    reports = fed([assistant(tool_use("a")), assistant(tool_use("a"))])

    assert reports[1:] == [
        ToolStarted("Bash", "a"),
        RejectedLine("the tool call 'a' was started twice"),
    ]


def test_tools_that_never_end_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claude, "OPEN_TOOLS_MAX", 1)

    reports = fed([assistant(tool_use("a"), tool_use("b"))])

    assert reports[2] == RejectedLine("more than 1 tool calls run at once")


@pytest.mark.parametrize(
    ("fields", "success"), [({}, True), ({"is_error": None}, True), ({"is_error": True}, False)]
)
def test_a_tool_failed_only_if_its_result_is_an_error(
    fields: dict[str, Any],
    success: bool,  # noqa: FBT001 - a case
) -> None:
    reports = fed([assistant(tool_use("a")), tool_result("a", **fields)])

    assert reports[-1] == ToolCompleted("Bash", "a", success=success)


def test_a_tool_without_a_result_ends_with_the_process_and_did_not_succeed() -> None:
    reports = fed([assistant(tool_use("a")), result(), result()])

    assert reports[2:] == [
        ToolCompleted("Bash", "a", success=False),
        WorkFinished(""),
        WorkFinished(""),
    ]


@pytest.mark.parametrize(
    "lines",
    [
        [status("compacting"), status(None, compact_result="success"), boundary()],
        [status("compacting"), status("compacting"), boundary()],
        [status("compacting"), status(None, compact_result="success")],
        [boundary()],
        [status(None, compact_result="success"), boundary()],
    ],
)
def test_each_compaction_is_reported_once_in_any_form(lines: list[bytes]) -> None:
    assert fed(lines) == [CompactNeeded(), Compacted()]
    assert fed([*lines, *lines]) == [CompactNeeded(), Compacted()] * 2


def test_a_compaction_that_fails_is_a_failure() -> None:
    lines = [status("compacting"), status(None, compact_result="failed", compact_error="no room")]

    assert fed(lines)[-1] == AgentFailed(
        "the context could not be compacted: no room", TransitionReason.COMPACTION_FAILED
    )


def test_a_compaction_that_fails_without_a_start_changes_nothing() -> None:
    assert fed([status(None, compact_result="failed")]) == []


def test_a_session_is_reported_once_and_again_when_it_changes() -> None:
    reports = fed([init("a"), init("a"), init("b")])

    assert reports == [
        SessionOpened("a"),
        AgentReady(),
        AgentReady(),
        SessionOpened("b"),
        AgentReady(),
    ]
    assert [type(report) for report in fed([init("")])] == [RejectedLine, AgentReady]


def test_further_lines_of_a_message_continue_it() -> None:
    thinking = {"type": "thinking", "thinking": "..."}

    assert fed([assistant(thinking), assistant(text("a"), text("b")), assistant(thinking)]) == [
        MessageWritten(""),
        MessageWritten("a\nb", continues=True),
    ]


def test_a_message_that_only_calls_a_tool_is_a_message_too() -> None:
    assert fed([assistant(tool_use("t1"))]) == [MessageWritten(""), ToolStarted("Bash", "t1")]


@pytest.mark.parametrize(
    "fields", [{"parent_tool_use_id": "t"}, {"inner": {"model": "<synthetic>"}}]
)
def test_a_message_of_a_subagent_or_the_program_is_not_the_agents_own(
    fields: dict[str, Any],
) -> None:
    lines = [assistant(text("b"), **fields), assistant(tool_use("t1"), **fields)]

    assert fed(lines) == [MessageWritten("b", own=False), ToolStarted("Bash", "t1")]
