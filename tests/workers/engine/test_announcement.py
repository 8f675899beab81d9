"""A computer or a process announces itself as long as it runs."""

from __future__ import annotations

import pytest

from interlock.kernel.errors import StoreDownError
from interlock.workers.engine.announcement import Announcer
from tests.waiting import until


def test_facts_are_repeated_until_the_process_ends_whether_or_not_the_store_is_there(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("interlock.workers.engine.announcement.PERIOD_S", 0.001)
    calls: list[int] = []
    announcer = Announcer("north")

    def announce() -> None:
        calls.append(len(calls))
        if len(calls) == 1:
            raise StoreDownError("away")

    announcer.start(announce)

    until(lambda: len(calls) > 2, what="it has announced them again")
    announcer.stop()
    assert "north has not announced itself: away" in caplog.text
