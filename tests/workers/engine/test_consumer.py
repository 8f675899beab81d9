"""The consumer keeps what it rejects, and gives it back where the store does not take it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from kombu.common import QoS

from interlock.kernel.errors import StoreDownError
from interlock.workers.engine.consumer import GIVE_BACK_S, LEFT_S, PREFETCH_MAX, Consumer


def keeping(put: Callable[..., None]) -> SimpleNamespace:
    """Return a connection whose rejected messages are put there."""
    return SimpleNamespace(rejected=SimpleNamespace(put=put))


def test_a_rejected_message_that_cannot_be_kept_is_given_back_to_the_broker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(*_: Any) -> None:
        raise StoreDownError("the store does not answer")

    consumer = Consumer.__new__(Consumer)  # without a connection, which is not used here
    consumer.app = SimpleNamespace(dispatch=keeping(refuse))
    consumer.connection_errors = (OSError,)
    later: list[tuple[Any, ...]] = []
    consumer.timer = SimpleNamespace(call_after=lambda *call: later.append(call))
    given_back: list[tuple[Any, ...]] = []
    message = SimpleNamespace(
        body="[[], {}, {}]",
        headers={},
        acknowledged=False,
        reject_log_error=lambda *options: given_back.append(options),
    )

    # Each of Celery's own handlers would acknowledge or reject the message, and fail on this one.
    consumer.on_decode_error(message, "x")
    consumer.on_unknown_message(None, message)
    consumer.on_unknown_task(None, message, "x")
    consumer.on_invalid_task(None, message, "x")

    assert given_back == []
    assert [delay_s for delay_s, *_ in later] == [GIVE_BACK_S] * 4
    for _, call, arguments in later:
        call(*arguments)
    assert [requeue for *_, requeue in given_back] == [True] * 4
    assert all(isinstance(logger, logging.Logger) for logger, *_ in given_back)
    assert caplog.text.count("the store does not answer") == 1


def test_a_rejected_message_is_answered_before_it_is_kept() -> None:
    kept: list[tuple[str, ...]] = []
    answers = iter([False, True])
    consumer = Consumer.__new__(Consumer)
    consumer.app = SimpleNamespace(
        dispatch=keeping(lambda *message: kept.append(message)),
        answer_rejected=lambda *_: next(answers),
    )
    consumer.connection_errors = (OSError,)
    later: list[float] = []
    consumer.timer = SimpleNamespace(call_after=lambda after_s, *_: later.append(after_s))
    message = SimpleNamespace(
        body="[[], {}, {}]",
        acknowledged=False,
        reject_log_error=lambda *_: None,
        content_type="application/json",
        content_encoding="utf-8",
        delivery_info={},
        headers={},
    )

    # The broker takes no answer now: the message is read again, and kept only then.
    consumer.on_unknown_message(None, message)
    assert (kept, later) == ([], [GIVE_BACK_S])
    consumer.on_unknown_message(None, message)
    assert [kind for kind, *_ in kept] == ["no task message"]


ANSWERS: list[tuple[str | None, Any]] = [
    ("past", (["dropped"], 0, [])),
    ("nobody", ([], 1, [])),
    ("others", ([], 0, [LEFT_S])),
    (None, ([], 0, [GIVE_BACK_S])),
]


@pytest.mark.parametrize(("answer", "expected"), ANSWERS)
def test_a_message_that_only_another_version_knows_is_not_kept(
    answer: str | None, expected: Any
) -> None:
    def meant(*_message: Any) -> str:
        if answer is None:
            raise StoreDownError("the store does not answer")
        return answer

    kept: list[tuple[str, ...]] = []
    consumer = Consumer.__new__(Consumer)
    consumer.app = SimpleNamespace(
        dispatch=keeping(lambda *message: kept.append(message)), meant=meant
    )
    consumer.connection_errors = (OSError,)
    consumer.qos = QoS(lambda **_: None, 2)
    later: list[float] = []
    consumer.timer = SimpleNamespace(call_after=lambda after_s, *_: later.append(after_s))
    ended: list[str] = []
    message = SimpleNamespace(
        body="[[], {}, {}]",
        headers={"task": "refund.pay", "id": "r-1:2.0:x"},
        acknowledged=False,
        ack_log_error=lambda *_: ended.append("dropped"),
        reject_log_error=lambda *_: ended.append("rejected"),
    )

    with suppress(AttributeError):  # Celery's own handler needs a connection
        consumer.on_unknown_task(None, message, "x")

    assert (ended, len(kept), later) == expected


def test_what_is_left_to_others_takes_the_place_of_no_message_until_it_is_very_much() -> None:
    consumer = Consumer.__new__(Consumer)
    consumer.app = SimpleNamespace(meant=lambda *_: "others")
    consumer.connection_errors = (OSError,)
    consumer.qos = QoS(lambda **_: None, 2)
    later: list[Callable[[], None]] = []
    consumer.timer = SimpleNamespace(call_after=lambda _after_s, call: later.append(call))
    given_back: list[bool] = []
    message = SimpleNamespace(
        headers={"task": "refund.pay"},
        reject_log_error=lambda _log, _errors, requeue: given_back.append(requeue),
    )

    for _ in range(PREFETCH_MAX + 50):
        consumer.on_unknown_task(None, message, "x")

    assert (consumer.qos.value, given_back) == (PREFETCH_MAX, [])
    for give_back in later:
        give_back()
    assert consumer.qos.value == 2
    assert given_back == [True] * (PREFETCH_MAX + 50)
