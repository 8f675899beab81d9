"""Fixtures: workers answer questions for publications in time, however slow this machine is."""

from __future__ import annotations

import pytest

from interlock.kernel.store import publications
from interlock.workers.supervision import agent_output, publishing, record_diffs

AN_HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def publications_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a question and an answer count for long: a slow machine takes seconds between the two."""
    monkeypatch.setattr(publications, "ASKED_MS", AN_HOUR_MS)
    for module in (agent_output, record_diffs):
        monkeypatch.setattr(module, "ANSWER_MS", AN_HOUR_MS)
    monkeypatch.setattr(record_diffs, "FRESH_MS", AN_HOUR_MS)
    monkeypatch.setattr(publishing, "PERIOD_MS", AN_HOUR_MS)
