"""Coding tasks for producers, people and agents that we do not run: submit, claim, report."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from interlock.kernel.errors import (
    CallError,
    FencedError,
    HeldError,
    InvalidPayloadError,
    UnknownRecordError,
)
from interlock.kernel.event import Cause
from interlock.kernel.record import Record, partition_of, root_of, split_key
from interlock.kernel.store import codec
from interlock.kernel.store.commands import Call, InitialLease, Warrant
from interlock.workers.client import Client, Submitted
from interlock.workers.engine.leases import claim_initial_lease
from interlock.workers.gateways.git.admission import admit
from interlock.workers.gateways.git.repository import Repository
from interlock.workers.supervision.command import check_command
from interlock.workers.tasks.claims import hopeless, identified, identity_of, in_line
from interlock.workers.tasks.roles import check_role
from interlock.workers.tasks.verification.signals import parse_signals
from interlock.workers.tasks.workplace import Workplace

LISTED_MAX = 10_000
NAME_LENGTH_MAX = 40
# What a failed stage fails without touching an agent.
STAGE = ("planned", "open", "blocked", "waiting_for_subtasks")


@dataclass(frozen=True, slots=True)
class Claim:
    """A task that is yours until its lease ends: renew it, and report under its token."""

    task: str
    key: str
    token: str
    record: Record


class Tasks:
    """What can be done with coding tasks, over a client."""

    def __init__(self, client: Client) -> None:
        self.client, self.dispatch = client, client.dispatch

    def submit(
        self,
        payload: Mapping[str, Any],
        *,
        backlog: str,
        name: str | None = None,
        priority: int = 5,
    ) -> Submitted:
        """Hand in a task. A repository that is here is looked at before anything is written.

        Raises RefusedError for a repository that is unfit, InvalidSignalError for a signal that
        nobody can judge, UnknownRoleError for a role that is not listed, InvalidPayloadError for
        anything else that is wrong.
        """
        if not isinstance(payload, Mapping):
            raise InvalidPayloadError("the task", ["it is no object"])
        task_id = f"{backlog}/{name or named(str(payload.get('title', '')))}"
        given = self.checked(task_id, payload)
        return self.client.submit(given, id=task_id, machine="task", priority=priority)

    def checked(
        self, task_id: str, payload: Mapping[str, Any], *, here: bool = True
    ) -> dict[str, Any]:
        """Return what a task would be born from; nothing is written. Raises as `submit` does.

        `here`: its repository is to be on this machine, and is looked at.
        """
        parse_signals(payload.get("signals", ()))
        check_role(self.client.settings, payload.get("role"))
        repo = payload.get("repo")
        given = dict(payload)
        if self.client.settings.stage_failures:
            given.setdefault("stage_failures", True)
        if here and isinstance(repo, str) and payload.get("agent"):
            given = self._admit(task_id, payload, Path(repo)) | given
        return given

    def claim_next(
        self, backlog: str, *, role: str = "any", owner: str, tenant: str = "default"
    ) -> Claim | None:
        """Claim the next task of a role that no agent of ours is meant for, or None.

        By priority, then age; what cannot be claimed now is passed over.
        """
        for record in in_line(self.dispatch, backlog, role):
            if record.data.get("agent"):
                continue
            try:
                return self.claim(record.id, owner=owner, role=role, tenant=tenant)
            except (CallError, HeldError, FencedError):
                continue
        return None

    def claim(
        self, task: str, *, owner: str, role: str | None = None, tenant: str = "default"
    ) -> Claim:
        """Claim one task. Raises GuardRefusedError where it may not be claimed now or by you."""
        effect = self.dispatch.effect("task", "agent")
        found = self.client.show(task)
        if found.data.get("agent"):
            raise HeldError(task, "it is for the agent that it names")
        initial_lease = InitialLease(uuid4().hex[:8], owner, effect.lease_ms)
        known = {"name": owner, "role": str(found.data["role"]), "command": ""}
        who = identified(self.dispatch, root_of(task), **known)
        words = {"owner": owner, "identity": who, "role": role}
        payload = {**words, "tenant": tenant, "at_ms": self.dispatch.views.now_ms()}
        given = {name: value for name, value in payload.items() if value is not None}
        call = Call(Cause(self.client.actor, f"claimed for {owner}"))
        self.dispatch.fire(task, "claimed", given, call, initial_lease=initial_lease)
        lease = claim_initial_lease(self.dispatch, task, initial_lease)
        return Claim(task, lease.key, lease.token, lease.record)

    def heartbeat(self, key: str, token: str) -> str:
        """Renew a claim. The answer is an order: go, interrupt, pause, stop or lost."""
        lease_ms = self.dispatch.effect("task", "agent").lease_ms
        return str(self.dispatch.leases.renew({key: (token, lease_ms, 0)})[key][0])

    def report(
        self, key: str, token: str, trigger: str, payload: Mapping[str, Any] | None = None
    ) -> Record:
        """Report on a claimed task: started, completed, failed, blocked, split, released.

        `child_cancelled` ends a part of its own. Raises FencedError where the claim is somebody
        else's by now, GuardRefusedError where the owner is not trusted enough; it says which
        level would do.
        """
        task, suffix = split_key(key)
        # What is said twice counts once; of two parts each is given up by itself.
        said = codec.digest(trigger, codec.encode(payload or {}, "the payload"))
        call = Call(
            Cause("agent", str((payload or {}).get("reason", ""))),
            f"{token}:{trigger}:{said}",
            Warrant.token(suffix, token),
        )
        fired = self.dispatch.fire(task, trigger, dict(payload or {}), call)
        return fired.record or self.client.show(task)

    def fail_stage(
        self, backlog: str, *, plan: str | None = None, role: str | None = None, reason: str = ""
    ) -> list[str]:
        """Fail what nobody works on yet: planned, open, blocked, waiting for subtasks.

        Only of tasks that were handed in with `stage_failures`; return the ids of those.
        """
        failed = []
        for row in self.of(backlog):
            data = self.client.show(row["id"]).data
            chosen = plan in (None, data.get("plan")) and role in (None, data["role"])
            if not chosen or row["state"] not in STAGE:
                continue
            with suppress(CallError):
                self.client.fire(row["id"], "stage_failed", {"reason": reason}, reason=reason)
                failed.append(row["id"])
        return failed

    def of(self, backlog: str) -> list[dict[str, Any]]:
        """Return the tasks of a backlog: where each stands, and why it may never be claimed."""
        machine = self.dispatch.lifecycle.machine("task")
        partition = partition_of(backlog)
        found = []
        for stage in machine.stages:
            state = str(stage.state)
            for one in self.dispatch.views.list_in_partition(machine, state, partition, LISTED_MAX):
                if root_of(one) != backlog:
                    continue
                record = self.client.show(one)
                failure = record.data.get("failure") or {}
                why = self.starved(record) if state == "open" else failure.get("reason", "")
                on = record.data.get("blocked_on") or {}
                why = f"it waits for {on['on']}" if state == "blocked" and on else why
                row = {"id": one, "state": state, "title": record.data["title"], "why": why}
                found.append(row | {"retries": record.data["retries"]})
        return found

    def starved(self, record: Record) -> str:
        """Say why an open task can never be claimed as things stand, or nothing."""
        for name in record.data["depends_on"]:
            if why := hopeless(self.dispatch, record, name):
                return f"it depends on {why}"
        data = record.data
        if data.get("agent"):
            who = {"name": data["agent_name"], "role": data["role"], "command": data["agent"]}
            with suppress(UnknownRecordError):
                if self.client.show(identity_of(root_of(record.id), **who)).state == "retired":
                    return f"its agent {data['agent_name']} was taken out of service by a person"
        return ""

    def _admit(self, task_id: str, payload: Mapping[str, Any], repo: Path) -> dict[str, str]:
        """Look at a repository, and say which branch the task is for where it names none."""
        try:
            return {"target": str(self.client.show(task_id).data["target"])}
        except UnknownRecordError:
            pass
        repository = Repository.open(repo)
        check_command(str(payload["agent"]), repo)
        place = Workplace(task_id, 1)
        if place.folder(self.client.settings).is_relative_to(repository.root):
            problem = (
                "its worktree would lie inside the repository: set INTERLOCK_HOME to a folder"
                " outside of it, for the workers as well"
            )
            raise InvalidPayloadError("the task", [problem])
        paths: Sequence[str] = payload.get("owned_files", ())
        target = payload.get("target")
        found = admit(repository, target=target, branch=place.branch, paths=paths)
        return {"target": found.target}


def named(title: str) -> str:
    """Return a name for a task from its title, never twice the same."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:NAME_LENGTH_MAX].strip("-")
    return f"{words or 'task'}-{uuid4().hex[:6]}"
