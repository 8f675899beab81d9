"""The usage of a coding agent: each token counts once, and missing figures stay missing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple
from functools import reduce
from typing import Any

import pytest

from interlock.workers.specs.json_line import COUNT_MAX
from interlock.workers.supervision.reports import (
    MessageWritten,
    RejectedLine,
    Report,
    ToolStarted,
    UsageAdded,
    UsageTotal,
    UsedTokens,
    WorkFinished,
)
from interlock.workers.supervision.streams import claude_usage
from interlock.workers.supervision.streams.claude import ClaudeStream
from tests.workers.supervision.streams.sample import (
    SAMPLE,
    TOTAL,
    assistant,
    fed,
    init,
    result,
    tool_use,
)

OF_REQUEST = {
    "input_tokens": 5,
    "output_tokens": 2,
    "cache_creation_input_tokens": 30,
    "cache_read_input_tokens": 400,
}


def used(lines: Iterable[bytes], stream: ClaudeStream | None = None) -> list[UsageAdded]:
    """Return all additions to the usage, also those of totals."""
    added = [_added(report) for report in fed(lines, stream)]
    return [usage for usage in added if usage is not None]


def _added(report: Report | RejectedLine) -> UsageAdded | None:
    match report:
        case (UsageAdded() as usage) | UsageTotal(added=usage):
            return usage
        case _:
            return None


def test_reported_usage_adds_up_to_the_totals_of_the_result() -> None:
    usages = used(SAMPLE)

    assert sum(usage.tokens.all_input for usage in usages) == TOTAL.all_input
    assert sum(usage.tokens.output_tokens for usage in usages) == TOTAL.output_tokens
    assert sum(usage.cost_micro for usage in usages) == 87_654


def test_usage_before_the_result_exceeds_its_totals_in_no_kind() -> None:
    added = [report.tokens for report in fed(SAMPLE) if isinstance(report, UsageAdded)]

    total = reduce(UsedTokens.plus, added)

    assert all(one <= final for one, final in zip(astuple(total), astuple(TOTAL), strict=True))


def test_the_lines_of_one_message_repeat_its_usage_and_count_once_with_the_highest_figures() -> (
    None
):
    def usage(tokens_out: int) -> bytes:
        return assistant(usage={**OF_REQUEST, "output_tokens": tokens_out})

    assert used([usage(2), usage(2), usage(7), usage(1), usage(8)]) == [
        UsageAdded(0, UsedTokens(5, 2, 30, 400), 435),
        UsageAdded(0, UsedTokens(0, 5), 435),
        UsageAdded(0, UsedTokens(0, 1), 435),
    ]


def test_remembered_messages_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claude_usage, "MESSAGES_MAX", 2)
    stream = ClaudeStream()
    for number in range(10):
        fed([assistant(usage={"input_tokens": 1}, inner={"id": f"m{number}"})], stream)

    assert list(stream._usage._counted) == ["m8", "m9"]


def test_a_subagent_does_not_change_the_main_conversations_window() -> None:
    assert fed([assistant(usage=OF_REQUEST, parent_tool_use_id="a")]) == [
        UsageAdded(0, UsedTokens(5, 2, 30, 400), context_used=None)
    ]


def test_the_programs_own_notices_have_no_usage() -> None:
    assert used([assistant(usage={"input_tokens": 0, "output_tokens": 0})]) == []
    assert used([assistant(usage=OF_REQUEST, inner={"model": "<synthetic>"})]) == []


def test_missing_figures_are_absent() -> None:
    assert fed([assistant()]) == [MessageWritten("")]
    assert fed([result()]) == [WorkFinished("")]
    assert fed([result(total_cost_usd=0.5)])[0] == UsageTotal(
        500_000, final=True, added=UsageAdded(500_000)
    )
    assert fed([result(usage={"input_tokens": 2})])[0] == UsageTotal(
        None, UsedTokens(2), final=True, added=UsageAdded(0, UsedTokens(2))
    )


def test_a_total_has_its_cost_in_micro_dollars_and_its_tokens_by_kind() -> None:
    total, outcome = fed([result(total_cost_usd=0.0123456, usage=OF_REQUEST)])

    tokens = UsedTokens(5, 2, 30, 400)
    added = UsageAdded(12_346, UsedTokens(435, 2))
    assert total == UsageTotal(12_346, tokens, final=True, added=added)
    assert outcome == WorkFinished("")


@pytest.mark.parametrize(
    "broken",
    [
        {"total_cost_usd": "1"},
        {"total_cost_usd": True},
        {"total_cost_usd": -0.01},
        {"total_cost_usd": 10**10},
        {"total_cost_usd": [1]},
        {"total_cost_usd": {}},
        {"usage": {"input_tokens": -1}},
        {"usage": {"output_tokens": 1.5}},
        {"usage": {"input_tokens": COUNT_MAX, "cache_read_input_tokens": 1}},
        {"modelUsage": {"m": {"inputTokens": COUNT_MAX}, "n": {"inputTokens": 1}}},
        {"modelUsage": {"m": {"outputTokens": COUNT_MAX}, "n": {"outputTokens": 1}}},
    ],
)
def test_an_impossible_figure_is_rejected_and_does_not_hide_the_outcome(
    broken: dict[str, Any],
) -> None:
    rejected, outcome = fed([result(**broken)])

    assert isinstance(rejected, RejectedLine)
    assert outcome == WorkFinished("")


def test_an_impossible_window_is_rejected_and_does_not_hide_the_costs() -> None:
    models = {"m": {"inputTokens": 3, "contextWindow": 0}}

    total, rejected, outcome = fed([result(total_cost_usd=0.5, modelUsage=models)])

    added = UsageAdded(500_000, UsedTokens(3))
    assert total == UsageTotal(500_000, UsedTokens(3), final=True, added=added)
    assert isinstance(rejected, RejectedLine)
    assert outcome == WorkFinished("")


@pytest.mark.parametrize("number", [-1, 1.5, "7", 2**53])
@pytest.mark.parametrize("kind", sorted(OF_REQUEST))
def test_an_impossible_usage_is_rejected_once_and_does_not_hide_its_message(
    kind: str, number: object
) -> None:
    reports = fed([assistant(tool_use("a"), usage={**OF_REQUEST, kind: number})])

    assert isinstance(reports[0], RejectedLine)
    assert reports[1:] == [MessageWritten(""), ToolStarted("Bash", "a")]


def model_usage(tokens_in: int, tokens_out: int, **fields: Any) -> dict[str, Any]:
    return {"big": {"inputTokens": tokens_in, "outputTokens": tokens_out, **fields}}


def test_a_session_repeats_its_totals_and_only_the_new_part_is_reported() -> None:
    lines = [
        init(),
        result(total_cost_usd=0.1, modelUsage=model_usage(10, 1)),
        init(),
        result(total_cost_usd=0.25, modelUsage=model_usage(30, 4)),
    ]

    assert used(lines) == [
        UsageAdded(100_000, UsedTokens(10, 1)),
        UsageAdded(150_000, UsedTokens(20, 3)),
    ]


def test_usage_before_the_first_session_is_named_counts_once() -> None:
    usage = assistant(usage={"input_tokens": 10})

    assert used([usage, init(), usage, result(modelUsage=model_usage(10, 1))]) == [
        UsageAdded(0, UsedTokens(10), context_used=10),
        UsageAdded(0, UsedTokens(0, 1)),
    ]


def test_another_session_starts_from_zero() -> None:
    lines = [
        init("s1"),
        assistant(usage={"input_tokens": 10}),
        result(total_cost_usd=0.1, modelUsage=model_usage(10, 1)),
        init("s2"),
        assistant(usage={"input_tokens": 11}),
        result(total_cost_usd=0.25, modelUsage=model_usage(30, 4)),
    ]

    assert used(lines)[2:] == [
        UsageAdded(0, UsedTokens(11), context_used=11),
        UsageAdded(250_000, UsedTokens(19, 4)),
    ]


def test_a_total_cost_that_fell_is_that_of_another_process() -> None:
    usages = used([result(total_cost_usd=0.3), result(total_cost_usd=0.1)])

    assert [usage.cost_micro for usage in usages] == [300_000, 100_000]


def test_totals_below_the_counted_sum_take_nothing_back() -> None:
    usage = {"input_tokens": 10, "output_tokens": 5}
    lines = [assistant(usage=usage), result(modelUsage=model_usage(4, 2))]

    assert used(lines)[1] == UsageAdded()


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

    usages = [report for report in fed(lines) if isinstance(report, UsageAdded)]

    assert [usage.context_size for usage in usages] == [None, None, 900, None]


def test_a_window_of_an_unknown_model_is_absent() -> None:
    models = {"small": {"contextWindow": 100}, "big": {"contextWindow": 900}}
    lines = [result(modelUsage=models), assistant(usage=OF_REQUEST)]

    assert used(lines)[1].context_size is None
