"""A coding agent's published stream, read line by line: all of it, cut, mixed up and broken."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.kernel.reason import TransitionReason
from interlock.workers.specs.json_line import NAME_LENGTH_MAX, TEXT_LENGTH_MAX
from interlock.workers.supervision.reports import (
    LINE_BYTES_MAX,
    AgentFailed,
    Compacted,
    CompactNeeded,
    Progress,
    RejectedLine,
    ToolCompleted,
    ToolStarted,
    VerifyRequested,
)
from interlock.workers.supervision.streams import claude
from interlock.workers.supervision.streams.claude import ClaudeStream
from tests.workers.supervision.streams.sample import (
    REPORTS,
    SAMPLE,
    assistant,
    boundary,
    fed,
    line,
    result,
    status,
    tool_result,
    tool_use,
)


def test_the_sample_is_read_as_these_reports() -> None:
    assert fed(SAMPLE) == REPORTS


@pytest.mark.parametrize("lines", range(len(SAMPLE)))
def test_a_stream_that_ends_early_reports_what_it_had_said(lines: int) -> None:
    reports = fed(SAMPLE[:lines])

    assert reports == REPORTS[: len(reports)]
    assert not [one for one in reports if isinstance(one, VerifyRequested | AgentFailed)]


@pytest.mark.parametrize("number", range(len(SAMPLE)))
def test_a_line_cut_in_the_middle_costs_only_itself(number: int) -> None:
    cut = SAMPLE[number][: len(SAMPLE[number]) // 2]

    reports = fed([*SAMPLE[:number], cut, *SAMPLE[number + 1 :]])

    assert "the line is no JSON" in next(x.reason for x in reports if isinstance(x, RejectedLine))
    assert (reports[-1] == REPORTS[-1]) is (number < len(SAMPLE) - 1)


@pytest.mark.parametrize("garbage", [b"(node:7) Warning: old", b"\xff\xfe", b"[]", b"{}"])
def test_garbage_between_the_lines_is_told_and_changes_nothing(garbage: bytes) -> None:
    reports = fed(one for known in SAMPLE for one in (garbage, known))

    assert [one for one in reports if not isinstance(one, RejectedLine)] == REPORTS
    assert len(reports) == len(REPORTS) + len(SAMPLE)


def test_two_streams_do_not_share_what_they_remember() -> None:
    first, second = ClaudeStream(), ClaudeStream()

    both = [(fed([one], first), fed([one], second)) for one in SAMPLE]

    assert [one for left, _ in both for one in left] == REPORTS
    assert [one for _, right in both for one in right] == REPORTS


def test_blank_lines_and_kinds_that_say_nothing_of_the_work_are_passed_over() -> None:
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
        line("user", message={"content": [{"type": "text", "text": "a prompt"}]}),
        assistant({"type": "thinking", "thinking": "..."}, {"type": "text", "text": " "}),
    ]

    assert fed(silent) == []


@pytest.mark.parametrize(
    ("given_line", "reason"),
    [
        (line("assistant"), "the assistant line has no message, it is None"),
        (line("user", message=[]), "the user line has no message, it is []"),
        (line("assistant", message={}), "the message's content must be a list, it is None"),
        (assistant("text"), "a block of the content must be an object, it is 'text'"),
        (assistant({"type": "tool_use", "name": "Bash"}), "block needs the field 'id'"),
        (assistant({"type": "tool_use", "id": "a", "name": ""}), "block needs the field 'name'"),
        (line("result"), "the result line has no subtype, it is None"),
        (json.dumps({"type": 7}).encode(), "the line has no type, it is 7"),
        (b'{"type": "assistant", "x": NaN}', "the line has NaN, which JSON has no word for"),
        (b'{"type": ' + b"[" * 100_000, "the line is nested too deep"),
    ],
)
def test_a_known_kind_with_another_shape_is_told(given_line: bytes, reason: str) -> None:
    (rejected,) = fed([given_line])

    assert isinstance(rejected, RejectedLine)
    assert reason in rejected.reason


def test_what_comes_before_a_broken_block_is_kept() -> None:
    reports = fed([assistant(tool_use("a"), 7)])

    assert reports[0] == ToolStarted("Bash", "a")
    assert isinstance(reports[1], RejectedLine)


def test_a_tool_result_larger_than_our_own_lines_still_ends_its_tool() -> None:
    large = tool_result("a", content="x" * 2 * LINE_BYTES_MAX)

    assert fed([assistant(tool_use("a")), large])[-1] == ToolCompleted("Bash", "a", success=True)


def test_a_line_beyond_the_streams_own_limit_is_not_read() -> None:
    (rejected,) = fed([line("user", padding="x" * ClaudeStream.line_bytes_max)])

    assert isinstance(rejected, RejectedLine)
    assert "at most 4194304 are allowed" in rejected.reason


def test_halves_of_characters_and_nul_do_not_cost_the_line() -> None:
    reports = fed([assistant({"type": "text", "text": "a\ud83d\0b"}), result(result="c\udc00\0")])

    assert reports[0] == Progress("a\\ud83d\N{REPLACEMENT CHARACTER}b")
    assert reports[-1] == VerifyRequested("c?\N{REPLACEMENT CHARACTER}")


def test_what_is_told_is_bounded() -> None:
    long = tool_use("a" * 2 * NAME_LENGTH_MAX)
    reports = fed([assistant(long), result(result="b" * 2 * TEXT_LENGTH_MAX)])

    assert reports[0] == ToolStarted("Bash", "a" * NAME_LENGTH_MAX)
    assert reports[-1] == VerifyRequested("b" * TEXT_LENGTH_MAX)


def test_a_tool_that_ends_without_having_started_is_told() -> None:
    (rejected,) = fed([tool_result("a")])

    assert rejected == RejectedLine("the tool call 'a' ended without a start")


def test_a_tool_ends_once() -> None:
    reports = fed([assistant(tool_use("a")), tool_result("a"), tool_result("a")])

    assert reports[1] == ToolCompleted("Bash", "a", success=True)
    assert isinstance(reports[2], RejectedLine)


def test_a_tool_that_starts_twice_is_told() -> None:
    reports = fed([assistant(tool_use("a")), assistant(tool_use("a"))])

    assert reports == [
        ToolStarted("Bash", "a"),
        RejectedLine("the tool call 'a' was started twice"),
    ]


def test_tools_that_never_end_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claude, "OPEN_TOOLS_MAX", 1)

    reports = fed([assistant(tool_use("a"), tool_use("b"))])

    assert reports[1] == RejectedLine("more than 1 tool calls run at once")


@pytest.mark.parametrize(
    ("said", "success"), [({}, True), ({"is_error": None}, True), ({"is_error": True}, False)]
)
def test_a_tool_failed_only_if_its_result_says_so(said: dict[str, Any], success: bool) -> None:  # noqa: FBT001 - a case
    reports = fed([assistant(tool_use("a")), tool_result("a", **said)])

    assert reports[-1] == ToolCompleted("Bash", "a", success=success)


def test_a_tool_without_a_result_ends_with_the_run_and_did_not_succeed() -> None:
    reports = fed([assistant(tool_use("a")), result(), result()])

    assert reports[1:] == [
        ToolCompleted("Bash", "a", success=False),
        VerifyRequested(""),
        VerifyRequested(""),
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
def test_each_compaction_is_told_once_however_it_is_announced(lines: list[bytes]) -> None:
    assert fed(lines) == [CompactNeeded(), Compacted()]
    assert fed([*lines, *lines]) == [CompactNeeded(), Compacted()] * 2


def test_a_compaction_that_fails_fails_the_run() -> None:
    lines = [status("compacting"), status(None, compact_result="failed", compact_error="no room")]

    assert fed(lines)[-1] == AgentFailed(
        "the context could not be compacted: no room", TransitionReason.COMPACTION_FAILED
    )


def test_a_compaction_that_fails_without_having_begun_holds_nothing_up() -> None:
    assert fed([status(None, compact_result="failed")]) == []
