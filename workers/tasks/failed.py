"""Failed tasks that nobody tries again: lists them with what each try said, and replays them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any
from uuid import uuid4

from interlock.kernel.errors import CallError, ConflictError, FencedError, HeldError
from interlock.kernel.event import Cause, Event
from interlock.kernel.published_event import LifecycleEvents
from interlock.kernel.record import PARTITIONS, Record, partition_of, record_id, root_of
from interlock.kernel.store.commands import Call, Warrant
from interlock.kernel.store.views import StateKey
from interlock.workers.client import Client
from interlock.workers.tasks.workplace import AT_WORK

LISTED_MAX = 10_000
# What a try is at when it comes to grief; a failure from anywhere else ends it as well.
GRIEF = frozenset({"open", "orphaned"})


@dataclass(frozen=True, slots=True)
class Try:
    """How one try came to grief. `number` is its claim's, 0 where nobody had claimed it."""

    number: int
    timestamp: float
    trigger: str
    to_status: str
    actor: str
    reason: str
    code: str
    transition_reason: str | None
    abort_reason: str | None
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A task that only a person lets try again. `since` is in Unix seconds."""

    id: str
    title: str
    since: float
    reason: str
    code: str
    transition_reason: str | None
    abort_reason: str | None
    paths: tuple[str, ...]
    retries: int
    max_retries: int
    crashes: int
    tries: tuple[Try, ...]
    replay: str

    def as_data(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of one task that was to be replayed, and why."""

    id: str
    replayed: bool
    reason: str


class DeadLetters:
    """The dead letters of a store, over a client. Who acts is the client's actor."""

    def __init__(self, client: Client) -> None:
        self.client, self.views = client, client.dispatch.views
        self.events = LifecycleEvents(client.dispatch.machines)

    def letters(self, backlog: str | None = None) -> list[DeadLetter]:
        """Return the dead letters of a backlog, or of all, the oldest first."""
        return [self._letter(record) for record in self._records(backlog)]

    def replay(self, tasks: Iterable[str], *, reason: str = "") -> list[Replayed]:
        """Let tasks try again, as a person does; one that cannot be is said to be, with why."""
        return [self._replayed(task, reason) for task in tasks]

    def replay_all(self, backlog: str, *, reason: str = "") -> list[Replayed]:
        """Let every dead letter of a backlog try again, once, though it may fail meanwhile."""
        return self.replay([record.id for record in self._records(backlog)], reason=reason)

    def _records(self, backlog: str | None) -> list[Record]:
        wanted = record_id(backlog) if backlog else None
        partitions = (partition_of(wanted),) if wanted else range(PARTITIONS)
        found = [record for one in partitions for record in self._given_up(one, wanted)]
        return sorted(found, key=lambda record: record.since_ms)[:LISTED_MAX]

    def _given_up(self, partition: int, backlog: str | None) -> Iterator[Record]:
        listed = 0
        for standing in self.views.list_in_state_since(StateKey("task", "failed", partition)):
            if backlog and root_of(standing.id) != backlog:
                continue
            try:
                record = self.client.show(standing.id)
            except CallError:
                continue
            if _is_dead(record):
                yield record
                listed += 1
            if listed == LISTED_MAX:
                return

    def _letter(self, record: Record) -> DeadLetter:
        data = record.data
        failure = data.get("failure") or {}
        tries = tuple(self._tries(record))
        # Of what sets no words on the record, the log has some.
        last = tries[-1] if tries else None
        return DeadLetter(
            id=record.id,
            title=data["title"],
            since=record.since_ms / 1_000,
            reason=failure.get("reason") or (last.reason if last else ""),
            code=failure.get("code", ""),
            transition_reason=last.transition_reason if last else failure.get("why"),
            abort_reason=failure.get("abort"),
            paths=tuple(failure.get("paths", ())),
            retries=data["retries"],
            max_retries=data["max_retries"],
            crashes=data["crashes"],
            tries=tries,
            replay=f"interlock task replay {record.id}",
        )

    def _tries(self, record: Record) -> Iterator[Try]:
        number = 0
        for line in self.views.log(record.id):
            if not isinstance(line, Event):
                continue
            if line.trigger == "claimed":
                number += 1
            if line.target == "failed" or (line.source in AT_WORK and line.target in GRIEF):
                yield self._try(number, line)

    def _try(self, number: int, event: Event) -> Try:
        told, payload = self.events.published(event, "task"), event.payload
        return Try(
            number=number,
            timestamp=told.timestamp,
            trigger=told.trigger,
            to_status=told.to_status,
            actor=told.actor,
            reason=told.reason,
            code=str(payload.get("code", "")),
            transition_reason=told.transition_reason,
            abort_reason=told.abort_reason,
            paths=tuple(payload.get("paths", ())),
        )

    def _replayed(self, task: str, reason: str) -> Replayed:
        try:
            record = self.client.show(task)
            if not _is_dead(record):
                return Replayed(task, replayed=False, reason=_why_not(record))
            # Only what was seen here: it may have been tried and have failed anew meanwhile.
            warrant = Warrant.person(record.entered)
            call = Call(Cause(self.client.actor, reason), uuid4().hex, warrant)
            self.client.dispatch.fire(task, "retried", {"reason": reason}, call)
        except (CallError, ConflictError, FencedError, HeldError) as refusal:
            return Replayed(task, replayed=False, reason=str(refusal))
        return Replayed(task, replayed=True, reason="it is open again")


def _is_dead(record: Record) -> bool:
    failed = record.machine == "task" and record.state == "failed"
    return failed and bool(record.data.get("given_up"))


def _why_not(record: Record) -> str:
    if record.machine != "task":
        return f"it is no task, but a record of {record.machine}"
    if record.state == "failed":
        return "it is tried again by itself; `interlock task retry` does not wait for that"
    return f"it is {record.state}, not failed"
