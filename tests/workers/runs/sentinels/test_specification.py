"""A plan's words on a sentinel become a value, or one sentence on what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from workers.runs.sentinels.specification import (
    TIMEOUT_S,
    SentinelSpecification,
    SentinelSpecificationError,
)
from workers.runs.sentinels.strategy import Kind, Strategy
from workers.runs.sentinels.trigger import Trigger

SAID: dict[str, Any] = {"id": "eye", "on": ["tool_started"], "command": "./look.sh --all"}


def test_a_command_is_read_with_all_that_a_plan_says() -> None:
    said = {**SAID, "strategy": {"count": 5}, "required": True, "timeout_s": 3}

    assert SentinelSpecification.of(said) == SentinelSpecification(
        id="eye",
        trigger=Trigger(("tool_started",), ordered=False),
        strategy=Strategy(Kind.COUNT, 5),
        command="./look.sh --all",
        model=None,
        prompt=None,
        required=True,
        timeout_s=3,
    )


def test_a_model_is_read_and_what_is_none_was_not_said() -> None:
    said = {
        "id": "eye",
        "on": None,
        "sequence": ["a", "b"],
        "model": "openai:gpt-4o-mini",
        "prompt": "Look.",
        "command": None,
        "strategy": None,
    }

    read = SentinelSpecification.of(said)

    assert (read.trigger, read.strategy) == (
        Trigger(("a", "b"), ordered=True),
        Strategy(Kind.IMMEDIATE),
    )
    assert (read.doer, read.required, read.timeout_s) == ("openai:gpt-4o-mini", False, TIMEOUT_S)


def test_a_command_is_called_by_its_first_word() -> None:
    assert SentinelSpecification.of(SAID).doer == "./look.sh"


@pytest.mark.parametrize(
    ("strategy", "read"),
    [
        ({"immediate": True}, Strategy(Kind.IMMEDIATE)),
        ({"debounce_s": 300}, Strategy(Kind.DEBOUNCE_S, 300)),
        ({"count": 1_000}, Strategy(Kind.COUNT, 1_000)),
        ({"window_s": 0.5}, Strategy(Kind.WINDOW_S, 0.5)),
    ],
)
def test_a_strategy_is_read_by_its_one_word(strategy: dict[str, Any], read: Strategy) -> None:
    assert SentinelSpecification.of({**SAID, "strategy": strategy}).strategy == read


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"id": ""}, "its id must be"),
        ({"command": None}, "either a command or a model"),
        ({"command": "  "}, "its command must be a text"),
        ({"command": "a\0b"}, "without NUL"),
        ({"model": "m", "prompt": "p"}, "either a command or a model"),
        ({"prompt": "p"}, "a command takes none"),
        ({"command": None, "model": "m"}, "a model needs a prompt"),
        ({"on": []}, "either the events it is on or a sequence"),
        ({"sequence": ["a"]}, "either the events it is on or a sequence"),
        ({"strategy": {"later": 1}}, "immediate, debounce_s, count, window_s"),
        ({"strategy": {"count": 1, "window_s": 1}}, "must be one of"),
        ({"strategy": {"debounce_s": 301}}, "at most 300"),
        ({"strategy": {"count": 1_001}}, "at most 1000"),
        ({"strategy": {"count": 1.5}}, "whole number"),
        ({"strategy": {"window_s": 3_601}}, "at most 3600"),
        ({"strategy": {"window_s": float("nan")}}, "above 0"),
        ({"strategy": {"count": True}}, "above 0"),
        ({"timeout_s": 0}, "its timeout_s must be"),
    ],
)
def test_what_no_sentinel_could_observe_by_is_refused(
    changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SentinelSpecificationError, match="sentinel ") as refused:
        SentinelSpecification.of({**SAID, **changes})

    assert problem in str(refused.value)
