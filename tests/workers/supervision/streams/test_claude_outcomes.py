"""How a coding agent's run ended, and why, in the words of its result."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.reason import TransitionReason
from interlock.workers.supervision.reports import (
    AgentFailed,
)
from tests.workers.supervision.streams.sample import (
    assistant,
    fed,
    result,
)


def failed(**fields: Any) -> AgentFailed:
    last = fed([result(**fields)])[-1]
    assert isinstance(last, AgentFailed), last
    return last


@pytest.mark.parametrize(
    ("fields", "error", "reason"),
    [
        (
            {"subtype": "error_max_turns", "is_error": False, "errors": ["Reached 5 turns"]},
            "error_max_turns: Reached 5 turns",
            TransitionReason.MAX_TURNS,
        ),
        (
            {"subtype": "error_during_execution", "errors": ["a", "b"]},
            "error_during_execution: a: b",
            None,
        ),
        ({"subtype": "error_max_budget_usd", "errors": []}, "error_max_budget_usd", None),
        (
            {"is_error": True, "result": "Request too large", "api_error_status": 413},
            "Request too large",
            TransitionReason.PROVIDER_413,
        ),
        (
            {"is_error": True, "result": "Overloaded", "api_error_status": 529},
            "Overloaded",
            TransitionReason.PROVIDER_529,
        ),
        (
            {"is_error": True, "result": "Slow down", "api_error_status": 429},
            "Slow down",
            None,
        ),
        (
            {"is_error": True, "terminal_reason": "prompt_too_long", "result": "Too long"},
            "prompt_too_long: Too long",
            TransitionReason.PROMPT_TOO_LONG,
        ),
        (
            {"terminal_reason": "stop_hook_prevented", "result": "Not yet"},
            "stop_hook_prevented: Not yet",
            TransitionReason.STOP_HOOK_BLOCKED,
        ),
        (
            {"subtype": "error_during_execution", "terminal_reason": "aborted_tools"},
            "error_during_execution",
            TransitionReason.ABORTED,
        ),
        (
            {"is_error": True, "terminal_reason": "aborted_streaming"},
            "aborted_streaming",
            TransitionReason.ABORTED,
        ),
        (
            {"is_error": True, "stop_reason": "max_tokens", "result": "Cut"},
            "Cut",
            TransitionReason.MAX_OUTPUT_TOKENS,
        ),
        ({"terminal_reason": "a_reason_of_next_year"}, "a_reason_of_next_year", None),
        ({"is_error": True}, "no reason was given", None),
        ({"terminal_reason": "max_turns"}, "max_turns", TransitionReason.MAX_TURNS),
        ({"subtype": "error_new", "terminal_reason": [], "errors": [{}]}, "error_new", None),
        ({"terminal_reason": [1], "stop_reason": {}, "api_error_status": []}, "[1]", None),
    ],
)
def test_a_run_that_did_not_complete_failed_for_the_reason_it_names(
    fields: dict[str, Any], error: str, reason: TransitionReason | None
) -> None:
    assert failed(**fields) == AgentFailed(error, reason)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("overloaded", TransitionReason.PROVIDER_529),
        ("max_output_tokens", TransitionReason.MAX_OUTPUT_TOKENS),
        ("rate_limit", None),
    ],
)
def test_an_error_of_the_last_answer_explains_a_failure(
    error: str, reason: TransitionReason | None
) -> None:
    assert fed([assistant(error=error), result(is_error=True, result="e")])[-1] == AgentFailed(
        "e", reason
    )


def test_an_error_that_was_got_over_explains_no_later_failure() -> None:
    lines = [assistant(error="overloaded"), assistant(), result(is_error=True, result="e")]

    assert fed(lines)[-1] == AgentFailed("e", None)


def test_an_error_of_one_run_explains_no_failure_of_the_next() -> None:
    lines = [assistant(error="overloaded"), result(is_error=True), result(is_error=True)]

    assert fed(lines)[-1] == AgentFailed("no reason was given", None)
