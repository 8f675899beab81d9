"""A shell that checks a command has as much time as a slow computer needs."""

from __future__ import annotations

import pytest

from interlock.workers.supervision import command


@pytest.fixture(autouse=True)
def slow_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "LIMIT_S", 60)
