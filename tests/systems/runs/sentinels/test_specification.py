"""The specification of a sentinel has everything that a plan says about it."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.systems.runs.plan.model import PlannedSentinel
from interlock.systems.runs.sentinels.call_timing import BatchingKind, BatchingStrategy
from interlock.systems.runs.sentinels.specification import SentinelSpecification
from interlock.systems.runs.sentinels.trigger import SentinelTrigger

PLANNED: dict[str, Any] = {"id": "eye", "on": ["tool_started"], "command": "./look.sh --all"}


def read(**more: Any) -> SentinelSpecification:
    return SentinelSpecification.of(PlannedSentinel.model_validate({**PLANNED, **more}))


def test_a_command_is_read_with_all_that_a_plan_says() -> None:
    assert read(strategy={"count": 5}, required=True, timeout_s=3) == SentinelSpecification(
        id="eye",
        trigger=SentinelTrigger(("tool_started",), ordered=False),
        strategy=BatchingStrategy(BatchingKind.COUNT, 5),
        command="./look.sh --all",
        model=None,
        prompt=None,
        required=True,
        timeout_s=3,
    )


def test_a_sequence_is_kept_in_its_order() -> None:
    found = read(on=[], sequence=["tool_started", "progress"])

    assert found.trigger == SentinelTrigger(("tool_started", "progress"), ordered=True)


def test_a_sentinel_is_called_by_its_model_or_its_commands_first_word() -> None:
    assert read().display_name == "./look.sh"
    asked = read(command=None, model="openai:gpt-4o-mini", prompt="Look.")
    assert asked.display_name == "openai:gpt-4o-mini"


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ({}, BatchingStrategy(BatchingKind.IMMEDIATE)),
        ({"debounce_ms": 1_500}, BatchingStrategy(BatchingKind.DEBOUNCE_S, 1.5)),
        ({"count": 7}, BatchingStrategy(BatchingKind.COUNT, 7)),
        ({"window_ms": 60_000}, BatchingStrategy(BatchingKind.WINDOW_S, 60)),
    ],
)
def test_strategies_keep_their_limits(strategy: dict[str, int], expected: BatchingStrategy) -> None:
    assert read(strategy=strategy).strategy == expected
