"""What a plan says of a sentinel is what its host is told."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.workers.runs.plan.model import PlannedSentinel
from interlock.workers.runs.sentinels.specification import SentinelSpecification
from interlock.workers.runs.sentinels.strategy import Kind, Strategy
from interlock.workers.runs.sentinels.trigger import Trigger

SAID: dict[str, Any] = {"id": "eye", "on": ["tool_started"], "command": "./look.sh --all"}


def read(**more: Any) -> SentinelSpecification:
    return SentinelSpecification.of(PlannedSentinel.model_validate({**SAID, **more}))


def test_a_command_is_read_with_all_that_a_plan_says() -> None:
    assert read(strategy={"count": 5}, required=True, timeout_s=3) == SentinelSpecification(
        id="eye",
        trigger=Trigger(("tool_started",), ordered=False),
        strategy=Strategy(Kind.COUNT, 5),
        command="./look.sh --all",
        model=None,
        prompt=None,
        required=True,
        timeout_s=3,
    )


def test_a_sequence_is_kept_in_its_order() -> None:
    found = read(on=[], sequence=["tool_started", "progress"])

    assert found.trigger == Trigger(("tool_started", "progress"), ordered=True)


def test_a_sentinel_is_called_by_its_model_or_its_commands_first_word() -> None:
    assert read().doer == "./look.sh"
    asked = read(command=None, model="openai:gpt-4o-mini", prompt="Look.")
    assert asked.doer == "openai:gpt-4o-mini"


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ({}, Strategy(Kind.IMMEDIATE)),
        ({"debounce_ms": 1_500}, Strategy(Kind.DEBOUNCE_S, 1.5)),
        ({"count": 7}, Strategy(Kind.COUNT, 7)),
        ({"window_ms": 60_000}, Strategy(Kind.WINDOW_S, 60)),
    ],
)
def test_strategies_keep_their_limits(strategy: dict[str, int], expected: Strategy) -> None:
    assert read(strategy=strategy).strategy == expected
