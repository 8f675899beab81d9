"""Completion signals: which are valid, and how invalid ones are refused."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.errors import CallError, InvalidPayloadError
from interlock.systems.tasks.machines.task.changes import initial_data
from interlock.systems.tasks.machines.task.limits import SIGNAL_LENGTH_MAX, SIGNALS_MAX
from interlock.systems.tasks.verification.signals import (
    InvalidSignalError,
    ParsedSignal,
    SignalType,
    parse_signals,
)


def signals(*pairs: tuple[Any, Any]) -> list[dict[str, Any]]:
    return [{"type": signal_type, "value": value} for signal_type, value in pairs]


def test_signals_of_every_type_are_read_in_their_order() -> None:
    pairs = [
        ("path_exists", "src/total.py"),
        ("glob_exists", "**/test_*.py"),
        ("test_passes", "pytest -q ../tests"),
        ("file_contains", "README.md :: how to :: run"),
        ("llm_review", "Is it readable?"),
        ("llm_judge", "Is it done?"),
    ]

    assert parse_signals(signals(*pairs)) == tuple(ParsedSignal(*pair) for pair in pairs)
    assert sorted(signal_type for signal_type, _ in pairs) == sorted(SignalType)


def test_no_signals_are_fine() -> None:
    assert parse_signals([]) == ()


@pytest.mark.parametrize(
    ("signal", "problem"),
    [
        ({"type": "path_exists"}, "a signal has the two fields type and value"),
        ({"type": "path_exists", "value": "a", "x": 1}, "a signal has the two fields"),
        ("path_exists", "a signal has the two fields"),
        ({"type": "vibes", "value": "good"}, "'vibes' is not a type of signal; known: "),
        ({"type": ["path_exists"], "value": "a"}, "is not a type of signal"),
        ({"type": "llm_review", "value": 7}, "signal 1, 7: the value must be a text"),
        ({"type": "llm_review", "value": " "}, "the value must be a text"),
        ({"type": "llm_review", "value": "a" * (SIGNAL_LENGTH_MAX + 1)}, "at most 4000 are allow"),
        ({"type": "test_passes", "value": "a\0b"}, "a character that a command or a path"),
        ({"type": "test_passes", "value": "\udc80"}, "a character that a command or a path"),
        ({"type": "path_exists", "value": "../x"}, "signal 1, '../x': the path has '..'"),
        ({"type": "path_exists", "value": "/etc/passwd"}, "the path is absolute"),
        ({"type": "glob_exists", "value": "a/../../*"}, "the path has '..'"),
        ({"type": "glob_exists", "value": "/**"}, "the path is absolute"),
        ({"type": "file_contains", "value": "../x :: y"}, "the path has '..'"),
        ({"type": "file_contains", "value": " :: y"}, "the path is empty"),
        ({"type": "file_contains", "value": "README.md"}, "write it as 'path :: text'"),
        ({"type": "file_contains", "value": "README.md :: "}, "write it as 'path :: text'"),
    ],
)
def test_a_signal_that_cannot_be_judged_is_refused_with_its_index_and_value(
    signal: Any, problem: str
) -> None:
    with pytest.raises(InvalidSignalError) as raised:
        parse_signals([*signals(("llm_review", "fine")), signal])

    assert problem in str(raised.value)
    assert str(raised.value).startswith("signal 1, ")
    assert raised.value.index == 1
    assert isinstance(raised.value, CallError)


def test_a_task_has_a_bounded_number_of_signals() -> None:
    parse_signals(signals(*[("llm_review", "a")] * SIGNALS_MAX))

    with pytest.raises(InvalidSignalError, match="at most 50 signals, these are 51"):
        parse_signals(signals(*[("llm_review", "a")] * (SIGNALS_MAX + 1)))


def test_a_task_may_have_all_signals_that_are_valid_and_no_more() -> None:
    work = {"title": "x", "repo": "/r", "agent": "make"}
    longest = signals(*[("llm_review", "a" * SIGNAL_LENGTH_MAX)] * SIGNALS_MAX)

    parse_signals(longest)

    assert initial_data({**work, "signals": longest})["signals"] == longest
    for wrong in ([*longest, longest[0]], signals(("llm_review", "a" * (SIGNAL_LENGTH_MAX + 1)))):
        with pytest.raises(InvalidSignalError):
            parse_signals(wrong)
        with pytest.raises(InvalidPayloadError):
            initial_data({**work, "signals": wrong})
