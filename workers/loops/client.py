"""What people and programs tell long-lived agents, a method for each verb; it decides nothing."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from interlock.kernel.errors import CallError, HeldError, IdTakenError
from interlock.kernel.machines.loops.loop.names import State, Trigger
from interlock.kernel.record import PARTITIONS, Record
from interlock.workers.client import Client
from interlock.workers.engine.polling import Intervals, polls
from interlock.workers.gateways.git.errors import Refusal, RefusedError
from interlock.workers.gateways.git.repository import Repository
from interlock.workers.loops.mailbox import Mailbox, UnknownAgentError
from interlock.workers.loops.paths import Home, is_name, name_of
from interlock.workers.loops.prompt import PromptLostError, read_prompt

PAGE = 500
LIVES_MAX = 1_000
OUTPUT = "output.log"
READ_BYTES_MAX = 65_536
IN_USE = "an agent {!r} is at work; stop it first, or choose another name"


class AgentNameError(CallError):
    """No agent can be started under this name. The message says why."""


class Printed:
    """What one session prints, read on from where it was read to."""

    def __init__(self, file: Path, at: int = 0) -> None:
        self.file, self.at = file, at
        self.decoder = getincrementaldecoder("utf-8")("replace")

    def read(self) -> str:
        """Return what came since; '' where nothing did. No character is cut in two."""
        while True:
            try:
                with self.file.open("rb") as source:
                    source.seek(self.at)
                    found = source.read(READ_BYTES_MAX)
            except FileNotFoundError:
                return ""
            self.at += len(found)
            text = self.decoder.decode(found)
            if text or not found:
                return text


class Loops:
    """The verbs of long-lived agents, over a client. Agents are known by their names."""

    def __init__(self, client: Client) -> None:
        self.client, self.dispatch = client, client.dispatch
        self.mailbox = Mailbox(self.dispatch)

    # --- to begin and to end ------------------------------------------------------------------

    def start(self, name: str, *, repo: Path, command: str, **options: Any) -> Record:
        """Start an agent in a worktree of a repository of this machine.

        `options` are the fields of `Birth` in kernel/machines/loops/loop/payloads.py. A name that
        was stopped begins a new life, on the same branch and with the mail that was left. Raises
        AgentNameError, RefusedError for the repository, InvalidPayloadError.
        """
        if not is_name(name):
            raise AgentNameError(
                f"{name!r} is no agent's name: a lower-case letter, then letters, digits and -, "
                "63 at most"
            )
        repository = Repository.open(repo.absolute())
        base = _begun(repository)
        given = {
            "repo": str(repository.root),
            "command": command,
            "host": self.client.settings.host,
            "base": base,
            **options,
        }
        number = max(map(_life, self.mailbox.lives(name)), default=0)
        for following in range(number + 1, number + LIVES_MAX):
            try:
                born = self.client.submit(given, id=f"{name}/{following}", machine="loop")
            except IdTakenError:
                continue  # another's, of this moment or forgotten
            except HeldError as refusal:
                raise AgentNameError(IN_USE.format(name)) from refusal
            record = self.dispatch.views.records([born.id]).get(born.id)
            if record is not None and born.replayed:
                raise AgentNameError(IN_USE.format(name))
            if record is not None:
                return record  # else it was the same, and is forgotten
        raise AgentNameError(f"{name!r} has had {LIVES_MAX} lives; choose another name")

    def stop(self, name: str, *, reason: str = "", wait_s: float = 0) -> Record:
        """Stop an agent; return it when nothing of it is left, or when the time is up.

        To stop it again changes nothing.
        """
        of = self.latest(name)
        self.client.fire(of, Trigger.OPERATOR_STOP, {"reason": reason}, reason=reason)
        return self._gone(of, wait_s)

    def fail(self, name: str, detail: str, *, wait_s: float = 0) -> Record:
        """Stop an agent because of what cannot be mended by trying again."""
        of = self.latest(name)
        self.client.fire(of, Trigger.FATAL_ERROR, {"detail": detail}, reason=detail)
        return self._gone(of, wait_s)

    def send(self, to: str, text: str, *, sender: str, **about: Any) -> str:
        """Send a message, and return its id; see Mailbox.send."""
        return self.mailbox.send(to, text, sender=sender, **about)

    # --- to be seen ---------------------------------------------------------------------------

    def list(self) -> list[dict[str, Any]]:
        """Return the latest life of every agent, by name."""
        machine = self.dispatch.lifecycle.machine("loop")
        found: dict[str, str] = {}
        for partition in range(PARTITIONS):
            for stage in machine.stages:
                for one in self.dispatch.views.scan_state(
                    machine, str(stage.state), partition, PAGE
                ):
                    known = found.get(name_of(one))
                    if known is None or _life(one) > _life(known):
                        found[name_of(one)] = one
        records = self.dispatch.views.records(found.values())
        return [self._row(records[of]) for _, of in sorted(found.items()) if of in records]

    def show(self, name: str) -> dict[str, Any]:
        """Return an agent whole: where it stands, its session, errors, mail, what is due."""
        record = self.client.show(self.latest(name))
        data = record.data
        shown = ("repo", "command", "branch", "worktree", "host", "next", "last", "stopped")
        return {
            **self._row(record),
            **{word: data[word] for word in shown if data.get(word)},
            "attempt": data["attempt"],
            "session_seq": data["session_seq"],
            "pid": data.get("pid") if record.state in ("running", "interrupting") else None,
            "prompt": self._prompt(record),
            "mail": self.mailbox.listed(name, 20),
            "due": {timer.name: timer.due_at for timer in record.timers},
        }

    def logs(self, name: str) -> tuple[Record, Path]:
        """Return an agent and the file of what its last session printed.

        Raises UnknownAgentError where that is on another machine.
        """
        record = self.client.show(self.latest(name))
        host, here = record.data.get("host"), self.client.settings.host
        if host and host != here:
            raise UnknownAgentError(f"{name} lives on {host}, and so does what it printed")
        home = Home(record.id, self.client.settings)
        return record, home.session(int(record.data["attempt"])) / OUTPUT

    def tail(self, name: str) -> Iterator[str]:
        """Yield what an agent's sessions print from now on, until it has stopped."""
        record, file = self.logs(name)
        printed, pace = Printed(file, file.stat().st_size if file.exists() else 0), Intervals()
        while True:
            if text := printed.read():
                pace.news()
                yield text
                continue
            if record.state == "stopped" and not record.entries:
                return
            pace.rest()
            before, record = record, self.logs(name)[0]
            for following in self._printed_since(before, record):
                # The last words of who ended meanwhile.
                yield from iter(printed.read, "")
                printed = following

    # --- inside -------------------------------------------------------------------------------

    def latest(self, name: str) -> str:
        """Return the record of the latest life of a name. Raises UnknownAgentError."""
        try:
            return self.mailbox.living(name)
        except UnknownAgentError:
            lives = self.mailbox.lives(name) if is_name(name) else []
            if not lives:
                raise
            return lives[-1]

    def _printed_since(self, before: Record, record: Record) -> Iterator[Printed]:
        """Yield what each session prints that was prepared since a look before."""
        known = int(before.data["attempt"]) if before.id == record.id else 0
        home = Home(record.id, self.client.settings)
        for attempt in range(known + 1, int(record.data["attempt"]) + 1):
            yield Printed(home.session(attempt) / OUTPUT)

    def _prompt(self, record: Record) -> str:
        """Return the prompt that was stored last; '' where it is on another machine, or gone."""
        data, home = record.data, Home(record.id, self.client.settings)
        if data.get("host") != self.client.settings.host or "prompt" not in data:
            return ""
        folder = home.session(int(data["attempt"]))
        with suppress(PromptLostError):
            return read_prompt(folder, str(data["prompt"]), str(data["digest"]))
        return ""

    def _gone(self, of: str, wait_s: float) -> Record:
        for _ in polls(wait_s):
            record = self.client.show(of)
            if not record.entries:
                break
        return record

    def _row(self, record: Record) -> dict[str, Any]:
        data = record.data
        urgent = [bool(one.said["urgent"]) for one in self.mailbox.unread(record)]
        return {
            "name": name_of(record.id),
            "id": record.id,
            "state": record.state,
            "since_ms": record.since_ms,
            "session": data["session_seq"],
            "errors": data["consecutive_errors"],
            "errors_in_all": data["total_errors"],
            "mail_waiting": len(urgent),
            "urgent_waiting": sum(urgent),
            "host": data.get("host", ""),
            "why": _why(record),
        }


def _why(record: Record) -> str:
    """Return why an agent has stopped or cools down, in words; '' elsewhere."""
    match record.state:
        case State.STOPPED:
            return str(record.data["stopped"]["reason"])
        case State.COOLING_DOWN:
            last = record.data["last"]
            return str(last.get("detail") or last["outcome"])
    return ""


def _begun(repository: Repository) -> str:
    """Return the commit that a repository stands at. Raises RefusedError where there is none."""
    command = ("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    found = repository.git.run(*command, allowed=(0, 1))
    if found.exit_code:
        problem = f"{repository.root} has no commit yet"
        raise RefusedError(Refusal.NO_COMMIT, problem, "commit something first")
    return found.line()


def _life(of: str) -> int:
    return int(of.rpartition("/")[2])
