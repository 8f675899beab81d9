"""Runs the four agents and says what became of each: `python -m examples.fix_the_tests`.

It makes a real git repository below .interlock/fix_the_tests, starts a store, workers and beat of
its own, and ends them again. The repository stays, for you to look at.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from interlock.kernel.record import Record
from interlock.workers.client import Client
from interlock.workers.config import read_settings
from interlock.workers.ops.deployment import Deployment
from interlock.workers.tasks.client import Tasks
from interlock.workers.terminal import screen

HERE = Path(__file__).resolve().parent
ENDS = ("closed", "failed", "cancelled")
PATIENCE_S = 90.0
POLL_S = 0.2
CALCULATOR = "def add(a, b):\n    return a - b\n"
TEST = """import unittest

from calculator import add


class Adding(unittest.TestCase):
    def test_two_and_two(self):
        self.assertEqual(add(2, 2), 4)
"""
AGENTS = ("repairs", "gives_up", "hangs", "is_killed")


def git(folder: Path, *words: str) -> str:
    """Run git and return what it says."""
    own = ("-c", "user.name=Example", "-c", "user.email=example@localhost")
    command = ["/usr/bin/env", "git", *own, *words]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def make_repository(folder: Path) -> None:
    """Make a repository whose only test fails."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    (folder / "calculator.py").write_text(CALCULATOR, "utf-8")
    (folder / "test_calculator.py").write_text(TEST, "utf-8")
    (folder / ".gitignore").write_text("__pycache__/\n", "utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Begin a calculator")


def submit(tasks: Tasks, repo: Path) -> list[str]:
    """Hand in the same task four times, each for another agent."""
    ids = []
    for agent in AGENTS:
        payload = {
            "title": "Make the tests pass",
            "text": "python -m unittest fails; find out why, and mend it.",
            "repo": str(repo),
            "agent": str(HERE / "agents" / f"{agent}.sh"),
            "signals": [{"type": "test_passes", "value": f"{sys.executable} -m unittest -q"}],
            "max_retries": 0,
            "deadline_s": 6,
        }
        ids.append(tasks.submit(payload, backlog="calculator", name=agent).id)
    return ids


def watch(client: Client, ids: list[str]) -> list[Record]:
    """Wait until each has come to an end, and say so as it happens."""
    seen: dict[str, str] = {}
    until = time.monotonic() + PATIENCE_S
    while any(seen.get(one) not in ENDS for one in ids):
        if time.monotonic() > until:
            raise SystemExit(f"not all came to an end in {PATIENCE_S:g} s: {seen}")
        for one in ids:
            state = client.show(one).state
            if seen.get(one) != state:
                seen[one] = state
                screen.out.print(f"  {one:24} {state}", highlight=False)
        time.sleep(POLL_S)
    return [client.show(one) for one in ids]


def cleared(client: Client, ids: list[str]) -> None:
    """Wait until every agent is dead and its worktree is gone."""
    until = time.monotonic() + PATIENCE_S
    turns = [f"calculator/turn~{one.partition('/')[2]}~1" for one in ids]
    while any(client.show(turn).state != "reaped" for turn in turns):
        if time.monotonic() > until:
            raise SystemExit("not every worktree was cleared away")
        time.sleep(POLL_S)


def tell(records: list[Record], repo: Path) -> None:
    """Print what became of each task, and what the repository has now."""
    screen.out.rule("what became of each")
    for record in records:
        why = (record.data.get("failure") or {}).get("reason") or record.data.get("summary", "")
        screen.out.print(f"{record.id:24} {record.state:8} {why}", highlight=False, soft_wrap=True)
    screen.out.rule("the repository")
    screen.out.print(git(repo, "log", "--graph", "--oneline", "main"), highlight=False)
    passed = subprocess.run(
        [sys.executable, "-m", "unittest", "-q"], cwd=repo, capture_output=True, check=False
    )
    green = "pass" if passed.returncode == 0 else "fail"
    screen.out.print(f"its tests {green}; worktrees: {git(repo, 'worktree', 'list').count('[')}")
    kept = git(repo, "branch", "--list", "interlock/*") or "none"
    screen.out.print(f"branches kept for you to look at:\n{kept}", highlight=False)


def main() -> None:
    """Run the example."""
    home = Path(os.environ.get("INTERLOCK_HOME", ".interlock")).absolute() / "fix_the_tests"
    shutil.rmtree(home, ignore_errors=True)
    repo = home / "calculator"
    make_repository(repo)
    settings = read_settings({"INTERLOCK_HOME": str(home), "INTERLOCK_AGENTS_MAX": "4"})
    with Deployment(settings, flower=False) as deployment:
        client = Client(deployment.settings, actor="example")
        ids = submit(Tasks(client), repo)
        records = watch(client, ids)
        cleared(client, ids)
    tell(records, repo)


if __name__ == "__main__":
    main()
