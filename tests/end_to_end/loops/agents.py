"""Long-lived agents for tests: a repository, and a command that runs the steps in its mail."""

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
from interlock.kernel.store.fold import fold
from interlock.systems.loops.client import Loops
from interlock.systems.loops.machines.loop.table import LOOP
from tests.end_to_end.deployment import Deployment
from tests.end_to_end.engine.test_stranding import due
from tests.end_to_end.tasks.coding import make_repository
from tests.processes import is_alive

# Each line of its mail that is JSON is a step. Its journal says which mail it was given and how it
# ended.
AGENT = """
import json, os, re, signal, sys, time
name, seq = os.environ["INTERLOCK_AGENT"], os.environ["INTERLOCK_SESSION"]
channel = int(os.environ["INTERLOCK_REPORT_FD"])
journal = os.path.join({folder!r}, name + ".jsonl")

def write(what, **fields):
    line = json.dumps({{"what": what, "seq": seq, "pid": os.getpid(), "at": time.time(), **fields}})
    with open(journal, "a") as file:
        file.write(line + "\\n")

def report(**fields):
    os.write(channel, json.dumps(fields).encode() + b"\\n")

stubborn = False

def interrupted(*_):
    write("interrupted")
    if not stubborn:
        sys.exit(0)

signal.signal(signal.SIGTERM, interrupted)
prompt = sys.stdin.read()
mail = prompt.rpartition("# Your mail")[2] if "# Your mail" in prompt else ""
given = re.findall(r"^## (?:urgent )?\\w+ (\\d+-\\d+) from", mail, re.M)
lines = [line for line in mail.splitlines() + {always!r} if line.startswith("{{")]
stubborn = any("stubborn" in json.loads(line) for line in lines)
write("start", mail=given, prompt=prompt)
for line in lines:
    match json.loads(line):
        case {{"exit": code}}:
            write("end", code=code)
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
        case fields:
            report(**fields)
write("end", code=0)
"""


@dataclass
class Agents:
    """The agents of a deployment that share one repository."""

    deployment: Deployment
    folder: Path

    @cached_property
    def repo(self) -> Path:
        """The repository that the agents share."""
        return make_repository(self.folder / "repo")

    @cached_property
    def loops(self) -> Loops:
        """The client."""
        return Loops(self.deployment.client)

    def start(self, name: str, *always: Any, **options: Any) -> Record:
        """Start an agent whose sessions run the steps of their mail, then those in `always`."""
        script = self.folder / f"{name}.py"
        steps = [json.dumps(step) for step in always]
        script.write_text(AGENT.format(folder=str(self.folder), always=steps))
        command = f"{shlex.quote(sys.executable)} -S {shlex.quote(str(script))}"
        defaults = {"next": "on_mail", "grace_s": 600}
        return self.loops.start(name, repo=self.repo, command=command, **{**defaults, **options})

    def stop_all(self) -> None:
        """Stop the agents of this test in a shared deployment, because their sessions cost time."""
        for agent in self.loops.list():
            if agent["name"].endswith(self.deployment.scope):
                self.loops.stop(agent["name"])

    def make_due(self, name: str, timer: str) -> None:
        """Make a timer of an agent due."""
        dispatch: Any = self.deployment.client.dispatch
        due(dispatch, dispatch.client, self.record(name).id, timer)

    def send(self, to: str, *steps: Any, **fields: Any) -> str:
        """Send an agent mail with steps for its next session."""
        text = "\n".join(step if isinstance(step, str) else json.dumps(step) for step in steps)
        return self.loops.send(to, text or "hello", sender="operator", **fields)

    def record(self, name: str) -> Record:
        """Return the record of an agent's latest life."""
        return self.deployment.client.show(self.loops.latest_life(name))

    def journal(self, name: str, what: str = "start") -> list[dict[str, Any]]:
        """Return the lines of one kind in the journal of an agent's sessions."""
        file = self.folder / f"{name}.jsonl"
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        # The session may be writing the last line.
        whole = (json.loads(line) for line in lines if line.endswith("\n"))
        return [line for line in whole if line["what"] == what]

    def mail_read(self, name: str) -> list[str]:
        """Return the ids of the mail in the prompts of an agent's sessions, in order."""
        return [mail for one in self.journal(name) for mail in one["mail"]]

    def wait_for(self, name: str, number: int = 1, what: str = "start") -> dict[str, Any]:
        """Wait until the journal has this many lines of one kind, and return the last of them."""
        wanted = f"{number} lines {what} in the journal of {name}"
        try:
            self.deployment.sees(lambda: len(self.journal(name, what)) >= number, what=wanted)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.deployment.story(self.record(name).id)}") from None
        return self.journal(name, what)[number - 1]

    def reaches(self, name: str, *states: str, within_s: float = 120) -> Record:
        """Wait until an agent is in one of these states."""
        return self.deployment.reaches(self.record(name).id, *states, within_s=within_s)

    def triggers(self, name: str) -> list[str]:
        """Return the triggers that an agent's log has, in order."""
        return [line.trigger for line in self.deployment.events(self.record(name).id)]

    def event(self, name: str, trigger: str) -> Event:
        """Return the last event of a trigger."""
        events = self.deployment.events(self.record(name).id)
        return [line for line in events if line.trigger == trigger][-1]

    def after(self, name: str, trigger: str) -> Record:
        """Wait until a trigger is fired for an agent; return its record as it was just after."""
        life = self.record(name).id
        self.deployment.sees(lambda: trigger in self.triggers(name), what=trigger)
        events = self.deployment.events(life)
        number = max(n for n, event in enumerate(events, 1) if event.trigger == trigger)
        return fold(LOOP, events[:number])

    def assert_nothing_left(self, name: str) -> None:
        """Wait until no process, no lease, no hold and no worktree of a stopped agent is left."""
        record = self.reaches(name, "stopped")
        self.deployment.comes_to_rest(record.id)
        left = [one["pid"] for one in self.journal(name) if is_alive(one["pid"])]
        assert left == []
        assert self.deployment.client.dispatch.views.holds(name) == {}
        assert not Path(str(record.data.get("worktree") or "/none")).exists()
        self.deployment.checked(record.id)
