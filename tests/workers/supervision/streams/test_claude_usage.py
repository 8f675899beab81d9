"""What a coding agent has used: each token once, nothing that it did not say."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.workers.specs.json_line import COUNT_MAX
from interlock.workers.supervision.reports import (
    RejectedLine,
    TokensUsed,
    ToolStarted,
    VerifyRequested,
)
from interlock.workers.supervision.streams import claude_usage
from interlock.workers.supervision.streams.claude import ClaudeStream
from tests.workers.supervision.streams.sample import (
    SAMPLE,
    TOKENS_IN,
    TOKENS_OUT,
    assistant,
    fed,
    init,
    result,
    tool_use,
)


def test_what_was_used_adds_up_to_the_totals_of_the_result() -> None:
    used = [one for one in fed(SAMPLE) if isinstance(one, TokensUsed)]

    assert sum(one.tokens_in or 0 for one in used) == TOKENS_IN
    assert sum(one.tokens_out or 0 for one in used) == TOKENS_OUT


def test_the_lines_of_one_message_repeat_its_usage_and_count_once() -> None:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 3}

    assert fed([assistant(usage=usage), assistant(usage=usage)]) == [
        TokensUsed(tokens_in=15, tokens_out=3, context_used=15)
    ]


def test_of_one_message_the_largest_figures_count() -> None:
    def usage(tokens_out: int) -> bytes:
        return assistant(usage={"input_tokens": 9, "output_tokens": tokens_out})

    used = fed([usage(2), usage(7), usage(1), usage(8)])

    assert [one.tokens_out for one in used if isinstance(one, TokensUsed)] == [2, 5, 1]


def test_messages_to_remember_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claude_usage, "MESSAGES_MAX", 2)
    stream = ClaudeStream()
    for number in range(10):
        fed([assistant(usage={"input_tokens": 1}, inner={"id": f"m{number}"})], stream)

    assert list(stream._usage._counted) == ["m8", "m9"]


def test_a_subagent_says_nothing_of_the_main_conversations_window() -> None:
    (usage,) = fed([assistant(usage={"input_tokens": 9}, parent_tool_use_id="a")])

    assert usage == TokensUsed(tokens_in=9, tokens_out=0, context_used=None)


def test_the_programs_own_notices_have_no_usage() -> None:
    assert fed([assistant(usage={"input_tokens": 0, "output_tokens": 0})]) == []


def test_what_the_stream_does_not_say_is_absent() -> None:
    assert fed([assistant()]) == []
    assert fed([result()]) == [VerifyRequested("")]
    assert fed([result(total_cost_usd=0.5)])[0] == TokensUsed(cost_micro=500_000)
    assert fed([result(usage={"input_tokens": 2})])[0] == TokensUsed(tokens_in=2, tokens_out=0)


@pytest.mark.parametrize(
    "broken",
    [
        {"total_cost_usd": -1},
        {"total_cost_usd": "1"},
        {"total_cost_usd": True},
        {"total_cost_usd": 1e12},
        {"usage": {"input_tokens": -1}},
        {"usage": {"output_tokens": 1.5}},
        {"usage": {"input_tokens": COUNT_MAX, "cache_read_input_tokens": 1}},
        {"modelUsage": {"m": {"inputTokens": COUNT_MAX}, "n": {"inputTokens": 1}}},
        {"modelUsage": {"m": {"outputTokens": COUNT_MAX}, "n": {"outputTokens": 1}}},
        {"modelUsage": {"m": {"contextWindow": 0}}},
    ],
)
def test_an_absurd_figure_is_told_and_does_not_hide_the_outcome(broken: dict[str, Any]) -> None:
    rejected, outcome = fed([result(**broken)])

    assert isinstance(rejected, RejectedLine)
    assert outcome == VerifyRequested("")


def test_an_absurd_usage_does_not_hide_the_tools_of_its_message() -> None:
    rejected, started = fed([assistant(tool_use("a"), usage={"input_tokens": "many"})])

    assert isinstance(rejected, RejectedLine)
    assert started == ToolStarted("Bash", "a")


def model_usage(tokens_in: int, tokens_out: int, **fields: Any) -> dict[str, Any]:
    return {"big": {"inputTokens": tokens_in, "outputTokens": tokens_out, **fields}}


def test_a_session_restates_its_totals_and_only_what_is_new_is_reported() -> None:
    lines = [
        init(),
        result(total_cost_usd=0.1, modelUsage=model_usage(10, 1)),
        init(),
        result(total_cost_usd=0.25, modelUsage=model_usage(30, 4)),
    ]

    used = [one for one in fed(lines) if isinstance(one, TokensUsed)]

    assert used == [TokensUsed(10, 1, None, None, 100_000), TokensUsed(20, 3, None, None, 150_000)]


def test_another_session_starts_from_zero() -> None:
    lines = [
        init("s1"),
        assistant(usage={"input_tokens": 10}),
        result(total_cost_usd=0.1, modelUsage=model_usage(10, 1)),
        init("s2"),
        assistant(usage={"input_tokens": 11}),
        result(total_cost_usd=0.25, modelUsage=model_usage(30, 4)),
    ]

    used = [one for one in fed(lines) if isinstance(one, TokensUsed)]

    assert used[2:] == [
        TokensUsed(tokens_in=11, tokens_out=0, context_used=11),
        TokensUsed(19, 4, None, None, 250_000),
    ]


def test_a_total_cost_that_fell_is_that_of_another_process() -> None:
    used = fed([result(total_cost_usd=0.3), result(total_cost_usd=0.1)])

    assert [one.cost_micro for one in used if isinstance(one, TokensUsed)] == [300_000, 100_000]


def test_totals_below_what_was_counted_take_nothing_back() -> None:
    usage = {"input_tokens": 10, "output_tokens": 5}
    lines = [assistant(usage=usage), result(modelUsage=model_usage(4, 2))]

    assert fed(lines)[1] == TokensUsed(tokens_in=0, tokens_out=0)


def test_the_window_is_that_of_the_main_conversations_model() -> None:
    models = {
        "small": {"inputTokens": 1, "contextWindow": 100},
        "big": {"inputTokens": 1, "contextWindow": 900},
    }
    usage = {"input_tokens": 1}
    lines = [
        assistant(usage=usage, inner={"model": "big"}),
        assistant(usage=usage, inner={"id": "n", "model": "small"}, parent_tool_use_id="a"),
        assistant(usage={"input_tokens": 0}, inner={"id": "x", "model": "<synthetic>"}),
        result(modelUsage=models),
        result(total_cost_usd=1),
        assistant(usage=usage, inner={"id": "o", "model": "big"}),
        assistant(usage=usage, inner={"id": "p", "model": "small"}, parent_tool_use_id="a"),
    ]

    used = [one for one in fed(lines) if isinstance(one, TokensUsed)]

    assert [one.context_size for one in used] == [None, None, 900, 900, 900, None]


def test_a_window_that_could_be_any_models_is_absent() -> None:
    models = {"small": {"contextWindow": 100}, "big": {"contextWindow": 900}}

    assert fed([result(modelUsage=models)])[0] == TokensUsed(tokens_in=0, tokens_out=0)
