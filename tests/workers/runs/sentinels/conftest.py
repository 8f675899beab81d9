"""A shell and the last output of a command have as much time as a slow computer needs."""

from __future__ import annotations

import pytest

from interlock.workers.runs.sentinels import call
from interlock.workers.supervision import command


@pytest.fixture(autouse=True)
def slow_computer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "LIMIT_S", 60)
    monkeypatch.setattr(call, "_READ_S", 60)
