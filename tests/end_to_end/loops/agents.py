"""Long-lived agents for tests: a repository, and a command that does what its mail tells it to."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from interlock.kernel.event import Event
from interlock.kernel.record import Record
from interlock.workers.loops.client import Loops
from tests.end_to_end.deployment import Deployment
from tests.end_to_end.tasks.coding import make_repository
from tests.processes import is_alive

# Each line of its mail that is JSON is a step; what it was given and when it ended is witnessed.
AGENT = """
import json, os, re, signal, sys, time
name, seq = os.environ["INTERLOCK_AGENT"], os.environ["INTERLOCK_SESSION"]
channel = int(os.environ["INTERLOCK_REPORT_FD"])
witness = os.path.join({folder!r}, name + ".jsonl")

def saw(what, **more):
    line = json.dumps({{"what": what, "seq": seq, "pid": os.getpid(), "at": time.time(), **more}})
    with open(witness, "a") as file:
        file.write(line + "\\n")

def say(**words):
    os.write(channel, json.dumps(words).encode() + b"\\n")

stubborn = False

def asked_to_end(*_):
    saw("asked")
    if not stubborn:
        sys.exit(0)

signal.signal(signal.SIGTERM, asked_to_end)
prompt = sys.stdin.read()
letters = prompt.rpartition("# Your mail")[2] if "# Your mail" in prompt else ""
given = re.findall(r"^## (?:urgent )?\\w+ (\\d+-\\d+) from", letters, re.M)
lines = [line for line in letters.splitlines() + {always!r} if line.startswith("{{")]
stubborn = any("stubborn" in json.loads(line) for line in lines)
saw("start", mail=given, prompt=prompt)
for line in lines:
    match json.loads(line):
        case {{"exit": code}}:
            saw("end", code=code)
            sys.exit(code)
        case {{"kill": number}}:
            os.kill(os.getpid(), number)
        case {{"wait": file}}:
            while not os.path.exists(file):
                time.sleep(0.02)
        case {{"stubborn": _}}:
            pass
        case {{"write": file}}:
            with open(file, "w") as out:
                out.write(name)
        case {{"sh": line}}:
            os.system(line)
        case {{"print": text}}:
            print(text, flush=True)
        case words:
            say(**words)
saw("end", code=0)
"""


@dataclass
class Colony:
    """A deployment with a repository, and agents in it."""

    deployment: Deployment
    folder: Path

    @cached_property
    def repo(self) -> Path:
        """The repository that they share."""
        return make_repository(self.folder / "repo")

    @cached_property
    def loops(self) -> Loops:
        """The client."""
        return Loops(self.deployment.client)

    def start(self, name: str, *always: Any, **options: Any) -> Record:
        """Start an agent that does these steps in each session, after those of its mail."""
        script = self.folder / f"{name}.py"
        steps = [json.dumps(step) for step in always]
        script.write_text(AGENT.format(folder=str(self.folder), always=steps))
        command = f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}"
        given = {"next": "on_mail", "grace_s": 2, **options}
        return self.loops.start(name, repo=self.repo, command=command, **given)

    def send(self, to: str, *steps: Any, **about: Any) -> str:
        """Send an agent mail that says what to do."""
        text = "\n".join(step if isinstance(step, str) else json.dumps(step) for step in steps)
        return self.loops.send(to, text or "hello", sender="operator", **about)

    def record(self, name: str) -> Record:
        """Return an agent's latest life."""
        return self.deployment.client.show(self.loops.latest(name))

    def saw(self, name: str, what: str = "start") -> list[dict[str, Any]]:
        """Return what an agent's sessions witnessed."""
        place = self.folder / f"{name}.jsonl"
        lines = place.read_text().splitlines() if place.exists() else []
        return [line for line in map(json.loads, lines) if line["what"] == what]

    def given(self, name: str) -> list[str]:
        """Return every mail that sessions read, in order, as often as they did."""
        return [mail for one in self.saw(name) for mail in one["mail"]]

    def sees(self, name: str, number: int = 1, what: str = "start") -> dict[str, Any]:
        """Wait until so many sessions witnessed something, and return the last of it."""
        told = f"{name} saw {number} times {what}"
        try:
            self.deployment.sees(lambda: len(self.saw(name, what)) >= number, what=told)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.deployment.story(self.record(name).id)}") from None
        return self.saw(name, what)[number - 1]

    def reaches(self, name: str, *states: str, within_s: float = 30) -> Record:
        """Wait until an agent stands in one of these states."""
        return self.deployment.reaches(self.record(name).id, *states, within_s=within_s)

    def triggers(self, name: str) -> list[str]:
        """Return what moved an agent, in order."""
        return [line.trigger for line in self.deployment.events(self.record(name).id)]

    def event(self, name: str, trigger: str) -> Event:
        """Return the last event of a trigger."""
        events = self.deployment.events(self.record(name).id)
        return [line for line in events if line.trigger == trigger][-1]

    def nothing_left(self, name: str) -> None:
        """Wait until no process, no lease, no hold and no worktree of a stopped agent is left."""
        record = self.reaches(name, "stopped")
        self.deployment.settles(record.id)
        left = [one["pid"] for one in self.saw(name) if is_alive(one["pid"])]
        assert left == []
        assert self.deployment.client.dispatch.views.holds(name) == {}
        assert not Path(str(record.data.get("worktree") or "/none")).exists()
        self.deployment.checked(record.id)
