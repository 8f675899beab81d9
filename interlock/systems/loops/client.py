"""The client of long-lived agents: start, stop, send, list, show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from interlock import CallError, Client
from interlock.git.branch import commit_of, head_commit
from interlock.git.repository import Repository
from interlock.system.errors import HeldError, IdTakenError, InvalidPayloadError
from interlock.system.records import polls
from interlock.systems.loops.machines.loop.data import Life
from interlock.systems.loops.machines.loop.names import State, Trigger
from interlock.systems.loops.mailbox import Mailbox, UnknownAgentError, UnreadCount
from interlock.systems.loops.paths import AgentPaths, is_name, name_of, session_below_home
from interlock.systems.loops.session_prompt import PromptLostError, read_prompt

LIVES_MAX = 1_000  # that one agent may have had
IN_USE = "an agent {!r} is at work; stop it first, or choose another name"


class AgentNameError(CallError):
    """No agent can be started under this name. The message says why."""


class Loops:
    """The operations on long-lived agents, which are known by their names."""

    def __init__(self, client: Client) -> None:
        self.client, self.records = client, client.records
        self.mailbox = Mailbox(self.records)

    def start(self, name: str, *, repo: Path, command: str, **options: Any) -> Life:
        """Start an agent in a worktree of a repository on this computer.

        `options` are the fields of `NewLoop` in interlock/systems/loops/machines/loop/payloads.py.
        A name whose agent has stopped begins a new life, on the same branch and with the mail that
        is left.
        Raises AgentNameError, RefusedError for the repository, InvalidPayloadError.
        """
        payload = self.check(name, {"repo": str(repo.absolute()), "command": command, **options})
        latest = max(map(_life_number, self.mailbox.lives(name)), default=0)
        for number in range(latest + 1, latest + LIVES_MAX):
            try:
                submitted = self.client.submit(payload, id=f"{name}/{number}", machine="loop")
            except IdTakenError:
                continue  # this life was started with another payload, just now or long ago
            except HeldError as refusal:
                raise AgentNameError(IN_USE.format(name)) from refusal
            record = self.records.views.records([submitted.id]).get(submitted.id)
            if record is not None and submitted.replayed:
                raise AgentNameError(IN_USE.format(name))
            if record is not None:
                return record  # otherwise a life with the same payload was pruned: try the next
        raise AgentNameError(f"{name!r} has had {LIVES_MAX} lives; choose another name")

    def check(self, name: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return the payload that an agent is started with; write nothing. Raises as `start` does.

        Without a `host` the agent works on this computer; with an empty one on any. The repository
        is checked here unless the payload names another computer.
        """
        if not is_name(name):
            raise AgentNameError(
                f"{name!r} is no agent's name: a lower-case letter, then letters, digits and -, "
                "63 at most"
            )
        local = self.client.settings.host
        fields = {"host": local, **payload}
        self.records.check_new("loop", fields)
        repo = Path(fields["repo"])
        if not repo.is_absolute():
            raise InvalidPayloadError("the agent", [f"repo: {str(repo)!r} is no absolute path"])
        if fields["host"] not in ("", local):
            return fields
        repository = Repository.open(repo)
        if base := fields.get("base"):
            commit_of(repository, base)
        else:
            head_commit(repository)
        return {**fields, "repo": str(repository.root)}

    def stop(self, name: str, *, reason: str = "", wait_s: float = 0) -> Life:
        """Stop an agent, and wait up to `wait_s` until its process and its worktree are gone.

        Stopping it again changes nothing.
        """
        life = self.latest_life(name)
        self.client.fire(life, Trigger.OPERATOR_STOP, {"reason": reason}, reason=reason)
        return self._wait_for_cleanup(life, wait_s)

    def fail(self, name: str, detail: str, *, wait_s: float = 0) -> Life:
        """Stop an agent because of an error that another attempt cannot repair."""
        life = self.latest_life(name)
        self.client.fire(life, Trigger.FATAL_ERROR, {"detail": detail}, reason=detail)
        return self._wait_for_cleanup(life, wait_s)

    def send(self, to: str, text: str, *, sender: str, **fields: Any) -> str:
        """Send a message and return its id. See Mailbox.send."""
        return self.mailbox.send(to, text, sender=sender, **fields)

    def list(self) -> list[dict[str, Any]]:
        """Return the latest life of every agent, by name; one that is damaged is left out."""
        machine = self.records.machine("loop")
        latest: dict[str, str] = {}
        for life in self.records.views.ids(machine):
            known = latest.get(name_of(life))
            if known is None or _life_number(life) > _life_number(known):
                latest[name_of(life)] = life
        lives = (life for _, life in sorted(latest.items()))
        records = self.records.views.records(lives, readable_by=self.records.machines).values()
        unread = self.mailbox.count_unread(records)
        return [_row(record, unread[record.id]) for record in records]

    def show(self, name: str) -> dict[str, Any]:
        """Return an agent's state, session, errors and mail, and its timers in `due`.

        Raises UnknownAgentError, UnreadableRecordError.
        """
        found = self.mailbox.life_records(name)
        lives = found or [self.client.show(self.mailbox.current_life(name))]
        with self.records.reading(lives[-1].id):
            return self._shown(name, lives)

    def _shown(self, name: str, lives: Sequence[Life]) -> dict[str, Any]:
        record = lives[-1]
        data = record.data
        given: Mapping[str, object] = data
        shown = ("repo", "command", "branch", "worktree", "host", "next", "last", "stopped")
        return {
            **_row(record, self.mailbox.count_unread([record])[record.id]),
            **{field: value for field in shown if (value := given.get(field))},
            "attempt": data["attempt"],
            "session_seq": data["session_seq"],
            "pid": data.get("pid") if record.state in (State.RUNNING, State.INTERRUPTING) else None,
            "prompt": self._prompt(record),
            "mail": self.mailbox.newest_of(name, lives, 20),
            "due": {timer.name: timer.due_at for timer in record.timers},
        }

    def latest_life(self, name: str) -> str:
        """Return the record of the latest life of a name. Raises UnknownAgentError."""
        try:
            return self.mailbox.current_life(name)
        except UnknownAgentError:
            lives = self.mailbox.lives(name)
            if not lives:
                raise
            return lives[-1]

    def _prompt(self, record: Life) -> str:
        """Return the prompt that was stored last, or '' if this computer does not have it."""
        data, paths = record.data, AgentPaths(record.id, self.client.settings)
        if data.get("host") != self.client.settings.host or "prompt" not in data:
            return ""
        with suppress(PromptLostError):
            return read_prompt(paths.session(data["attempt"]), data["prompt"], data["digest"])
        return ""

    def _wait_for_cleanup(self, life: str, wait_s: float) -> Life:
        for _ in polls(wait_s):
            record = self.client.show(life)
            if not record.entries:
                break
        return record


def _row(record: Life, unread: UnreadCount) -> dict[str, Any]:
    data = record.data
    return {
        "name": name_of(record.id),
        "id": record.id,
        "state": record.state,
        "since_ms": record.since_ms,
        "session": data["session_seq"],
        "errors": data["consecutive_errors"],
        "errors_in_all": data["total_errors"],
        "mail_waiting": unread.number,
        "urgent_waiting": unread.urgent,
        "mail_is_minimum": unread.is_minimum,
        "host": data.get("host", ""),
        "why": _why(record),
    }


def _why(record: Life) -> str:
    """Return why an agent has stopped or cools down, or '' in every other state."""
    match record.state:
        case State.STOPPED:
            return record.data["stopped"]["reason"]
        case State.COOLING_DOWN:
            last = record.data["last"]
            return last.get("detail") or last["outcome"]
    return ""


def output_place(_: Client, record: Life, run: int | None) -> tuple[str, Path, int] | None:
    """Return where the output of a session of a life is, by default of the last one.

    `run` is an attempt to run a session. None before there is one.
    """
    number = run or record.data["attempt"]
    # A life that waits for another computer still has its files on the one before.
    host = record.data.get("host") or record.data.get("former")
    if not (number and host):
        return None
    return host, session_below_home(record.id, number), number


def _life_number(life: str) -> int:
    return int(life.rpartition("/")[2])
