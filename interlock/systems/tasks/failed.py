"""Lists failed tasks that are not tried again, with the reason of each try, and replays them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from heapq import nsmallest
from itertools import islice
from typing import Any

from interlock import CallError, Client, ConflictError, Event, Note
from interlock.system.errors import AnotherVersionError, FencedError, HeldError
from interlock.system.records import Records
from interlock.system.tables import Record
from interlock.systems.tasks.claim_names import CLAIM_STATES
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import State, Trigger

LISTED_MAX = 10_000  # failed tasks of one answer
PAGE = 100  # failed tasks that are read at one time
LINES_READ = 500  # of each log, in one round trip
# A transition from a claim to one of these states ends the try; so does every one to `failed`.
FAILURE_TARGETS = frozenset({State.OPEN, State.ORPHANED})


@dataclass(frozen=True, slots=True)
class FailedTry:
    """How one try failed. `number` is that of its claim; 0 means that the task was not claimed."""

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
class FailedTask:
    """A failed task that is tried again only if a person replays it. `since` is in Unix seconds."""

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
    tries: tuple[FailedTry, ...]
    replay: str

    def as_data(self) -> dict[str, Any]:
        """Return the fields as they are written as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Whether one task was replayed, and why."""

    id: str
    replayed: bool
    reason: str


class FailedTasks:
    """The failed tasks of a store, over a client. The client's actor is recorded for a replay."""

    def __init__(self, client: Client) -> None:
        self.client, self.views = client, client.records.views
        self.records = client.records

    def find(self, backlog: str | None = None, *, limit: int = LISTED_MAX) -> list[FailedTask]:
        """Return the first failed tasks of one backlog, or of all, the oldest failure first."""
        records, found = iter(self._records(backlog, limit)), list[FailedTask]()
        while page := list(islice(records, PAGE)):
            logs = self._logs(page)
            found += [self._failed_task(record, logs[record.id]) for record in page]
        return found

    def replay(self, tasks: Iterable[str], *, reason: str = "") -> list[ReplayResult]:
        """Open failed tasks again, as a person does; a task that cannot be opened says why."""
        return [self._replay(task, reason) for task in tasks]

    def replay_all(self, backlog: str, *, reason: str = "") -> list[ReplayResult]:
        """Open every failed task of a backlog again. A task that fails meanwhile counts once."""
        return self.replay([record.id for record in self._records(backlog)], reason=reason)

    def _records(self, backlog: str | None, limit: int = LISTED_MAX) -> list[Record[TaskData]]:
        machines = self.client.records.machines
        if backlog:
            ids = self.views.ids(machines["task"], root=backlog, states=[State.FAILED])
            records = self.views.each_record(ids, readable_by=machines)
            given_up = filter(_is_given_up, records)
            return nsmallest(limit, given_up, key=lambda record: record.since_ms)
        records = self.views.each_record(self._failed(), readable_by=machines)
        return list(islice(filter(_is_given_up, records), limit))

    def _failed(self) -> Iterator[str]:
        """Yield the ids of all failed tasks, the longest in that state first."""
        cursor, is_last = "", False
        while not is_last:
            page = self.client.page(
                machine="task", state=State.FAILED, limit=PAGE, cursor=cursor, newest=False
            )
            yield from page.ids
            cursor, is_last = page.cursor, not page.cursor

    def _logs(self, records: Iterable[Record[TaskData]]) -> dict[str, list[Event | Note]]:
        """Return the logs of tasks, each up to a damaged line; a page of all in one round trip."""
        logs: dict[str, list[Event | Note]] = {str(record.id): [] for record in records}
        positions = dict.fromkeys(logs, "")
        while positions:
            pages = self.views.lines_after(positions.items(), LINES_READ)
            positions = {}
            for (task, _), page in pages.items():
                logs[task] += [line for _, line in page or ()]
                if page and len(page) == LINES_READ:
                    positions[task] = page[-1][0]
        return logs

    def _failed_task(self, record: Record[TaskData], lines: Iterable[Event | Note]) -> FailedTask:
        data = record.data
        failure = data.get("failure") or {}
        tries = tuple(self._tries(lines))
        # Some triggers leave no reason on the record; the log has it.
        last = tries[-1] if tries else None
        return FailedTask(
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

    def _tries(self, lines: Iterable[Event | Note]) -> Iterator[FailedTry]:
        number = 0
        for event in lines:
            if not isinstance(event, Event):
                continue
            if event.trigger == Trigger.CLAIMED:
                number += 1
            left_claim = event.source in CLAIM_STATES and event.target in FAILURE_TARGETS
            if event.target == State.FAILED or left_claim:
                yield _failed_try(self.records, number, event)

    def _replay(self, task: str, reason: str) -> ReplayResult:
        try:
            record = self.client.show(task)
            if not _is_given_up(record):
                return ReplayResult(task, replayed=False, reason=_why_not(record))
            # The version is of the failure seen here: a failure that came later is not replayed.
            self.client.records.fire(
                task, Trigger.RETRIED, {"reason": reason}, reason=reason, version=record.entered
            )
        except (AnotherVersionError, CallError, ConflictError, FencedError, HeldError) as refusal:
            return ReplayResult(task, replayed=False, reason=str(refusal))
        return ReplayResult(task, replayed=True, reason="it is open again")


def _is_given_up(record: Record[TaskData]) -> bool:
    failed = record.machine == "task" and record.state == State.FAILED
    return failed and bool(record.data.get("given_up"))


def _why_not(record: Record[TaskData]) -> str:
    if record.machine != "task":
        return f"it is of the machine {record.machine}, not a task"
    if record.state == State.FAILED:
        return "it will be tried again by itself; `interlock task retry` tries it now"
    return f"it is {record.state}, not failed"


def _failed_try(records: Records, number: int, event: Event) -> FailedTry:
    published, payload = records.published(event, "task"), event.payload
    return FailedTry(
        number=number,
        timestamp=published.timestamp,
        trigger=published.trigger,
        to_status=published.to_status,
        actor=published.actor,
        reason=published.reason,
        code=str(payload.get("code", "")),
        transition_reason=published.transition_reason,
        abort_reason=published.abort_reason,
        paths=tuple(payload.get("paths", ())),
    )
