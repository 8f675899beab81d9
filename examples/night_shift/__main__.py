"""Runs the night shift and says what happens: `python -m examples.night_shift`.

It makes a real git repository below .interlock/night_shift, starts a store, workers and beat of its
own, and ends them again. The repository stays, for you to look at.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from interlock.kernel.event import Event, Note
from interlock.workers.client import Client
from interlock.workers.config import read_settings
from interlock.workers.loops.client import Loops
from interlock.workers.loops.screen import letters
from interlock.workers.ops.deployment import Deployment
from interlock.workers.terminal import screen

HERE = Path(__file__).resolve().parent
PATIENCE_S = 120.0
POLL_S = 0.1
WHOLE = 100
WRONG = {"add": "-", "subtract": "*", "multiply": "+"}
RIGHT = {"add": 5, "subtract": -1, "multiply": 6}
SAID = {
    "worktree_ready": "gets ready for a session",
    "session_started": "is in session {session_seq}",
    "session_succeeded": "has ended its session well",
    "session_error": "lost its session: {detail}",
    "backoff_elapsed": "has cooled down",
    "urgent_message": "is interrupted: urgent mail has come",
    "grace_exceeded": "did not end in time, and is killed",
    "operator_stop": "is stopped",
}


def git(folder: Path, *words: str) -> str:
    """Run git and return what it says."""
    own = ("-c", "user.name=Example", "-c", "user.email=example@localhost")
    command = ["/usr/bin/env", "git", *own, *words]
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
    """Both agents, watched from outside."""

    def __init__(self, loops: Loops, repo: Path) -> None:
        self.loops, self.repo, self.began = loops, repo, time.monotonic()
        self.seen: dict[str, int] = {}
        self.green = self.asked = False

    def begin(self) -> None:
        """Start them: each sleeps until mail comes."""
        for name, who in (
            ("smith", "You mend what the scout asks for."),
            ("scout", "You run the tests, and ask the smith for repairs."),
        ):
            script = HERE / "agents" / f"{name}.py"
            command = f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}"
            options = {"identity": who, "next": "on_mail", "grace_s": 5}
            self.seen[self.loops.start(name, repo=self.repo, command=command, **options).id] = 0

    def watch(self) -> None:
        """Tell what happens until every test passes and no letter waits."""
        until = time.monotonic() + PATIENCE_S
        while not self.green or any(agent["mail_waiting"] for agent in self.loops.list()):
            if time.monotonic() > until:
                raise SystemExit(f"the tests do not pass after {PATIENCE_S:g} s")
            self.look()
            time.sleep(POLL_S)

    def look(self) -> None:
        """Tell what is new in both logs."""
        for of, known in self.seen.items():
            log = self.loops.client.history(of)
            for line in log[known:]:
                self._tell(of.partition("/")[0], line)
            self.seen[of] = len(log)

    def _tell(self, name: str, line: Event | Note) -> None:
        match line:
            case Event(source="interrupting", target="building_prompt"):
                self.say(f"{name} has put its work down, and gets ready to read its mail")
            case Event(trigger=trigger) if trigger in SAID:
                words = {"session_seq": "", "detail": "", **line.payload}
                words["detail"] = words["detail"].rpartition("\n")[2]
                self.say(f"{name} {SAID[trigger]}".format(**words))
            case Note(kind="mail_sent"):
                self.say(f"{name} writes to {line.detail['to']}")
                if name == "smith" and not self.asked:
                    self.asked = True
                    self.loops.send("smith", "Write the manual.", sender="operator")
                    self.say("you ask the smith for a manual, which takes all night")
            case Note(kind="said"):
                self.say(f"{name} says: {line.detail['message']}")
                self.green = self.green or line.detail["percent"] == WHOLE

    def say(self, sentence: str) -> None:
        """Print a sentence with the time."""
        at_s = time.monotonic() - self.began
        screen.out.print(f"{at_s:6.1f} s  {sentence}", highlight=False, soft_wrap=True)

    def end(self) -> None:
        """Stop both, and see that nothing of them is left."""
        for name in ("scout", "smith"):
            record = self.loops.stop(name, reason="the night is over", wait_s=PATIENCE_S)
            if record.entries:
                raise SystemExit(f"{name} is not gone: {record.entries}")
        self.look()


def tell(loops: Loops, repo: Path) -> None:
    """Print what was written to whom, and what the repository has now."""
    for name in ("smith", "scout"):
        screen.out.rule(f"mail of the {name}")
        letters(loops.mailbox.listed(name))
    screen.out.rule("the repository")
    log = ("log", "--oneline", "--no-decorate", "interlock/agents/scout")
    screen.out.print(git(repo, *log), highlight=False)
    screen.out.print(f"worktrees: {git(repo, 'worktree', 'list').count('[')}")


def main() -> None:
    """Run the example."""
    home = Path(os.environ.get("INTERLOCK_HOME", ".interlock")).absolute() / "night_shift"
    shutil.rmtree(home, ignore_errors=True)
    repo = home / "calculator"
    make_repository(repo)
    settings = read_settings({"INTERLOCK_HOME": str(home)})
    with Deployment(settings, flower=False) as deployment:
        loops = Loops(Client(deployment.settings, actor="example"))
        night = Night(loops, repo)
        night.begin()
        night.watch()
        night.end()
        tell(loops, repo)


if __name__ == "__main__":
    main()
