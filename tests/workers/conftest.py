"""Fixtures: what workers wait for comes in time, however slow this computer is."""

from __future__ import annotations

import pytest

from interlock.kernel.store import publications
from interlock.workers.processes.agent import watchdog_client
from interlock.workers.supervision import agent_output, command, publishing, record_diffs

AN_HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def publications_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a question, an answer and a diff count for an hour: a slow computer takes seconds.

    A question has to count until it is answered, and an answer until it is read. A diff would be
    made anew meanwhile, and tests count how often one was made.
    """
    monkeypatch.setattr(publications, "ASKED_MS", AN_HOUR_MS)
    for module in (agent_output, record_diffs):
        monkeypatch.setattr(module, "ANSWER_MS", AN_HOUR_MS)
    monkeypatch.setattr(record_diffs, "FRESH_MS", AN_HOUR_MS)
    monkeypatch.setattr(publishing, "PERIOD_MS", AN_HOUR_MS)


@pytest.fixture(autouse=True)
def slow_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a shell that checks a command as much time as a slow computer needs."""
    monkeypatch.setattr(command, "LIMIT_S", 60)


@pytest.fixture(autouse=True)
def slow_watchdog(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow a watchdog as much silence as it needs on a slow computer."""
    for name in ("START_S_MAX", "SILENCE_S_MAX"):
        monkeypatch.setattr(watchdog_client, name, 180)
