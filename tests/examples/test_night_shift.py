"""The night shift runs as docs say: a crash, an interrupt, three repairs, and nothing is left."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from tests.processes import marked

ROOT = Path(__file__).parents[2]
MARK = "NIGHT_SHIFT_OF_THIS_TEST"
# The sentences about each agent, in order. Those of the two may be interleaved in any way.
STORY = {
    "scout": (
        "scout is in session 1",
        "scout writes to smith",
        "scout has ended its session successfully",
        "scout is in session 2",
        "scout says: every test passes",
        "scout is stopped",
    ),
    "smith": (
        "smith is in session 1",
        "smith failed in its session: it crashed in the middle of a repair",
        "smith has waited, and may start again",
        "smith writes to scout",
        "you ask the smith for a manual, which takes all night",
        "smith is interrupted: urgent mail has come",
        "smith has stopped its work, and gets ready to read its mail",
        "smith writes to scout",
        "smith is stopped",
    ),
}


def git(folder: Path, *arguments: str) -> str:
    command = ["/usr/bin/env", "git", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.proof
@pytest.mark.timeout(240)
def test_two_agents_repair_three_functions_by_mail_and_leave_nothing(tmp_path: Path) -> None:
    owner = uuid4().hex
    variables = {name: value for name, value in os.environ.items() if "INTERLOCK" not in name}
    done = subprocess.run(
        [sys.executable, "-m", "examples.night_shift"],
        cwd=ROOT,
        env={**variables, "INTERLOCK_HOME": str(tmp_path), MARK: owner},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert marked(MARK, owner) == {}, "no process is left after the example"

    assert done.returncode == 0, done.stdout + done.stderr
    output = " ".join(done.stdout.split())
    for story in STORY.values():
        index = 0
        for sentence in story:
            index = output.find(sentence, index) + 1
            assert index > 0, f"{sentence!r} is missing or out of order:\n{done.stdout}"
    assert output.count("failed in its session") == 1, "the smith crashes on purpose, once"
    assert "did not end in time" not in output
    mail = output.partition("mail of the smith")[2]
    assert " waits " not in mail, "all mail was delivered"
    for name in ("add", "subtract", "multiply"):
        assert len(re.findall(rf"scout urgent task \S+ {name} ", mail)) == 1
        assert mail.count(f"{name} is repaired") == 1, "also if its session was interrupted"
    check_repository(tmp_path / "night_shift" / "calculator", output)


def check_repository(repo: Path, output: str) -> None:
    """Check the repository, and that the example's output describes it."""
    subjects = git(repo, "log", "--format=%s", "interlock/agents/scout").splitlines()
    repairs = [subject for subject in subjects if subject.startswith("Repair ")]
    assert sorted(repairs) == ["Repair add", "Repair multiply", "Repair subtract"]
    assert output.endswith("worktrees: 1")
    assert git(repo, "worktree", "list", "--porcelain").count("worktree ") == 1
    assert git(repo, "status", "--porcelain") == ""
    git(repo, "checkout", "-q", "interlock/agents/scout")
    tests = [sys.executable, "-m", "unittest", "-q"]
    done = subprocess.run(tests, cwd=repo, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Ran 3 tests" in done.stderr
