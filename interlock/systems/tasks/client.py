"""Submits, claims, reports on and lists coding tasks, for programs and for the command line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from interlock import CallError, Client, Submitted
from interlock.git.admission import admit
from interlock.git.remote import refuse_unknown_remote
from interlock.git.repository import Repository
from interlock.system.agents import check_command
from interlock.system.errors import AnotherVersionError, FencedError, HeldError, InvalidPayloadError
from interlock.system.records import Records
from interlock.system.tables import PRIORITY_DEFAULT, Record, root_of
from interlock.systems.tasks import external_claim
from interlock.systems.tasks.claim_names import ClaimNames
from interlock.systems.tasks.claims import (
    claim_payload,
    deadline_fields,
    queued_tasks,
)
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import State, Trigger
from interlock.systems.tasks.next_try import next_try_s
from interlock.systems.tasks.parent_task import refuse_other_tasks
from interlock.systems.tasks.reassignment import requeue
from interlock.systems.tasks.roles import check_role
from interlock.systems.tasks.settings import TaskSettings
from interlock.systems.tasks.verification.judgeable import check_parts, check_signals
from interlock.systems.tasks.waits import Waits, unclaimed

NAME_LENGTH_MAX = 40  # characters of the name that is made of the title of a task
# `fail_stage` fails the tasks in these states: no agent works on them.
STAGE_STATES = (State.PLANNED, State.OPEN, State.BLOCKED, State.WAITING_FOR_SUBTASKS)


@dataclass(frozen=True, slots=True)
class TaskClaim:
    """A task that its claimer holds under a lease: renew the lease, and report with its token."""

    task: str
    key: str
    token: str
    record: Record[TaskData]


class Tasks:
    """The operations on coding tasks, over a client."""

    def __init__(self, client: Client) -> None:
        self.client = client

    @property
    def records(self) -> Records:
        """The records, as the client's actor reads and changes them."""
        return self.client.records

    def submit(
        self,
        payload: Mapping[str, Any],
        *,
        backlog: str,
        name: str | None = None,
        priority: int = PRIORITY_DEFAULT,
    ) -> Submitted:
        """Submit a task. Its repository is checked before anything is written.

        Raises a CallError for a wrong task: RefusedError for an unfit repository,
        InvalidSignalError, UnknownRoleError for a role that is not listed, CallError for a
        command that cannot run, InvalidPayloadError, IdTakenError, or QuotaError.
        """
        if not isinstance(payload, Mapping):
            raise InvalidPayloadError("the task", ["it is not an object"])
        task_id = f"{backlog}/{name or name_from_title(str(payload.get('title', '')))}"
        fields = self.check(task_id, payload)
        return self.client.submit(fields, id=task_id, machine="task", priority=priority)

    def refuse_missing(self, backlog: str, names: Iterable[str]) -> None:
        """Refuse names that no task of a backlog has. Raises CallError.

        A program may submit a task before those that it depends on, so `submit` does not ask this.
        """
        asked = tuple(names)
        found = self.records.views.records(f"{backlog}/{name}" for name in asked)
        for name in asked:
            if f"{backlog}/{name}" not in found:
                raise CallError(
                    f"the backlog {backlog!r} has no task {name!r} to wait for: submit that first, "
                    "or submit both as a plan"
                )

    def check(
        self, task_id: str, payload: Mapping[str, Any], *, local: bool = True
    ) -> dict[str, Any]:
        """Return the payload that a task is created with; write nothing. Raises as `submit` does.

        The repository is only checked if it is `local`, which means on this computer. A task that
        exists is not checked again: its repository may be gone since.
        """
        repo = payload.get("repo")
        fields = dict(payload)
        settings = self.client.settings.of(TaskSettings)
        if settings.stage_failures:
            fields.setdefault("stage_failures", True)
        if settings.subtasks_s:
            fields.setdefault("subtasks_s", settings.subtasks_s)
        found: Record[TaskData] | None = self.records.views.records([task_id]).get(task_id)
        if found is not None and found.machine == "task":
            same = self.records.created_with("task", {task_id: fields})[task_id]
            return fields if same else {"target": found.data["target"]} | fields
        if isinstance(payload.get("signals"), Sequence):
            check_signals(self.records, payload["signals"])
        check_role(self.client.settings, payload.get("role"))
        self.records.check_new("task", fields)
        if local and isinstance(repo, str) and payload.get("agent"):
            fields = self._check_repository(task_id, payload, Path(repo)) | fields
        return fields

    def claim_next(
        self, backlog: str, *, role: str = "any", owner: str, tenant: str = "default"
    ) -> TaskClaim | None:
        """Claim the next task of a role's queue that has no agent command; None if there is none.

        `any` is the queue of the tasks that name no role; it does not stand for every role. Tasks
        are taken by priority, then by age. A task that cannot be claimed now is skipped.
        """
        for record in queued_tasks(self.records, backlog, role):
            if record.data.get("agent"):
                continue
            try:
                return self.claim(record.id, owner=owner, role=role, tenant=tenant)
            except (AnotherVersionError, CallError, HeldError, FencedError):
                continue
        return None

    def claim(
        self, task: str, *, owner: str, role: str | None = None, tenant: str = "default"
    ) -> TaskClaim:
        """Claim one task. Raises GuardRefusedError if this owner may not claim it now."""
        found: Record[TaskData] = self.client.show(task, machine="task")
        if found.data.get("agent"):
            raise HeldError(task, "only the agent command that it names may claim it")
        claimer = {"owner": owner, "tenant": tenant} | ({} if role is None else {"role": role})
        payload = claim_payload(self.records, found, claimer, name=owner, command="")
        payload |= deadline_fields(self.records, found)
        lease = self.records.fire(task, Trigger.CLAIMED, payload, leased_by=owner).granted
        external_claim.begin_turn_of(self.records, lease.record)
        return TaskClaim(task, lease.key, lease.token, lease.record)

    def heartbeat(self, key: str, token: str) -> str:
        """Renew a claim. Return the order to its holder: go, interrupt, pause, stop or lost."""
        lease_ms = self.records.effect("task", "agent").lease_ms
        return str(self.records.leases.renew({key: (token, lease_ms, 0)})[key][0])

    def report(
        self, key: str, token: str, trigger: str, payload: Mapping[str, Any] | None = None
    ) -> Record:
        """Fire a trigger at a claimed task under the claim's token.

        The triggers are started, completed, failed, blocked, split, released, and child_cancelled,
        which cancels a subtask of the claimed task. After the order to stop, released confirms that
        the work has ended; like any report it may be repeated. Raises FencedError if the claim is
        no longer held with this token, GuardRefusedError with the needed level if the owner's trust
        is too low, InvalidPayloadError for a wrong part and for a task that is no subtask.
        """
        task, suffix = self.records.effect_of(key)
        if trigger == Trigger.RELEASED and external_claim.confirm_stop(self.records, key, token):
            return self.client.show(task)
        fields = dict(payload or {})
        if trigger == Trigger.SPLIT:
            check_parts(self.records, fields.get("subtasks"))
        if trigger == Trigger.CHILD_CANCELLED:
            refuse_other_tasks(task, fields.get("child"))
        # The same report sent twice counts once; reports that differ are not confused.
        op_id = self.records.op_id_of(f"{token}:{trigger}", trigger, fields)
        if trigger == Trigger.COMPLETED:
            # How long it worked on the task: the deadlines of later tasks are derived from it.
            worked_ms = self.records.now_ms() - self.client.show(task).since_ms
            worked_s = max(worked_ms, 0) / 1_000
            fields["took_s"] = _at_most(fields.get("took_s"), worked_s)
        after: Record | None = None
        agent = self.records.named("agent")
        try:
            after = agent.fire(task, trigger, fields, op_id=op_id, held=(suffix, token)).record
        except CallError:
            if not self.records.was_made(task, op_id):
                raise
            # The same report again, with a time measured anew.
        after = after or self.client.show(task)
        external_claim.follow(self.records, key, after, trigger, fields.get("reason", ""))
        return after

    def split(self, task: str, parts: Sequence[Mapping[str, Any]]) -> Record:
        """Split an open task into parts. Raises InvalidPayloadError for a part that is wrong."""
        self.client.show(task, machine="task")
        check_parts(self.records, parts)
        return self.client.fire(task, Trigger.SPLIT, {"subtasks": parts})

    def requeue(
        self,
        task: str,
        *,
        to: str | None = None,
        agent: str | None = None,
        not_same: bool = False,
        reason: str = "",
    ) -> Record:
        """Take a task from its agent, or offer an open one anew; `reassignment` says to whom."""
        return requeue(self.client, task, to=to, agent=agent, not_same=not_same, reason=reason)

    def report_turn(
        self,
        key: str,
        token: str,
        report: str,
        payload: Mapping[str, Any] | None = None,
        *,
        op_id: str | None = None,
    ) -> Record:
        """Report to the turn of a claim what its agent does; return the turn.

        With an op-id a repeated report counts once.

        The reports are tool_started and tool_completed, with `tool`, compact_needed and compacted.
        Raises FencedError if the claim is no longer held with this token.
        """
        task = self.records.effect_of(key)[0]
        if self.heartbeat(key, token) in ("stop", "lost"):
            raise FencedError(task, "token")
        found = self.client.show(task)
        turn = external_claim.report(self.records, found, report, payload or {}, op_id)
        return self.client.show(turn)

    def fail_stage(
        self, backlog: str, *, plan: str | None = None, role: str | None = None, reason: str = ""
    ) -> list[str]:
        """Fail the tasks of a plan or role that no agent works on yet; return their ids.

        Fails only tasks that were submitted with `stage_failures`.
        """
        failed = []
        for task in self.existing(backlog):
            data = task.data
            chosen = plan in (None, data.get("plan")) and role in (None, data["role"])
            if not chosen or task.state not in STAGE_STATES:
                continue
            with suppress(CallError):
                self.client.fire(task.id, Trigger.STAGE_FAILED, {"reason": reason}, reason=reason)
                failed.append(str(task.id))
        return failed

    def backlogs(self) -> list[dict[str, Any]]:
        """Return the backlogs, each with the number of its tasks in each state."""
        machine = self.records.machine("task")
        states: dict[str, Counter[str]] = {}
        for state in (str(stage.state) for stage in machine.stages):
            for record_id in self.records.views.ids(machine, states=[state]):
                states.setdefault(root_of(record_id), Counter())[state] += 1
        return [
            {"backlog": name, "tasks": counts.total(), "states": dict(counts)}
            for name, counts in sorted(states.items())
        ]

    def of(self, backlog: str) -> list[dict[str, Any]]:
        """Return the tasks of a backlog with their states; `why` explains a failure or a wait.

        `asks` says whether the task waits for a person, and `next_try_s` in how many seconds it is
        tried again by itself, if it is. Raises CallError if there is no such backlog.
        """
        now_ms = self.records.now_ms()
        records = self.existing(backlog)
        waits = Waits(self.records, records)
        return [
            {
                "id": record.id,
                "state": record.state,
                "title": record.data["title"],
                "why": waits.why(record),
                "retries": record.data["retries"],
                "max_retries": record.data["max_retries"],
                "next_try_s": next_try_s(record, now_ms),
                "asks": self.client.asks_person(record),
            }
            for record in records
        ]

    def unclaimed(
        self, backlog: str, *, role: str, owner: str, tenant: str
    ) -> dict[str, dict[str, int]]:
        """Return how many tasks are in each state, and why `claim_next` claims none of the open.

        These are `states` and `reasons`, each with its number of tasks. Raises CallError if there
        is no such backlog.
        """
        claimer = {"role": role, "owner": owner, "tenant": tenant}
        return unclaimed(self.records, self.existing(backlog), claimer)

    def existing(self, backlog: str) -> list[Record[TaskData]]:
        """Return every task of a backlog but those that are damaged.

        Raises CallError if there is no such backlog.
        """
        ids = self.ids_of(backlog)
        return [*self.records.views.each_record(ids, readable_by=self.records.machines)]

    def ids_of(self, backlog: str) -> list[str]:
        """Return the ids of a backlog's tasks. Raises CallError if there is no such backlog."""
        ids = [*map(str, self.records.views.ids(self.records.machines["task"], root=backlog))]
        if not ids:
            known = ", ".join(str(row["backlog"]) for row in self.backlogs()) or "none"
            raise CallError(f"there is no backlog {backlog!r}; there are: {known}")
        return ids

    def each(self, backlog: str) -> Iterator[Record[TaskData]]:
        """Yield every task of a backlog, subtasks included, the longest in its state first."""
        views = self.records.views
        return views.each_record(views.ids(self.records.machine("task"), root=backlog))

    def _check_repository(
        self, task_id: str, payload: Mapping[str, Any], repo: Path
    ) -> dict[str, str]:
        """Check that a repository is fit; return the branch to merge into if none is named."""
        repository = Repository.open(repo)
        check_command(str(payload["agent"]), repo)
        names = ClaimNames(task_id, 1)
        if names.worktree(self.client.settings).is_relative_to(repository.root):
            problem = (
                "its worktree would lie inside the repository: set INTERLOCK_WORKTREES to a folder"
                " outside of it, for the workers as well"
            )
            raise InvalidPayloadError("the task", [problem])
        paths: Sequence[str] = payload.get("owned_files", ())
        target = payload.get("target")
        if payload.get("push"):
            refuse_unknown_remote(repository, str(payload["push"]))
        admitted = admit(repository, target=target, branch=names.branch, paths=paths)
        return {"target": admitted.target}


def _at_most(given: object, limit: float) -> object:
    """Return a number that is given, or its limit; what is no number is refused by the payload."""
    if given is None:
        return limit
    return min(given, limit) if isinstance(given, int | float) else given


def name_from_title(title: str) -> str:
    """Return a name for a task from its title; a random suffix makes it unique."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:NAME_LENGTH_MAX].strip("-")
    return f"{words or 'task'}-{uuid4().hex[:6]}"
