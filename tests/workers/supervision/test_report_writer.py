"""The reports of an agent that is written in Python, as its supervisor reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interlock.workers.supervision.report_writer import ReportWriter


@pytest.mark.parametrize(
    ("delay_s", "reported"),
    [(None, None), (0.2, 1), (7.0, 7), (86_400.0, 86_400), (1e9, None), (-1, None)],
)
def test_a_delay_is_reported_in_whole_seconds_and_never_shorter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delay_s: float | None, reported: int | None
) -> None:
    file = tmp_path / "reports"
    with file.open("wb") as reports:
        monkeypatch.setenv("INTERLOCK_REPORT_FD", str(reports.fileno()))
        ReportWriter().failed("busy", retry_after_s=delay_s)

    said = {} if reported is None else {"retry_after_s": reported}
    assert json.loads(file.read_bytes()) == {"type": "failed", "error": "busy", **said}
