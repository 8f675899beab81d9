"""Agents that only handle mail while their processes are killed, and checks of its delivery.

The mail of a session is stored in three independent places: the inbox, the prompt in the
record's log, and the journal of the agent's command.
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
from interlock.kernel.store.inboxes import MAILS_MAX, Mail
from interlock.kernel.store.scripts import read
from interlock.systems.loops.client import Loops
from interlock.systems.loops.paths import AgentPaths
from interlock.systems.loops.session_prompt import read_prompt
from interlock.workers.processes.agent.containment import LABEL_VARIABLE
from tests.end_to_end.deployment import Deployment, overlaps
from tests.end_to_end.tasks.coding import make_repository
from tests.processes import PROC, marked, parent_of

WORKERS = 2
# Parts of the command lines of the two processes that run a session.
SUPERVISOR, WATCHDOG = "systems.loops.supervisor", "processes.agent.watchdog"
NAMES = ("owl", "bat", "fox", "elk", "hen", "jay")
MESSAGE_HEAD = re.compile(r"^## (?:urgent )?\w+ (\d+-\d+) from", re.MULTILINE)
# The command of an agent: it writes the mail that it read to its journal, then that it works. A
# line of its mail may tell it to send mail, to ignore SIGTERM or to fail.
AGENT = r"""#!{python} -IS
import json, os, re, signal, sys, time
name = os.environ["INTERLOCK_AGENT"]
life, attempt = os.environ["INTERLOCK_PROMPT_FILE"].split("/")[-3:-1]
channel = int(os.environ["INTERLOCK_REPORT_FD"])
journal = os.open(os.path.join({folder!r}, name + ".jsonl"), os.O_WRONLY | os.O_APPEND)

def write(what, **fields):
    line = dict(what=what, life=name + "/" + life, attempt=int(attempt), at=time.time(), **fields)
    os.write(journal, json.dumps(line).encode() + b"\n")

parts = sys.stdin.read().rpartition("\n\n# Your mail (")
mail = parts[2] if parts[1] else ""
write("start", pid=os.getpid(), mail=re.findall({message_head!r}, mail, re.M))
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
    write("works")
    time.sleep(0.05)
write("end")
sys.exit(code)
"""


@dataclass(frozen=True, slots=True)
class Session:
    """A session that started: one attempt of one life, and the mail that it was given.

    `mail` is what its prompt has, `recorded` what its record says. All mail up to `claimed`
    and the later messages in `ahead` had been given by then.
    """

    life: str
    attempt: int
    claimed: str
    ahead: tuple[str, ...]
    recorded: tuple[str, ...]
    mail: tuple[str, ...]


@dataclass
class MailSoak:
    """The agents of a deployment, which write down the mail that they read."""

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
        """The repository that the agents share."""
        return make_repository(self.folder / "repo")

    def program(self, name: str) -> Path:
        """Return the file of an agent's command."""
        return self.folder / f"{name}.command"

    def write_command(self, name: str) -> None:
        """Write an agent's command and create its journal."""
        (self.folder / f"{name}.jsonl").touch()
        text = AGENT.format(
            python=sys.executable,
            folder=str(self.folder),
            message_head=MESSAGE_HEAD.pattern,
            steps=self.steps,
        )
        self.program(name).write_text(text)
        self.program(name).chmod(0o755)

    def start(self, name: str, **options: Any) -> None:
        """Start an agent that no number of errors stops: the killer causes many."""
        if not (self.folder / f"{name}.jsonl").exists():
            self.write_command(name)
        errors = {"max_consecutive_errors": 1_000_000, "max_total_errors": 1_000_000}
        options = {"next": "on_mail", "grace_s": 1, **errors, **options}
        self.loops.start(name, repo=self.repo, command=str(self.program(name)), **options)

    def record(self, name: str) -> Record:
        """Return the record of an agent's latest life."""
        return self.deployment.client.show(self.loops.latest_life(name))

    def lives(self, name: str) -> Sequence[str]:
        """Return the records of a name, the latest last."""
        return self.loops.mailbox.lives(name)

    def inbox(self, name: str) -> list[Mail]:
        """Return all mail that was ever sent to a name, in order."""
        return self.deployment.client.dispatch.inboxes.after(f"{name}/1", "0-0", MAILS_MAX)

    def waiting(self, name: str) -> list[str]:
        """Return the unread mail, according to the last life that has a worktree."""
        records = [self.deployment.client.show(life) for life in self.lives(name)]
        data = next((one.data for one in records[::-1] if one.data.get("worktree")), None)
        read, ahead = (data["acknowledged"], data["ahead"]) if data else ("0-0", [])
        later = self.deployment.client.dispatch.inboxes.after(f"{name}/1", str(read), MAILS_MAX)
        return [one.id for one in later if one.id not in ahead]

    def is_idle(self, name: str) -> bool:
        """Return whether an agent was given all its mail and no session is running."""
        record = self.record(name)
        return record.state == "session_complete" and not self.waiting(name)

    def sessions(self, name: str) -> list[Session]:
        """Return the sessions of a name that started, with the mail in their prompts."""
        return [one for life in self.lives(name) for one in self._sessions_of(life)]

    def _sessions_of(self, life: str) -> Iterator[Session]:
        attempt, payload = 0, dict[str, Any]()
        paths = AgentPaths(life, self.deployment.client.settings)
        for event in self.deployment.events(life):
            match event.trigger:
                case "prompt_ready":
                    payload, attempt = dict(event.payload), attempt + 1
                case "session_started":
                    text = read_prompt(paths.session(attempt), payload["prompt"], payload["digest"])
                    ahead, recorded = tuple(payload["ahead"]), tuple(payload["letters"])
                    mail = mail_in(text)
                    yield Session(life, attempt, payload["claimed"], ahead, recorded, mail)

    def failed_starts_with_mail(self, name: str) -> int:
        """Return how many sessions failed to start with mail in their prompt."""
        found, messages = 0, 0
        for event in (event for life in self.lives(name) for event in self.deployment.events(life)):
            if event.trigger == "prompt_ready":
                messages = len(event.payload["letters"])
            elif event.source == "spawning" and event.trigger == "session_error":
                found += bool(messages)
        return found

    def journal(self, name: str) -> list[dict[str, Any]]:
        """Return the lines that an agent's sessions wrote to its journal."""
        text = (self.folder / f"{name}.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]


def mail_in(prompt: str) -> tuple[str, ...]:
    """Return the ids of the new mail in a prompt, in order."""
    _, heading, new = prompt.rpartition("\n\n# Your mail (")
    return tuple(MESSAGE_HEAD.findall(new)) if heading else ()


def delivery_faults(soak: MailSoak, name: str) -> Iterator[str]:
    """Yield each fault in the order of the mail or in how many sessions were given it."""
    messages = soak.inbox(name)
    inbox = [message.id for message in messages]
    assert inbox == sorted(set(inbox), key=Mail.order)
    given = [mail for session in soak.sessions(name) for mail in session.mail]
    waiting = soak.waiting(name)
    if twice := [mail for mail, number in Counter(given).items() if number > 1]:
        yield f"{name}: given to two sessions: {twice}"
    if lost := set(inbox) - set(given) - set(waiting):
        yield f"{name}: given to no session: {sorted(lost)}"
    if wrong := [*(set(given) - set(inbox)), *(set(given) & set(waiting))]:
        yield f"{name}: given, but not in the inbox or still unread: {wrong}"
    # Only urgent mail may overtake other mail.
    for urgent in (True, False):
        kind = {message.id for message in messages if message.fields["urgent"] is urgent}
        order = [mail for mail in [*given, *waiting] if mail in kind]
        if order != sorted(order, key=Mail.order):
            yield f"{name}: not in order: {order}"


def session_faults(soak: MailSoak, name: str) -> Iterator[str]:
    """Yield each session whose record names other mail than its prompt has."""
    inbox, given = [message.id for message in soak.inbox(name)], set[str]()
    for session in soak.sessions(name):
        if session.recorded != session.mail:
            yield f"{session}: its record names other mail"
        given |= set(session.mail)
        claimed = Mail.order(session.claimed)
        known = {mail for mail in inbox if Mail.order(mail) <= claimed} | set(session.ahead)
        if known != given:
            yield f"{session}: record and prompts differ in {sorted(given ^ known)}"


def reading_faults(soak: MailSoak, name: str) -> Iterator[str]:
    """Yield each message that a process read twice or that its record does not have."""
    started = {(one.life, one.attempt): list(one.mail) for one in soak.sessions(name)}
    read = [line for line in soak.journal(name) if line["what"] == "start"]
    for line in read:
        attempt = line["life"], line["attempt"]
        if attempt not in started:
            yield f"{attempt} read {line['mail']} and never started"
        elif line["mail"] != started[attempt]:
            yield f"{attempt} read {line['mail']}, its record says {started[attempt]}"
    reads = Counter(mail for line in read for mail in line["mail"])
    if twice := [mail for mail, number in reads.items() if number > 1]:
        yield f"{name}: read twice: {twice}"


def overlap_faults(soak: MailSoak, name: str) -> Iterator[str]:
    """Yield each pair of sessions of one agent that ran at the same time."""
    seen: dict[tuple[str, int], list[float]] = {}
    for line in soak.journal(name):
        seen.setdefault((line["life"], line["attempt"]), []).append(line["at"])
    spans = [
        {"of": attempt, "started": min(times), "ended": max(times)}
        for attempt, times in seen.items()
    ]
    yield from (f"two sessions ran at once: {one} {other}" for one, other in overlaps(spans))


def post_faults(soak: MailSoak, writers: Iterable[Producer]) -> Iterator[str]:
    """Yield each accepted message that is not in its inbox, or not in its sender's order."""
    inboxes = {name: {one.id: one for one in soak.inbox(name)} for name in soak.names}
    for writer in writers:
        yield from writer.faults
        latest = dict.fromkeys(soak.names, (0, 0))
        for to, mail, text in writer.accepted:
            found = inboxes[to].get(mail)
            if found is None or found.fields["text"] != text:
                yield f"{to}: {mail} was accepted and is not in the inbox"
            if Mail.order(mail) <= latest[to]:
                yield f"{to}: {mail} was accepted after {latest[to]}"
            latest[to] = Mail.order(mail)
    texts = Counter(one.fields["text"] for mails in inboxes.values() for one in mails.values())
    yield from (f"sent {number} times: {text}" for text, number in texts.items() if number > 1)
    for life in (life for name in soak.names for life in soak.lives(name)):
        for note in soak.deployment.notes(life, "mail_sent"):
            if note.detail["mail"] not in inboxes[note.detail["to"]]:
                yield f"mail that {life} sent is not in the inbox: {note.detail}"


def summary(soak: MailSoak) -> str:
    """Return the numbers of mails, prompts, sessions and errors in one line."""
    mails = sum(len(soak.inbox(name)) for name in soak.names)
    sessions = [one for name in soak.names for one in soak.sessions(name)]
    events = [
        event.trigger
        for name in soak.names
        for life in soak.lives(name)
        for event in soak.deployment.events(life)
    ]
    read = sum(entry["what"] == "start" for name in soak.names for entry in soak.journal(name))
    line = (
        f"{mails} mails, {events.count('prompt_ready')} prompts, {len(sessions)} sessions started"
    )
    line += f", {read} read their prompt, {events.count('urgent_message')} interrupted"
    return f"{line}, {events.count('session_error')} errors"


def index_members(deployment: Deployment) -> list[str]:
    """Return every effect, timer and wait in the indexes that workers and sweeps poll."""
    keys = deployment.client.dispatch.keys
    indexes = (keys.effects, keys.timers, keys.waits)
    return [
        member.decode()
        for index, partition in itertools.product(indexes, range(PARTITIONS))
        for member in read(deployment.client.dispatch.client, "ZRANGE", index(partition), 0, -1)
    ]


def session_processes(soak: MailSoak) -> dict[int, str]:
    """Return the processes of this deployment that supervise a session or belong to one."""
    mine = marked("DEPLOYMENT_FOLDER", str(soak.deployment.folder))
    supervising = (SUPERVISOR, WATCHDOG)
    return {
        pid: words
        for pid, words in mine.items()
        if is_of_session(pid) or any(program in words for program in supervising)
    }


class Producer(threading.Thread):
    """Sends mail to random agents, some of it urgent, and repeats some calls."""

    def __init__(
        self,
        soak: MailSoak,
        seed: str,
        number: int,
        *,
        pause_s: float,
        burst: int,
        urgent: float = 0.03,
    ) -> None:
        super().__init__(name=seed)
        self.soak, self.number, self.random = soak, number, random.Random(seed)
        self.pause_s, self.burst, self.urgent = pause_s, burst, urgent
        self.accepted: list[tuple[str, str, str]] = []
        self.faults: list[str] = []
        self.refused = self.repeated = self.unanswered = 0
        self.finished = threading.Event()

    def run(self) -> None:
        try:
            for n in range(self.number):
                if self.finished.is_set():
                    return
                self._send(n)
                if n % self.burst == 0:
                    self.finished.wait(self.random.uniform(0, 2 * self.pause_s))
        except Exception as fault:
            self.faults.append(repr(fault))
            raise

    def _send(self, n: int) -> None:
        to = self.random.choice(self.soak.names)
        chance = self.random.random()
        other = self.random.choice([name for name in self.soak.names if name != to])
        step = (
            "relay"
            if chance < 0.1
            else "stubborn"
            if chance < 0.12
            else "crash"
            if chance < 0.15
            else ""
        )
        text = f"{self.name}-{n}\n{step}"
        if step == "relay":
            text += f" {other} {self.name}-{n}-again"
        fields: dict[str, Any] = {"urgent": self.random.random() < self.urgent}
        mail = self._sent(to, text, f"{self.name}-{n}", fields)
        if mail is None:
            self.refused += 1
            return
        self.accepted.append((to, mail, text))
        if self.random.random() < 0.2:
            self.repeated += 1
            again = self._sent(to, text, f"{self.name}-{n}", fields)
            if again not in (mail, None):
                self.faults.append(f"{text!r} is {mail} and {again}")

    def _sent(self, to: str, text: str, op_id: str, fields: dict[str, Any]) -> str | None:
        """Send until the store answers. Return None if there is no such agent."""
        while True:
            try:
                return self.soak.loops.send(to, text, sender="operator", op_id=op_id, **fields)
            except StoreError:
                self.unanswered += 1
                self.finished.wait(0.05)
            except CallError:
                return None


class Killer:
    """Kills the processes of agents at random with SIGKILL."""

    def __init__(self, soak: MailSoak, seed: str, kinds: Sequence[str], *, pause_s: float) -> None:
        self.soak, self.random, self.kinds = soak, random.Random(seed), kinds
        self.pause_s, self.done, self.pause = pause_s, Counter[str](), threading.Event()
        self.other_actions: dict[str, Callable[[], str]] = {}
        self.log: list[str] = []
        self.hidden: list[Path] = []

    def kill_while(self, condition: Callable[[], bool]) -> None:
        """Kill as long as the condition holds, then put every hidden command back."""
        while condition():
            self.pause.wait(self.random.uniform(0, 2 * self.pause_s))
            kind = self.random.choice(self.kinds)
            self._unhide_all()
            try:
                killed = (
                    self.other_actions[kind]() if kind in self.other_actions else self.kill(kind)
                )
            except StoreError as away:
                killed = repr(away)
            if killed:
                self.done[kind] += 1
                self.log.append(f"{kind} {killed}")
        self._unhide_all()
        sys.stdout.write(f"killed {dict(self.done)}\n")

    def kill(self, kind: str) -> str:
        """Kill one process of a kind and return which, or '' if there is none."""
        match kind:
            case "worker":
                return self._worker()
            case "launch":
                return self.hide(self.random.choice(self.soak.names))
        if not (found := self._found(kind)):
            return ""
        victims = self.random.choice(found)
        # Both are stopped first, so that neither can react to the end of the other.
        for number, pid in itertools.product((signal.SIGSTOP, signal.SIGKILL), victims):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return f"{victims}"

    def hide(self, name: str) -> str:
        """Hide an agent's command, so that its sessions fail to start until the next kill."""
        program = self.soak.program(name)
        program.rename(hidden(program))
        self.hidden.append(program)
        return program.name

    def _worker(self) -> str:
        deployment = self.soak.deployment
        workers = [one for one in deployment.processes if one.name.startswith("w") and one.alive]
        ready = [one for one in workers if " ready." in one.output]
        victim = self.random.choice(ready) if ready else None
        if victim is not None:
            victim.kill()
        # A worker that was started while the store was down has exited by itself.
        for _ in range(len(workers) - bool(victim), WORKERS):
            deployment.worker(concurrency=6, ready=False)
        return victim.name if victim else ""

    def _found(self, kind: str) -> list[tuple[int, ...]]:
        mine = marked("DEPLOYMENT_FOLDER", str(self.soak.deployment.folder))
        supervisors = {pid for pid, words in mine.items() if SUPERVISOR in words}
        watchdogs = {pid for pid, words in mine.items() if WATCHDOG in words}
        match kind:
            case "supervisor":
                return [(pid,) for pid in sorted(supervisors)]
            case "watchdog":
                return [(pid,) for pid in sorted(watchdogs)]
            case "both":
                pairs = [(parent_of(watchdog), watchdog) for watchdog in sorted(watchdogs)]
                return [pair for pair in pairs if pair[0] in supervisors]
            case _:
                return [(pid,) for pid in sorted(mine) if is_of_session(pid)]

    def _unhide_all(self) -> None:
        while self.hidden:
            program = self.hidden.pop()
            hidden(program).rename(program)


def hidden(program: Path) -> Path:
    """Return the path of a command while it is hidden."""
    return program.with_suffix(".hidden")


def is_of_session(pid: int) -> bool:
    """Return whether a process belongs to a session."""
    with suppress(OSError):
        return f"{LABEL_VARIABLE}=".encode() in (PROC / str(pid) / "environ").read_bytes()
    return False
