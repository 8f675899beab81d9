"""Runs the four agents and prints how each of them ended: `python -m examples.fix_the_tests`.

The example makes a git repository below .interlock/fix_the_tests, starts a store, workers and beat
of its own, and stops them at the end. The repository is kept, so that you can look at it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from interlock.kernel.record import Record
from interlock.systems.tasks.client import Tasks
from interlock.workers.client import Client
from interlock.workers.config import read_settings
from interlock.workers.ops.deployment import Deployment
from interlock.workers.ops.home import new_home
from interlock.workers.terminal import screen

HERE = Path(__file__).resolve().parent
ENDS = ("closed", "failed", "cancelled")
PATIENCE_S = 120.0
POLL_S = 0.2
CALCULATOR = "def add(a, b):\n    return a - b\n"
TEST = """import unittest

from calculator import add


class Adding(unittest.TestCase):
    def test_two_and_two(self):
        self.assertEqual(add(2, 2), 4)
"""
AGENTS = ("repairs", "gives_up", "hangs", "is_killed")


def git(folder: Path, *arguments: str) -> str:
    """Run git and return its output."""
    author = ("-c", "user.name=Example", "-c", "user.email=example@localhost")
    command = ["/usr/bin/env", "git", *author, *arguments]
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
    """Submit the same task four times, each time for another agent."""
    ids = []
    for agent in AGENTS:
        payload = {
            "title": "Make the tests pass",
            "text": "python -m unittest fails; find out why, and fix it.",
            "repo": str(repo),
            "agent": str(HERE / "agents" / f"{agent}.sh"),
            "signals": [{"type": "test_passes", "value": f"{sys.executable} -m unittest -q"}],
            "max_retries": 0,
            "deadline_s": 6,
        }
        ids.append(tasks.submit(payload, backlog="calculator", name=agent).id)
    return ids


def watch(client: Client, ids: list[str]) -> list[Record]:
    """Print every change of state until all tasks have ended."""
    seen: dict[str, str] = {}
    give_up_at = time.monotonic() + PATIENCE_S
    while any(seen.get(task_id) not in ENDS for task_id in ids):
        if time.monotonic() > give_up_at:
            raise SystemExit(f"not all tasks ended in {PATIENCE_S:g} s: {seen}")
        for task_id in ids:
            state = client.show(task_id).state
            if seen.get(task_id) != state:
                seen[task_id] = state
                screen.out.print(f"  {task_id:24} {state}", highlight=False)
        time.sleep(POLL_S)
    return [client.show(task_id) for task_id in ids]


def wait_for_cleanup(client: Client, ids: list[str]) -> None:
    """Wait until every agent is dead and its worktree is removed."""
    give_up_at = time.monotonic() + PATIENCE_S
    turns = [f"calculator/turn~{task_id.partition('/')[2]}~1" for task_id in ids]
    while any(client.show(turn).state != "reaped" for turn in turns):
        if time.monotonic() > give_up_at:
            raise SystemExit("not every worktree was removed")
        time.sleep(POLL_S)


def print_results(records: list[Record], repo: Path) -> None:
    """Print how each task ended, and what the repository contains now."""
    screen.out.rule("the tasks")
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
    listing = ("branch", "--list", "interlock/*", "--format=%(refname:short)")
    branches = git(repo, *listing).splitlines() or ["none"]
    screen.out.print(f"branches kept for you to look at in {repo}:", soft_wrap=True)
    for branch in branches:
        screen.out.print(f"  {branch}", highlight=False)


def main() -> None:
    """Run the example."""
    home = new_home(Path(os.environ.get("INTERLOCK_HOME", ".interlock")) / "fix_the_tests")
    repo = home / "calculator"
    make_repository(repo)
    settings = read_settings({"INTERLOCK_HOME": str(home), "INTERLOCK_AGENTS_MAX": "4"})
    with Deployment(settings, pages=False) as deployment:
        client = Client(deployment.settings, actor="example")
        ids = submit(Tasks(client), repo)
        records = watch(client, ids)
        wait_for_cleanup(client, ids)
    print_results(records, repo)


if __name__ == "__main__":
    main()
