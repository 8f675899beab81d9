"""What a codon's process says of itself, in our lines and in those of Claude Code."""

from __future__ import annotations

import json
from dataclasses import astuple
from functools import reduce
from typing import Any

import pytest

from interlock.kernel.reason import TransitionReason
from interlock.workers.specs.json_line import COUNT_MAX, TEXT_LENGTH_MAX
from interlock.workers.supervision.reports import (
    LINE_BYTES_MAX,
    AgentFailed,
    AgentReady,
    Compacted,
    CompactNeeded,
    Progress,
    RejectedLine,
    ToolCompleted,
    ToolStarted,
    parse_line,
)
from interlock.workers.supervision.session_reports import (
    ContextExceeded,
    CostsAdded,
    CostsFinal,
    CostsSet,
    MessageWritten,
    ResultReached,
    SessionOpened,
    SessionReport,
    TokenCounts,
    plain_text,
)
from interlock.workers.supervision.session_streams import SESSION_STREAMS, InterlockSessionStream
from interlock.workers.supervision.streams.claude_session import MESSAGES_MAX, ClaudeSessionStream
from tests.workers.supervision.streams.sample import SAMPLE, assistant, init, line, result, tool_use

FOUR = {
    "input_tokens": 1,
    "output_tokens": 2,
    "cache_creation_tokens": 3,
    "cache_read_tokens": 4,
}
OF_REQUEST = {
    "input_tokens": 5,
    "output_tokens": 2,
    "cache_creation_input_tokens": 30,
    "cache_read_input_tokens": 400,
}


def said(of: bytes) -> SessionReport | RejectedLine:
    (one,) = InterlockSessionStream().feed(of)
    return one


def fed(
    *lines: bytes, speech: ClaudeSessionStream | None = None
) -> list[SessionReport | RejectedLine]:
    speech = speech or ClaudeSessionStream()
    return [one for each in lines for one in speech.feed(each)]


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


@pytest.mark.parametrize(
    ("message", "report"),
    [
        ({"type": "session", "id": "s1"}, SessionOpened("s1")),
        ({"type": "message", "text": "hello\nyou"}, MessageWritten("hello\nyou")),
        ({"type": "message", "text": "", "continues": True}, MessageWritten("", continues=True)),
        ({"type": "usage", "cost_micro": 0}, CostsAdded(0)),
        ({"type": "usage", "tokens_in": 7}, CostsAdded(tokens=TokenCounts(7))),
        (
            {
                "type": "usage",
                "tokens_in": 1,
                "tokens_out": 2,
                "cache_creation_tokens": 3,
                "cache_read_tokens": 4,
                "cost_micro": 5,
                "context_used": 6,
                "context_size": 7,
            },
            CostsAdded(5, TokenCounts(1, 2, 3, 4), 6, 7),
        ),
        ({"type": "costs", "cost_micro": 9, "tokens": FOUR}, CostsSet(9, TokenCounts(1, 2, 3, 4))),
        ({"type": "costs", "cost_micro": COUNT_MAX}, CostsSet(COUNT_MAX)),
        ({"type": "final_costs", "cost_micro": 0, "tokens": {}}, CostsFinal(0)),
        ({"type": "result", "text": "all clean"}, ResultReached("all clean")),
        ({"type": "result"}, ResultReached()),
        ({"type": "context_exceeded"}, ContextExceeded()),
        ({"type": "context_exceeded", "detail": "9 of 8"}, ContextExceeded("9 of 8")),
        ({"type": "ready"}, AgentReady()),
        ({"type": "tool_started", "tool": "t", "id": "1"}, ToolStarted("t", "1")),
        (
            {"type": "tool_completed", "tool": "t", "id": "1", "success": False},
            ToolCompleted("t", "1", success=False),
        ),
        ({"type": "compact_needed"}, CompactNeeded()),
        ({"type": "compacted"}, Compacted()),
        ({"type": "progress", "message": "half"}, Progress("half")),
        ({"type": "verify_requested", "summary": "done"}, ResultReached("done")),
        ({"type": "failed", "error": "no", "retry_after_s": 3}, AgentFailed("no", retry_after_s=3)),
        (
            {"type": "failed", "error": "it is all too much", "reason": "prompt_too_long"},
            ContextExceeded("it is all too much"),
        ),
        (
            {"type": "failed", "error": "prompt is too long: 9 > 8"},
            ContextExceeded("prompt is too long: 9 > 8"),
        ),
    ],
)
def test_a_line_of_ours_is_this_report(message: dict[str, Any], report: SessionReport) -> None:
    assert said(json.dumps(message).encode()) == report


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({}, "the line has no type"),
        ({"type": 7}, "7 is no type of report"),
        ({"type": "sesion", "id": "s"}, "'sesion' is no type of report; known: session,"),
        ({"type": "mail", "to": "a", "text": "b"}, "'mail' is no type of report"),
        ({"type": "split", "subtasks": [{"title": "a"}]}, "'split' is no type of report"),
        ({"type": "session"}, "session needs the field 'id'"),
        ({"type": "session", "id": " "}, "session: id must not be empty"),
        ({"type": "session", "id": "s" * 201}, "session: id has 201 characters, at most 200"),
        ({"type": "message", "text": 5}, "message: text must be text, it is 5"),
        ({"type": "message", "text": "x" * (TEXT_LENGTH_MAX + 1)}, "message: text has 16001"),
        ({"type": "usage"}, "usage has no number"),
        ({"type": "usage", "cost_micro": -1}, "usage: cost_micro must be a whole number 0 to"),
        ({"type": "usage", "tokens_in": -5}, "usage: tokens_in must be a whole number"),
        ({"type": "usage", "cache_read_tokens": 1.5}, "usage: cache_read_tokens must be a whole"),
        ({"type": "usage", "tokens": {}}, "usage has no field 'tokens'"),
        ({"type": "costs"}, "costs needs the field 'cost_micro'"),
        ({"type": "costs", "cost_micro": COUNT_MAX + 1}, "costs: cost_micro must be a whole"),
        ({"type": "costs", "cost_micro": True}, "costs: cost_micro must be a whole"),
        ({"type": "costs", "cost_micro": "1"}, "costs: cost_micro must be a whole"),
        ({"type": "costs", "cost_micro": 1, "tokens": 4}, "costs: tokens must be an object"),
        ({"type": "costs", "cost_micro": 1, "tokens": {"in": 4}}, "costs: tokens has no field"),
        (
            {"type": "final_costs", "cost_micro": 1, "tokens": {"input_tokens": -4}},
            "final_costs: tokens: input_tokens must be a whole number",
        ),
        ({"type": "result", "text": "a\0b"}, "has a NUL character"),
        ({"type": "failed"}, "failed needs the field 'error'"),
    ],
)
def test_a_line_that_is_no_report_is_told_in_a_sentence(
    message: dict[str, Any], reason: str
) -> None:
    told = said(json.dumps(message).encode())

    assert isinstance(told, RejectedLine)
    assert reason in told.reason
    assert "\n" not in told.reason


@pytest.mark.parametrize(
    "garbage",
    [b"{", b"[]", b"\xff", b'{"type": "result", "type": "result"}', b"x" * (LINE_BYTES_MAX + 1)],
)
@pytest.mark.parametrize("name", ["interlock", "claude"])
def test_garbage_is_told_and_never_raised(name: str, garbage: bytes) -> None:
    assert [type(one) for one in SESSION_STREAMS[name]().feed(garbage)] == [RejectedLine]


def test_blank_lines_say_nothing_and_a_plain_process_never_says_anything() -> None:
    result_line = b'{"type": "result"}'

    assert [SESSION_STREAMS[name]().feed(b" \n") for name in SESSION_STREAMS] == [(), (), ()]
    assert SESSION_STREAMS["plain"]().feed(result_line) == ()
    assert [SESSION_STREAMS[name]().reports_result for name in SESSION_STREAMS] == [
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("kind", ["session", "message", "costs", "final_costs", "result"])
def test_keepers_of_tasks_still_know_none_of_the_codons_types(kind: str) -> None:
    assert isinstance(parse_line(json.dumps({"type": kind}).encode()), RejectedLine)


# --- Claude Code -------------------------------------------------------------------------------


def test_the_sample_says_its_session_its_messages_its_costs_and_its_result() -> None:
    told = fed(*SAMPLE)

    assert told[0] == SessionOpened("0b6c1f52-7a53-4a0e-9c54-2f8f6a1d9e01")
    messages = [one for one in told if isinstance(one, MessageWritten)]
    assert [one.text for one in messages if one.text] == [
        "I run the tests first,\nthen read the code.",
        "The sum is right now and its test passes.",
    ]
    # Four requests of the main conversation: what a subagent says is not the agent's.
    assert sum(not one.continues for one in messages) == 4
    assert [one for one in told if isinstance(one, CostsFinal)] == [
        CostsFinal(87_654, TokenCounts(*final_of_sample()))
    ]
    assert told[-1] == ResultReached("The sum is right now and its test passes.")
    assert ToolStarted("Bash", "toolu_01A") in told
    assert not [one for one in told if isinstance(one, RejectedLine | Progress)]


def final_of_sample() -> tuple[int, int, int, int]:
    models = json.loads(SAMPLE[-1])["modelUsage"].values()
    kinds = ("inputTokens", "outputTokens", "cacheCreationInputTokens", "cacheReadInputTokens")
    totals = [sum(model[kind] for model in models) for kind in kinds]
    return (totals[0], totals[1], totals[2], totals[3])


def test_what_is_added_on_the_way_comes_to_what_the_lines_say_at_most() -> None:
    added = [one.tokens for one in fed(*SAMPLE) if isinstance(one, CostsAdded)]

    total = reduce(TokenCounts.plus, added)

    # Each request counted once; the output as it stood when each answer began or was told again.
    pairs = list(zip(astuple(total), final_of_sample(), strict=True))
    assert all(way <= final for way, final in pairs)
    assert total.input_tokens + total.cache_read_tokens + total.cache_creation_tokens == 48222


def test_lines_of_one_message_count_once_and_the_most_that_they_say() -> None:
    first = assistant(text("a"), usage=OF_REQUEST)
    again = assistant(text("b"), usage={**OF_REQUEST, "output_tokens": 9})

    told = fed(init(), first, first, again)

    assert [one for one in told if isinstance(one, CostsAdded)] == [
        CostsAdded(0, TokenCounts(5, 2, 30, 400), 435),
        CostsAdded(0, TokenCounts(0, 7, 0, 0), 435),
    ]
    assert [one for one in told if isinstance(one, MessageWritten)] == [
        MessageWritten("a"),
        MessageWritten("a", continues=True),
        MessageWritten("b", continues=True),
    ]


def test_what_is_remembered_of_messages_has_a_bound() -> None:
    speech = ClaudeSessionStream()
    for number in range(MESSAGES_MAX + 50):
        fed(assistant(usage=OF_REQUEST, inner={"id": str(number)}), speech=speech)

    assert len(speech._counted) == MESSAGES_MAX


def test_a_subagent_costs_but_says_nothing_and_fills_no_context() -> None:
    told = fed(assistant(text("found"), usage=OF_REQUEST, parent_tool_use_id="t1"))

    assert told == [CostsAdded(0, TokenCounts(5, 2, 30, 400))]


def test_a_notice_of_the_program_is_no_message_of_its_model() -> None:
    notice = assistant(text("API Error"), usage={}, inner={"model": "<synthetic>"})

    assert fed(notice) == []


def test_a_message_that_only_calls_a_tool_is_a_message_too() -> None:
    assert fed(assistant(tool_use("t1"))) == [MessageWritten(""), ToolStarted("Bash", "t1")]


def test_a_session_is_told_once_and_again_when_it_is_another() -> None:
    told = fed(init("a"), init("a"), init("b"))

    assert [one for one in told if isinstance(one, SessionOpened)] == [
        SessionOpened("a"),
        SessionOpened("b"),
    ]
    assert [type(one) for one in fed(init(""))] == [RejectedLine, AgentReady]


@pytest.mark.parametrize(
    ("fields", "report"),
    [
        ({"result": "done"}, ResultReached("done")),
        ({"is_error": True, "result": "Prompt is too long"}, ContextExceeded("Prompt is too long")),
        (
            {"terminal_reason": "prompt_too_long", "result": "no room"},
            ContextExceeded("prompt_too_long: no room"),
        ),
        (
            {"subtype": "error_max_turns"},
            AgentFailed("error_max_turns", TransitionReason.MAX_TURNS),
        ),
    ],
)
def test_a_result_comes_after_its_final_costs(
    fields: dict[str, Any], report: SessionReport
) -> None:
    told = fed(result(total_cost_usd=0.0123456, usage=OF_REQUEST, **fields))

    assert told == [CostsFinal(12_346, TokenCounts(5, 2, 30, 400)), report]


@pytest.mark.parametrize("cost", [None, "1", True, -0.01, 10**10, [1], {}])
def test_a_cost_that_cannot_be_is_told_once_and_the_result_still_counts(cost: object) -> None:
    told = fed(result(total_cost_usd=cost, result="done"))

    assert [type(one) for one in told] == [RejectedLine, ResultReached]


@pytest.mark.parametrize("number", [-1, 1.5, "7", 2**53])
@pytest.mark.parametrize("kind", sorted(OF_REQUEST))
def test_tokens_that_cannot_be_are_told_once_and_not_counted(kind: str, number: object) -> None:
    told = fed(assistant(text("a"), usage={**OF_REQUEST, kind: number}))

    assert [type(one) for one in told] == [MessageWritten, RejectedLine]


@pytest.mark.parametrize(
    "broken",
    [
        line("assistant"),
        line("assistant", message={"content": 5, "usage": 5}),
        line("assistant", message={"content": [5, {"type": "text", "text": {}}]}),
        line("system", subtype="init"),
        line("result", subtype=None, modelUsage={"m": 5}, usage=[]),
        line("result", modelUsage=[], usage={"output_tokens": {}}),
    ],
)
def test_a_line_of_another_shape_is_told_and_the_next_is_read(broken: bytes) -> None:
    told = fed(broken, init("a"))

    assert RejectedLine in [type(one) for one in told]
    assert told[-2:] == [SessionOpened("a"), AgentReady()]


@pytest.mark.parametrize(
    ("before", "after"),
    [("a\0b", "a\ufffdb"), ("a\ud800", "a?"), ("x" * 16_001, "x" * 15_997 + "..."), ("ok", "ok")],
)
def test_a_text_is_told_as_records_take_it(before: str, after: str) -> None:
    assert plain_text(before) == after
