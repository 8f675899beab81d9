"""The example of four agents runs as documented, and leaves no process behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.proof
def test_one_agent_repairs_the_tests_and_three_failures_are_explained(
    tmp_path: Path,
) -> None:
    environment = {name: value for name, value in os.environ.items() if "INTERLOCK" not in name}
    done = subprocess.run(
        [sys.executable, "-m", "examples.fix_the_tests"],
        cwd=ROOT,
        env={**environment, "INTERLOCK_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    results = done.stdout.partition("the tasks")[2]
    for line in (
        "calculator/repairs       closed   add() subtracted; now it adds",
        "calculator/gives_up      failed   I do not know this language",
        "calculator/hangs         failed   it took longer than its deadline",
        "calculator/is_killed     failed   its agent was lost, and no other may follow it: its",
        "its tests pass; worktrees: 1",
        "interlock/calculator/is_killed@1",
    ):
        assert line in results
