"""The example of ten jobs runs as its page says: two rejections, one document, nothing at work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.proof
@pytest.mark.timeout(240)
def test_ten_jobs_are_rejected_once_by_each_and_leave_a_document(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if "INTERLOCK" not in name}
    done = subprocess.run(
        [sys.executable, "-m", "examples.release_notes"],
        cwd=ROOT,
        env={**kept, "INTERLOCK_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("the reviewer: ") == 1
    assert done.stdout.count("the steward rejects it") == 1
    assert "ENDED  10 of 10 succeeded" in done.stdout
    home = tmp_path / "release_notes"
    assert "## Summary" in (home / "RELEASE_NOTES.md").read_text("utf-8")
    assert "10 of 10 succeeded" in (home / "graph.svg").read_text("utf-8")
    manifest = home / "jobs" / "release-notes" / "publish" / "job_manifest.json"
    states = [entry["status"] for entry in json.loads(manifest.read_text("utf-8"))["history"]]
    assert states.count("PENDING") == 1, "the steward sent it back"
    assert states[-1] == "SUCCESS"
