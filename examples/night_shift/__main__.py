"""Runs the night shift and prints what happens: `python -m examples.night_shift`.

It makes a real git repository below .interlock/night_shift, starts a store, workers and beat of its
own, and ends them again. The repository stays, for you to look at.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from interlock.kernel.event import Event, Note
from interlock.systems.loops import page
from interlock.systems.loops.client import Loops
from interlock.workers.client import Client
from interlock.workers.config import read_settings
from interlock.workers.ops.deployment import Deployment
from interlock.workers.ops.home import new_home
from interlock.workers.terminal import screen
from interlock.workers.terminal.printed_page import PagePrinter

HERE = Path(__file__).resolve().parent
PATIENCE_S = 120.0
POLL_S = 0.1
DONE_PERCENT = 100
WRONG = {"add": "-", "subtract": "*", "multiply": "+"}
RIGHT = {"add": 5, "subtract": -1, "multiply": 6}
SENTENCES = {
    "worktree_ready": "gets ready for a session",
    "session_started": "is in session {session_seq}",
    "session_succeeded": "has ended its session successfully",
    "session_error": "failed in its session: {detail}",
    "backoff_elapsed": "has waited, and may start again",
    "urgent_message": "is interrupted: urgent mail has come",
    "grace_exceeded": "did not end in time, and is killed",
    "operator_stop": "is stopped",
}


def git(folder: Path, *arguments: str) -> str:
    """Run git and return its output."""
    identity = ("-c", "user.name=Example", "-c", "user.email=example@localhost")
    command = ["/usr/bin/env", "git", *identity, *arguments]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def make_repository(folder: Path) -> None:
    """Make a repository whose three tests fail."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    functions = [f"def {name}(a, b):\n    return a {sign} b\n" for name, sign in WRONG.items()]
    (folder / "calculator.py").write_text("\n\n".join(functions), "utf-8")
    tests = [
        f"    def test_{name}(self):\n        self.assertEqual(calculator.{name}(2, 3), {value})\n"
        for name, value in RIGHT.items()
    ]
    head = "import unittest\n\nimport calculator\n\n\nclass Calculating(unittest.TestCase):\n"
    (folder / "test_calculator.py").write_text(head + "\n".join(tests), "utf-8")
    (folder / ".gitignore").write_text("__pycache__/\n.burnt\n", "utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Begin a calculator")


class Night:
    """Starts both agents, watches their logs and stops them."""

    def __init__(self, loops: Loops, repo: Path) -> None:
        self.loops, self.repo, self.began_at = loops, repo, time.monotonic()
        self.seen: dict[str, int] = {}
        self.tests_pass = self.manual_asked = False
        self.mail_seen: set[str] = set()

    def begin(self) -> None:
        """Start both agents. Each waits until mail comes."""
        for name, identity in (
            ("smith", "You repair what the scout asks for."),
            ("scout", "You run the tests, and ask the smith for repairs."),
        ):
            script = HERE / "agents" / f"{name}.py"
            command = f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}"
            options = {"identity": identity, "next": "on_mail", "grace_s": 5}
            self.seen[self.loops.start(name, repo=self.repo, command=command, **options).id] = 0

    def watch(self) -> None:
        """Print what happens until every test passes and no mail waits."""
        self._print_until(
            lambda: self.tests_pass and not any(one["mail_waiting"] for one in self.loops.list()),
            "the tests do not pass",
        )

    def _print_until(self, condition: Callable[[], bool], failure: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > until:
                raise SystemExit(f"{failure} after {PATIENCE_S:g} s")
            self.print_news()
            time.sleep(POLL_S)

    def print_news(self) -> None:
        """Print the new lines of both logs, each as a sentence."""
        for life, known in self.seen.items():
            log = self.loops.client.history(life)
            for line in log[known:]:
                self._print(life.partition("/")[0], line)
            self.seen[life] = len(log)

    def _print(self, name: str, line: Event | Note) -> None:
        match line:
            case Event(source="interrupting", target="building_prompt"):
                self.say(f"{name} has stopped its work, and gets ready to read its mail")
            case Event(trigger=trigger) if trigger in SENTENCES:
                fields = {"session_seq": "", "detail": "", **line.payload}
                fields["detail"] = fields["detail"].rpartition("\n")[2]
                self.say(f"{name} {SENTENCES[trigger]}".format(**fields))
            case Note(kind="mail_sent") if line.detail["mail"] not in self.mail_seen:
                self.mail_seen.add(line.detail["mail"])
                self.say(f"{name} writes to {line.detail['to']}")
                if name == "smith" and not self.manual_asked:
                    self.manual_asked = True
                    self.loops.send("smith", "Write the manual.", sender="operator")
                    self.say("you ask the smith for a manual, which takes all night")
            case Note(kind="progress"):
                self.say(f"{name} says: {line.detail['message']}")
                self.tests_pass = self.tests_pass or line.detail["percent"] == DONE_PERCENT

    def say(self, sentence: str) -> None:
        """Print a sentence with the time."""
        at_s = time.monotonic() - self.began_at
        screen.out.print(f"{at_s:6.1f} s  {sentence}", highlight=False, soft_wrap=True)

    def end(self) -> None:
        """Stop both agents, and check that neither has an effect left.

        The smith is stopped first, because it may write to the scout again. The scout reads that
        before it is stopped.
        """
        self._stop("smith")
        self._print_until(self._scout_rests, "the scout does not come to rest")
        self._stop("scout")
        self.print_news()

    def _scout_rests(self) -> bool:
        [scout] = [agent for agent in self.loops.list() if agent["name"] == "scout"]
        return scout["state"] == "session_complete" and not scout["mail_waiting"]

    def _stop(self, name: str) -> None:
        record = self.loops.stop(name, reason="the night is over", wait_s=PATIENCE_S)
        if record.entries:
            raise SystemExit(f"{name} is not cleaned up: {record.entries}")


def print_results(loops: Loops, repo: Path) -> None:
    """Print the mail of both agents, and the commits and worktrees of the repository."""
    for name in ("smith", "scout"):
        screen.out.rule(f"mail of the {name}")
        PagePrinter().print([page.mail(loops.mailbox.newest(name)[::-1])])
    screen.out.rule("the repository")
    log = ("log", "--oneline", "--no-decorate", "interlock/agents/scout")
    screen.out.print(git(repo, *log), highlight=False)
    screen.out.print(f"worktrees: {git(repo, 'worktree', 'list').count('[')}")


def main() -> None:
    """Run the example."""
    home = new_home(Path(os.environ.get("INTERLOCK_HOME", ".interlock")) / "night_shift")
    repo = home / "calculator"
    make_repository(repo)
    settings = read_settings({"INTERLOCK_HOME": str(home)})
    with Deployment(settings, pages=False) as deployment:
        loops = Loops(Client(deployment.settings, actor="example"))
        night = Night(loops, repo)
        night.begin()
        night.watch()
        night.end()
        print_results(loops, repo)


if __name__ == "__main__":
    main()
