"""The consumer keeps what it rejects, and logs it whole where the store does not take it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from interlock.kernel.errors import StoreDownError
from interlock.workers.engine.consumer import Consumer


def test_a_rejected_message_that_cannot_be_kept_is_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(*_: Any) -> None:
        raise StoreDownError("the store does not answer")

    consumer = Consumer.__new__(Consumer)  # without a connection, which is not used here
    consumer.app = SimpleNamespace(reject_message=refuse)
    body = '[[], {"title": "Pay the rent"}, {}]'
    message = SimpleNamespace(body=body)

    consumer._reject("refused options", "send the message without expires", message)

    assert "the store does not answer" in caplog.text
    assert "refused options, because send the message without expires" in caplog.text
    assert body in caplog.text
