"""Agents that live on their mail while what they are made of is killed, and a ledger of all of it.

What a session was given stands in three places that know nothing of each other: the inbox, the
prompt in the record's log, and what the agent itself wrote down of what it read.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from interlock.kernel.errors import CallError, StoreError
from interlock.kernel.record import PARTITIONS, Record
from interlock.kernel.store.inboxes import MAILS_MAX, Mail, position
from interlock.kernel.store.scripts import read
from interlock.workers.loops.client import Loops
from interlock.workers.loops.paths import Home
from interlock.workers.loops.prompt import read_prompt
from interlock.workers.processes.agent.containment import MARK
from tests.end_to_end.deployment import Deployment, overlaps
from tests.end_to_end.tasks.coding import make_repository
from tests.processes import PROC, marked, parent_of

WORKERS = 2
NAMES = ("owl", "bat", "fox", "elk", "hen", "jay")
LETTER = re.compile(r"^## (?:urgent )?\w+ (\d+-\d+) from", re.MULTILINE)
# Witnesses first what it read, then that it is at work; the words of its mail say what it does.
AGENT = r"""#!{python} -IS
import json, os, re, signal, sys, time
name = os.environ["INTERLOCK_AGENT"]
life, attempt = os.environ["INTERLOCK_PROMPT_FILE"].split("/")[-3:-1]
channel = int(os.environ["INTERLOCK_REPORT_FD"])
witness = os.open(os.path.join({folder!r}, name + ".jsonl"), os.O_WRONLY | os.O_APPEND)

def saw(what, **more):
    about = dict(what=what, of=name + "/" + life, attempt=int(attempt), at=time.time(), **more)
    os.write(witness, json.dumps(about).encode() + b"\n")

letters = sys.stdin.read().rpartition("\n\n# Your mail (")
mail = letters[2] if letters[1] else ""
saw("start", pid=os.getpid(), mail=re.findall({letter!r}, mail, re.M))
steps, code = {steps}, 0
for line in mail.splitlines():
    match line.split():
        case ["relay", to, label]:
            text = label + " by " + name + "/" + life + "/" + attempt
            report = dict(type="mail", to=to, text=text)
            os.write(channel, json.dumps(report).encode() + b"\n")
        case ["stubborn"]:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            steps = 40
        case ["crash"]:
            code = 3
for _ in range(steps):
    saw("works")
    time.sleep(0.05)
saw("end")
sys.exit(code)
"""


@dataclass(frozen=True, slots=True)
class Session:
    """A session that started: one attempt of one life, and the mail that it was given.

    `mail` stands in its prompt, `told` in its record, which also says that all mail up to `claimed`
    was given by then, and what is `ahead` of that.
    """

    life: str
    attempt: int
    claimed: str
    ahead: tuple[str, ...]
    told: tuple[str, ...]
    mail: tuple[str, ...]


@dataclass
class Aviary:
    """A deployment, a repository, and agents that read their mail and write down what they read."""

    deployment: Deployment
    folder: Path
    names: Sequence[str] = NAMES
    steps: int = 6

    @cached_property
    def loops(self) -> Loops:
        """The client."""
        return Loops(self.deployment.client)

    @cached_property
    def repo(self) -> Path:
        """The repository that they share."""
        return make_repository(self.folder / "repo")

    def program(self, name: str) -> Path:
        """Return the file that an agent's command is."""
        return self.folder / f"{name}.command"

    def equip(self, name: str) -> None:
        """Write an agent's command, and the file that it will witness in."""
        (self.folder / f"{name}.jsonl").touch()
        text = AGENT.format(
            python=sys.executable, folder=str(self.folder), letter=LETTER.pattern, steps=self.steps
        )
        self.program(name).write_text(text)
        self.program(name).chmod(0o755)

    def start(self, name: str, **options: Any) -> None:
        """Start an agent. No number of errors ends it: how many there are is up to the killer."""
        if not (self.folder / f"{name}.jsonl").exists():
            self.equip(name)
        errors = {"max_consecutive_errors": 1_000_000, "max_total_errors": 1_000_000}
        given = {"next": "on_mail", "grace_s": 1, **errors, **options}
        self.loops.start(name, repo=self.repo, command=str(self.program(name)), **given)

    def record(self, name: str) -> Record:
        """Return an agent's latest life."""
        return self.deployment.client.show(self.loops.latest(name))

    def lives(self, name: str) -> Sequence[str]:
        """Return the records of a name, the latest last."""
        return self.loops.mailbox.lives(name)

    # --- what became of the mail ---------------------------------------------------------------

    def inbox(self, name: str) -> list[Mail]:
        """Return all mail that ever came for a name, in order."""
        return self.deployment.client.dispatch.inboxes.after(f"{name}/1", "0-0", MAILS_MAX)

    def waiting(self, name: str) -> list[str]:
        """Return the mail that nobody was given, by the record of the last life that settled in."""
        records = [self.deployment.client.show(life) for life in self.lives(name)]
        data = next((one.data for one in records[::-1] if one.data.get("worktree")), None)
        read, ahead = (data["acknowledged"], data["ahead"]) if data else ("0-0", [])
        later = self.deployment.client.dispatch.inboxes.after(f"{name}/1", str(read), MAILS_MAX)
        return [one.id for one in later if one.id not in ahead]

    def rests(self, name: str) -> bool:
        """Whether an agent has been given all its mail, and nothing of it is under way."""
        record = self.record(name)
        return record.state == "session_complete" and not self.waiting(name)

    def sessions(self, name: str) -> list[Session]:
        """Return the sessions of a name that started, with the mail that stood in their prompts."""
        return [one for life in self.lives(name) for one in self._sessions_of(life)]

    def _sessions_of(self, life: str) -> Iterator[Session]:
        attempt, told = 0, dict[str, Any]()
        home = Home(life, self.deployment.client.settings)
        for event in self.deployment.events(life):
            match event.trigger:
                case "prompt_ready":
                    told, attempt = dict(event.payload), attempt + 1
                case "session_started":
                    text = read_prompt(home.session(attempt), told["prompt"], told["digest"])
                    ahead, given = tuple(told["ahead"]), tuple(told["letters"])
                    yield Session(life, attempt, told["claimed"], ahead, given, letters(text))

    def released(self, name: str) -> int:
        """Return how many launches of an agent failed with mail in their prompt."""
        found, letters_in = 0, 0
        for event in (event for life in self.lives(name) for event in self.deployment.events(life)):
            if event.trigger == "prompt_ready":
                letters_in = len(event.payload["letters"])
            elif event.source == "spawning" and event.trigger == "session_error":
                found += bool(letters_in)
        return found

    def witnessed(self, name: str) -> list[dict[str, Any]]:
        """Return what an agent's sessions wrote down."""
        text = (self.folder / f"{name}.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]


def letters(prompt: str) -> tuple[str, ...]:
    """Return the mail that stands in a prompt as new, in order."""
    _, heading, new = prompt.rpartition("\n\n# Your mail (")
    return tuple(LETTER.findall(new)) if heading else ()


# --- what is true at the end ---------------------------------------------------------------------


def wrong_deliveries(aviary: Aviary, name: str) -> Iterator[str]:
    """Name whatever was not given to exactly one session that started, or not in its order."""
    mails = aviary.inbox(name)
    came = [one.id for one in mails]
    assert came == sorted(set(came), key=position)
    given = [mail for session in aviary.sessions(name) for mail in session.mail]
    waiting = aviary.waiting(name)
    if twice := [mail for mail, number in Counter(given).items() if number > 1]:
        yield f"{name}: given to two sessions: {twice}"
    if lost := set(came) - set(given) - set(waiting):
        yield f"{name}: given to nobody: {sorted(lost)}"
    if wrong := [*(set(given) - set(came)), *(set(given) & set(waiting))]:
        yield f"{name}: given, and not there or waiting as well: {wrong}"
    # Only what is urgent may overtake.
    for urgent in (True, False):
        kind = {one.id for one in mails if one.said["urgent"] is urgent}
        told = [mail for mail in [*given, *waiting] if mail in kind]
        if told != sorted(told, key=position):
            yield f"{name}: not in order: {told}"


def wrong_sessions(aviary: Aviary, name: str) -> Iterator[str]:
    """Name each session whose record tells of other mail than its prompt has."""
    came, given = [one.id for one in aviary.inbox(name)], set[str]()
    for one in aviary.sessions(name):
        if one.told != one.mail:
            yield f"{one}: its record says otherwise"
        given |= set(one.mail)
        upto = position(one.claimed)
        known = {mail for mail in came if position(mail) <= upto} | set(one.ahead)
        if known != given:
            yield f"{one}: what was given by then is {sorted(given ^ known)} more or less"


def wrong_readings(aviary: Aviary, name: str) -> Iterator[str]:
    """Name whatever a process read that its record does not know of, or read twice."""
    started = {(one.life, one.attempt): list(one.mail) for one in aviary.sessions(name)}
    read = [line for line in aviary.witnessed(name) if line["what"] == "start"]
    for line in read:
        of = line["of"], line["attempt"]
        if of not in started:
            yield f"{of} read {line['mail']} and never started"
        elif line["mail"] != started[of]:
            yield f"{of} read {line['mail']}, its record says {started[of]}"
    every = Counter(mail for line in read for mail in line["mail"])
    if twice := [mail for mail, number in every.items() if number > 1]:
        yield f"{name}: read twice: {twice}"


def wrong_times(aviary: Aviary, name: str) -> Iterator[str]:
    """Name each two sessions of one agent that were at work at the same time."""
    seen: dict[tuple[str, int], list[float]] = {}
    for line in aviary.witnessed(name):
        seen.setdefault((line["of"], line["attempt"]), []).append(line["at"])
    spans = [{"of": of, "started": min(at), "ended": max(at)} for of, at in seen.items()]
    yield from (f"two at work at once: {one} {other}" for one, other in overlaps(spans))


def wrong_posts(aviary: Aviary, writers: Iterable[Producer]) -> Iterator[str]:
    """Name each message that was accepted and is not there, or not in the order of its sender."""
    inboxes = {name: {one.id: one for one in aviary.inbox(name)} for name in aviary.names}
    for writer in writers:
        yield from writer.told
        latest = dict.fromkeys(aviary.names, (0, 0))
        for to, mail, text in writer.accepted:
            found = inboxes[to].get(mail)
            if found is None or found.said["text"] != text:
                yield f"{to}: {mail} was accepted and is not there"
            if position(mail) <= latest[to]:
                yield f"{to}: {mail} was accepted after {latest[to]}"
            latest[to] = position(mail)
    texts = Counter(one.said["text"] for mails in inboxes.values() for one in mails.values())
    yield from (f"posted {number} times: {text}" for text, number in texts.items() if number > 1)
    for life in (life for name in aviary.names for life in aviary.lives(name)):
        for note in aviary.deployment.notes(life, "mail_sent"):
            if note.detail["mail"] not in inboxes[note.detail["to"]]:
                yield f"what {life} sent is not there: {note.detail}"


def figures(aviary: Aviary) -> str:
    """Tell in a line how much went on."""
    came = sum(len(aviary.inbox(name)) for name in aviary.names)
    sessions = [one for name in aviary.names for one in aviary.sessions(name)]
    events = [
        event.trigger
        for name in aviary.names
        for life in aviary.lives(name)
        for event in aviary.deployment.events(life)
    ]
    read = sum(line["what"] == "start" for name in aviary.names for line in aviary.witnessed(name))
    told = f"{came} mails, {events.count('prompt_ready')} prompts, {len(sessions)} sessions started"
    told += f", {read} read their prompt, {events.count('urgent_message')} interrupted"
    return f"{told}, {events.count('session_error')} errors"


def indexed(deployment: Deployment) -> list[str]:
    """Return every effect, timer and wait that somebody would look at."""
    keys = deployment.client.dispatch.keys
    places = (keys.effects, keys.timers, keys.waits)
    return [
        member.decode()
        for place, partition in itertools.product(places, range(PARTITIONS))
        for member in read(deployment.client.dispatch.client, "ZRANGE", place(partition), 0, -1)
    ]


def of_sessions(aviary: Aviary) -> dict[int, str]:
    """Return the processes of this deployment that supervise a session or belong to one."""
    mine = marked("DEPLOYMENT_FOLDER", str(aviary.deployment.folder))
    ours = ("loops.session_keeper", "agent_process.watchdog")
    return {
        pid: words
        for pid, words in mine.items()
        if carries_mark(pid) or any(one in words for one in ours)
    }


# --- who writes, and who kills -------------------------------------------------------------------


class Producer(threading.Thread):
    """Sends mail to agents at random, some of it urgent, some posts more than once."""

    def __init__(
        self,
        aviary: Aviary,
        seed: str,
        number: int,
        *,
        pause_s: float,
        burst: int,
        urgent: float = 0.03,
    ) -> None:
        super().__init__(name=seed)
        self.aviary, self.number, self.random = aviary, number, random.Random(seed)
        self.pause_s, self.burst, self.urgent = pause_s, burst, urgent
        self.accepted: list[tuple[str, str, str]] = []
        self.told: list[str] = []
        self.refused = self.repeated = self.unanswered = 0
        self.over = threading.Event()

    def run(self) -> None:
        try:
            for n in range(self.number):
                if self.over.is_set():
                    return
                self._send(n)
                if n % self.burst == 0:
                    self.over.wait(self.random.uniform(0, 2 * self.pause_s))
        except Exception as fault:
            self.told.append(repr(fault))
            raise

    def _send(self, n: int) -> None:
        to = self.random.choice(self.aviary.names)
        dice = self.random.random()
        other = self.random.choice([name for name in self.aviary.names if name != to])
        step = (
            "relay" if dice < 0.1 else "stubborn" if dice < 0.12 else "crash" if dice < 0.15 else ""
        )
        text = f"{self.name}-{n}\n{step}"
        if step == "relay":
            text += f" {other} {self.name}-{n}-again"
        about: dict[str, Any] = {"urgent": self.random.random() < self.urgent}
        mail = self._posted(to, text, f"{self.name}-{n}", about)
        if mail is None:
            self.refused += 1
            return
        self.accepted.append((to, mail, text))
        if self.random.random() < 0.2:
            self.repeated += 1
            again = self._posted(to, text, f"{self.name}-{n}", about)
            if again not in (mail, None):
                self.told.append(f"{text!r} is {mail} and {again}")

    def _posted(self, to: str, text: str, op_id: str, about: dict[str, Any]) -> str | None:
        """Post until it is answered; None: nobody lives there."""
        while True:
            try:
                return self.aviary.loops.send(to, text, sender="operator", op_id=op_id, **about)
            except StoreError:
                self.unanswered += 1
                self.over.wait(0.05)
            except CallError:
                return None


class Killer:
    """Kills, without a warning, one process after the other of those that agents are made of."""

    def __init__(self, aviary: Aviary, seed: str, kinds: Sequence[str], *, pause_s: float) -> None:
        self.aviary, self.random, self.kinds = aviary, random.Random(seed), kinds
        self.pause_s, self.done, self.pause = pause_s, Counter[str](), threading.Event()
        self.more: dict[str, Callable[[], str]] = {}
        self.log: list[str] = []
        self.hidden: list[Path] = []

    def rage(self, going_on: Callable[[], bool]) -> None:
        """Kill as long as something goes on; afterwards every command is there again."""
        while going_on():
            self.pause.wait(self.random.uniform(0, 2 * self.pause_s))
            kind = self.random.choice(self.kinds)
            self._show()
            try:
                killed = self.more[kind]() if kind in self.more else self.kill(kind)
            except StoreError as away:
                killed = repr(away)
            if killed:
                self.done[kind] += 1
                self.log.append(f"{kind} {killed}")
        self._show()
        sys.stdout.write(f"killed {dict(self.done)}\n")

    def kill(self, kind: str) -> str:
        """Kill one of a kind, and say which; nothing where there is none."""
        match kind:
            case "worker":
                return self._worker()
            case "launch":
                return self.hide(self.random.choice(self.aviary.names))
        if not (found := self._found(kind)):
            return ""
        victims = self.random.choice(found)
        # Stopped first: of two, none sees the other's end.
        for number, pid in itertools.product((signal.SIGSTOP, signal.SIGKILL), victims):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return f"{victims}"

    def hide(self, name: str) -> str:
        """Let an agent's launches fail until the next blow."""
        program = self.aviary.program(name)
        program.rename(hidden(program))
        self.hidden.append(program)
        return program.name

    def _worker(self) -> str:
        deployment = self.aviary.deployment
        workers = [one for one in deployment.processes if one.name.startswith("w") and one.alive]
        ready = [one for one in workers if " ready." in one.said]
        victim = self.random.choice(ready) if ready else None
        if victim is not None:
            victim.kill()
        # One that began while the store was away has ended by itself.
        for _ in range(len(workers) - bool(victim), WORKERS):
            deployment.worker(concurrency=6, ready=False)
        return victim.name if victim else ""

    def _found(self, kind: str) -> list[tuple[int, ...]]:
        mine = marked("DEPLOYMENT_FOLDER", str(self.aviary.deployment.folder))
        keepers = {pid for pid, words in mine.items() if "loops.session_keeper" in words}
        dogs = {pid for pid, words in mine.items() if "agent_process.watchdog" in words}
        match kind:
            case "keeper":
                return [(pid,) for pid in sorted(keepers)]
            case "watchdog":
                return [(pid,) for pid in sorted(dogs)]
            case "both":
                pairs = [(parent_of(dog), dog) for dog in sorted(dogs)]
                return [pair for pair in pairs if pair[0] in keepers]
            case _:
                return [(pid,) for pid in sorted(mine) if carries_mark(pid)]

    def _show(self) -> None:
        while self.hidden:
            program = self.hidden.pop()
            hidden(program).rename(program)


def hidden(program: Path) -> Path:
    """Return where a command is while it cannot be found."""
    return program.with_suffix(".hidden")


def carries_mark(pid: int) -> bool:
    """Whether a process is of a session."""
    with suppress(OSError):
        return f"{MARK}=".encode() in (PROC / str(pid) / "environ").read_bytes()
    return False
