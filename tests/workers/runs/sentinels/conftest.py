"""The last output of a command has as much time as a slow computer needs."""

from __future__ import annotations

import pytest

from interlock.workers.runs.sentinels import call


@pytest.fixture(autouse=True)
def slow_computer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "_READ_S", 60)
