"""Says why tasks wait, are unclaimed, starved or failed, or changed nothing. Reads much at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

from interlock import Event, Note
from interlock.system.records import Records
from interlock.system.tables import Record, RecordContent
from interlock.system.tables import RecordData as Data
from interlock.system.text import one_line
from interlock.systems.tasks.agent_slots import SLOT_AWAITED, SLOT_AWAITED_MS
from interlock.systems.tasks.identities import identity_id
from interlock.systems.tasks.machines.identity.table import State as IdentityState
from interlock.systems.tasks.machines.task import choice
from interlock.systems.tasks.machines.task.changes import (
    awaited,
    changed_nothing,
    is_verified,
    merge_target,
    unmet,
)
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import State

CHAIN_MAX = 1_000
FRONT = 5  # so many tasks at the front of a queue are asked whether they wait for a slot
LINES_READ = 10  # of the end of a task's log


class Starvation:
    """Says of some tasks which of them no agent will ever claim, and why.

    A record that a reason depends on is read once. The records on which the reasons of these tasks
    depend are read in one round trip; a chain of dependencies that leaves these tasks takes one
    more for each task of the chain.
    """

    def __init__(self, records: Records, tasks: Sequence[RecordContent[TaskData]]) -> None:
        self.records = records
        # Every record that was asked for, by its id; None for one that does not exist.
        self._read: dict[str, RecordContent | None] = {str(task.id): task for task in tasks}
        waiting = [task for task in tasks if task.state in (State.OPEN, State.PLANNED)]
        self._records([one for task in waiting for one in (*_others(task), *_identities(task))])

    def why_starved(self, task: RecordContent[TaskData]) -> str:
        """Return why a task that no agent has yet will never be claimed, or '' if it may be."""
        for name in awaited(task.data):
            if why := self.why_never_done(task, name):
                return f"it depends on {why}"
        (identity,) = self._records(_identities(task)).values() or (None,)
        retired = identity is not None and identity.state == IdentityState.RETIRED
        if task.data.get("agent"):
            name = task.data["agent_name"]
            return f"its agent {name} was taken out of service by a person" if retired else ""
        if not task.data.get("kept_for") or (identity and not retired):
            return ""
        never = f"has never claimed a task of the role {task.data['role']} in this backlog"
        why = "was taken out of service by a person" if retired else never
        return f"{why_kept(task)}: that agent {why}"

    def unmet(self, task: RecordContent[TaskData]) -> tuple[str, ...]:
        """Return the names of the tasks that an open task waits for."""
        others = self._records(_others(task))
        facts = {one: {"state": other.state} for one, other in others.items() if other}
        return unmet(task.data, facts)

    def why_never_done(self, waiting: RecordContent[TaskData], name: str) -> str:
        """Return why the task `name`, which another task waits for, will never be done, or ''.

        The answer begins with the name of the task that is the cause.
        """
        root, seen, next_name = waiting.root, {str(waiting.id)}, name
        while True:
            record_id = f"{root}/{next_name}"
            if record_id in seen:
                return f"{name}, which waits for it in turn"
            seen.add(record_id)
            other = self._record(record_id)
            if other is None:
                return f"{next_name}, which does not exist"
            if _is_lost(other):
                return f"{next_name}, which is {other.state} and is not tried again"
            onward = self._waits_for(other)
            if onward is None or len(seen) > CHAIN_MAX:
                return ""
            next_name = onward

    def _waits_for(self, task: RecordContent[TaskData]) -> str | None:
        """Return the name of a task that a task waits for, or None.

        It is one that will never be done if there is such a one, or else the first.
        """
        blocked_on = task.data.get("blocked_on", {})
        if task.state == State.BLOCKED:
            return str(blocked_on["on"]) if blocked_on.get("kind") == "task" else None
        if task.state not in (State.OPEN, State.PLANNED):
            return None
        others = dict(zip(awaited(task.data), self._records(_others(task)).values(), strict=True))
        unmet_names = [
            name
            for name, states in awaited(task.data).items()
            if (other := others[name]) is None or other.state not in states
        ]
        lost = (name for name in unmet_names if (one := others[name]) is None or _is_lost(one))
        return next(lost, next(iter(unmet_names), None))

    def _record(self, record_id: str) -> RecordContent | None:
        return self._records([record_id])[record_id]

    def _records(self, record_ids: Iterable[str]) -> dict[str, RecordContent | None]:
        """Return records, None for one that does not exist; read in one round trip what is new."""
        asked = [*record_ids]
        if new := [one for one in asked if one not in self._read]:
            found = self.records.views.contents(new, readable_by=self.records.machines)
            self._read |= dict.fromkeys(new) | found
        return {one: self._read[one] for one in asked}


class Waits(Starvation):
    """The reasons why some tasks wait or have failed, each in one line.

    The failures on which the reasons depend are read in one round trip more.
    """

    def __init__(self, records: Records, tasks: Sequence[Record[TaskData]]) -> None:
        super().__init__(records, tasks)
        self._tasks, self._holds = tasks, records.holds()

    @cached_property
    def _failures(self) -> dict[str, dict[str, str]]:
        """Why effects of the tasks failed last."""
        return self.records.views.last_failures(self._tasks)

    def why(self, task: Record[TaskData]) -> str:
        """Return in one line why one of the tasks waits, failed or ended without a change, or ''.

        `interlock show` prints the whole reason.
        """
        blocked_on = task.data.get("blocked_on", {})
        if task.state == State.BLOCKED and blocked_on:
            return f"it waits for {blocked_on['on']}"
        if task.state == State.OPEN:
            return self.why_starved(task) or self._why_not_yet(task)
        if merge_waits(task) and (
            held := self._holds.in_the_way(task.id, [merge_target(task.data)])
        ):
            return one_line(self._holds.sentence(held))
        if task.state == State.PLANNED:
            return self.why_starved(task)
        if task.state == State.CLOSED and changed_nothing(task.data):
            return "its agent changed nothing"
        reason = str((task.data.get("failure") or {}).get("reason", ""))
        if not reason:
            # Such as of a merge that waits until the user has committed.
            reason = next(iter(self._failures[task.id].values()), "")
        return one_line(reason)

    def _why_not_yet(self, task: Record[TaskData]) -> str:
        """Return what an open task waits for: other tasks, an agent, files, a slot, or ''."""
        if names := self.unmet(task):
            return f"it waits for {', '.join(names)}"
        held = self._holds.in_the_way(task.id, task.data["owned_files"])
        if why := why_kept(task) or (one_line(self._holds.sentence(held)) if held else ""):
            return why
        return self._slots_taken.get(_queue(task), "")

    @cached_property
    def _slots_taken(self) -> dict[tuple[str, str], str]:
        """Why no agent is started for the first task of a queue, and so for those behind it."""
        views, now_ms = self.records.views, self.records.now_ms()
        tasks = [
            task for task in self._tasks if task.state == State.OPEN and task.data.get("agent")
        ]
        front = {queue: views.queue(*queue, 0, FRONT) for queue in {_queue(task) for task in tasks}}
        queue_of = {str(task.id): _queue(task) for task in tasks}
        queue_of |= {str(one): queue for queue, found in front.items() for one in found}
        return {
            queue_of[record_id]: f"it waits for a free slot: all {note.detail['slots']} agents of "
            f"{note.detail['host']} are busy (INTERLOCK_AGENTS_MAX)"
            for record_id, lines in views.latest(queue_of, LINES_READ).items()
            if (note := _slot_note(lines, now_ms=now_ms))
        }


def _queue(task: RecordContent[TaskData]) -> tuple[str, str]:
    """Return the queue in which an open task waits: its backlog and its role."""
    return task.root, str(task.data["role"])


def _slot_note(lines: Sequence[Event | Note], *, now_ms: int) -> Note | None:
    """Return the note that a task waits for a slot, if it was made since the task was opened."""
    for line in lines:
        if isinstance(line, Event):
            return None
        if line.kind == SLOT_AWAITED:
            return line if now_ms < line.at_ms + 2 * SLOT_AWAITED_MS else None
    return None


def merge_waits(task: Record[TaskData]) -> bool:
    """Whether a task is to be merged, and does not hold the target of its merge yet."""
    data = task.data
    waits = is_verified(data) and not data.get("merging") and not data.get("merged")
    return task.state == State.DONE and bool(data.get("repo")) and waits


def why_kept(task: RecordContent[TaskData]) -> str:
    """Return whom an open task is kept for by a person's choice, and how to lift it, or ''."""
    kept = choice.in_words(task.data)
    return f"{kept}; `interlock task requeue {task.id}` offers it to any" if kept else ""


def may_starve(task: RecordContent[TaskData]) -> bool:
    """Whether a task waits for another task, or for one agent only: no other can be starved."""
    return bool(awaited(task.data) or _identities(task))


def _others(task: RecordContent[TaskData]) -> list[str]:
    """Return the ids of the tasks that a task waits for."""
    return [f"{task.root}/{name}" for name in awaited(task.data)]


def _identities(task: RecordContent[TaskData]) -> list[str]:
    """Return the id of the identity of the only agent that may claim a task, if there is one."""
    data = task.data
    command = str(data.get("agent") or "")
    name = str(data["agent_name"] if command else data.get("kept_for") or "")
    if not name:
        return []
    return [identity_id(task.root, name=name, role=str(data["role"]), command=command)]


def _is_lost(task: RecordContent[TaskData]) -> bool:
    """Whether a task will never be done, unless a person says so."""
    return task.state == State.CANCELLED or bool(task.data.get("given_up"))


def unclaimed(
    records: Records, tasks: Sequence[Record[TaskData]], claimer: Data
) -> dict[str, dict[str, int]]:
    """Return how many tasks are in each of the `states`, and the `reasons` of those that are open.

    Each open task counts for one reason why the claimer, a role, an owner and a tenant, cannot
    claim it.
    """
    waits, now_ms = Waits(records, tasks), records.now_ms()
    open_tasks = (task for task in tasks if task.state == State.OPEN)
    reasons = Counter(_reason(waits, task, claimer, now_ms) for task in open_tasks)
    return {"states": dict(Counter(task.state for task in tasks)), "reasons": dict(reasons)}


def _reason(waits: Waits, task: Record[TaskData], claimer: Data, now_ms: int) -> str:
    """Return why an open task is not claimed: words that follow the number of such tasks."""
    data = task.data
    if data.get("agent"):
        return "for agents that Interlock starts"
    for name in ("role", "tenant"):
        if data[name] != claimer[name]:
            return f"for the {name} {data[name]}"
    if data.get("kept_for") not in (None, claimer["owner"]):
        return f"kept for the agent {data['kept_for']}"
    if waits.unmet(task):
        return "waiting for other tasks"
    if now_ms < data["not_before"]:
        return "not to begin yet"
    # Such as for files that another task owns. The claim of one task by its id says which it is.
    return "refused to this agent now (`interlock task claim TASK` says why)"
