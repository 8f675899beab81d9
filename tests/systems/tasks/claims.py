"""Brings claims of tasks to the states that supervisors, workers and agents would bring them to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from interlock.kernel.effect import Kind
from interlock.kernel.record import partition_of
from interlock.kernel.store.leases import Lease
from interlock.systems.tasks.claim_names import ClaimNames, claim_names
from interlock.systems.tasks.client import Tasks
from interlock.workers.client import Client


@dataclass
class Claimed:
    """A task that a local agent has claimed, with its agent and its turn."""

    client: Client
    task: Lease
    agent: Lease
    names: ClaimNames

    def alive(self, **where: Any) -> Claimed:
        """Do what a supervisor does when the agent has begun to work."""
        self.agent_fires("confirmed_alive", where)
        self.task_fires("started")
        self.turn("agent_spawned")
        return self

    def agent_fires(self, trigger: str, payload: Mapping[str, Any] | None = None) -> None:
        fire(self.client, self.agent, trigger, payload)

    def task_fires(self, trigger: str, payload: Mapping[str, Any] | None = None) -> None:
        fire(self.client, self.task, trigger, payload)

    def turn(self, trigger: str, name: str = "supervision", **payload: Any) -> None:
        self.client.records.named(name).fire(self.names.turn, trigger, payload)

    def delivered(self) -> Claimed:
        """End the agent as one that has completed its task."""
        self.turn("verify_requested")
        self.task_fires("completed", {"summary": "done"})
        self.agent_fires("ended", {"exit_code": 0})
        return self

    def silent(self) -> Claimed:
        """Make the last heartbeat of the agent a whole lease old."""
        self.client.dispatch.leases.renew({self.agent.key: (self.agent.token, 1, 0)})
        return self


def fire(
    client: Client, lease: Lease, trigger: str, payload: Mapping[str, Any] | None = None
) -> None:
    """Fire under a lease."""
    op_id, held = f"{lease.token}:{trigger}", (lease.suffix, lease.token)
    holder = client.records.named(lease.name)
    holder.fire(lease.record.id, trigger, payload, op_id=op_id, held=held)


def submitted(client: Client, name: str, **more: Any) -> str:
    """Submit a task for an agent's command; its repository is not checked."""
    payload = {"title": name, "repo": "/nowhere", "agent": "true", **more}
    return str(client.submit(payload, id=name, machine="task").id)


def same_partition(root: str) -> str:
    """Return another root in the partition of this one."""
    names = (f"x{number}" for number in range(10_000))
    return next(name for name in names if partition_of(name) == partition_of(root))


def claimed(
    client: Client,
    name: str,
    *,
    identity: str = "unknown",
    of_turn: Mapping[str, Any] | None = None,
    **more: Any,
) -> Claimed:
    """Submit a task and claim it as the assignment does, on a `host` if one is given.

    Its agent is about to start. `of_turn` is more of what its turn is created from.
    """
    where = {"host": more.pop("host")} if "host" in more else {}
    records, task_id = client.records.named("assignment"), submitted(client, name, **more)
    payload = {
        "owner": "this-host",
        "identity": identity,
        "at_ms": records.now_ms(),
        **where,
    }
    task = records.fire(task_id, "claimed", payload, leased_by="supervisor").granted
    names = claim_names(task.record)
    role = task.record.data["role"]
    new_agent = {"name": names.name, "role": role, "command": "true", "task": task_id}
    agent = records.create("agent", names.agent, new_agent, leased_by="supervisor").granted
    turn = {"task": task_id, "number": names.number, **(of_turn or {})}
    records.create("turn", names.turn, turn)
    claim = Claimed(client, task, agent, names)
    claim.turn("task_claimed", "assignment")
    claim.turn("agent_spawned")
    return claim


def taken(client: Client, record_id: str) -> Lease:
    """Claim the effect of a record's state, as a worker does."""
    record = client.show(record_id)
    entry = next(entry for entry in record.entries if entry.kind is Kind.STATE)
    effect = client.records.effect(record.machine, entry.name)
    lease = client.records.leases.claim(
        entry.key(record.id), effect, nonce=uuid4().hex[:8], holder="test", schema=1
    )
    assert isinstance(lease, Lease), lease
    return lease


def noted(client: Client, record_id: str, kind: str, **detail: Any) -> None:
    """Write a note."""
    client.records.note(client.show(record_id), kind, detail)


def used(client: Client, record_id: str, **deltas: int) -> None:
    """Count the usage of an agent."""
    client.records.note(client.show(record_id), "usage", {}, deltas=deltas)


def unsupervised(client: Client, name: str) -> Claimed:
    """Make an agent that is at work without a lease and without a known process."""
    claim = claimed(client, name)
    client.dispatch.leases.release(claim.agent, counted=False)
    client.records.named("supervision").fire(claim.names.agent, "confirmed_alive")
    claim.task_fires("started")
    return claim


def merging(client: Client, name: str) -> None:
    """Bring a claim to its merge."""
    claimed(client, name).alive().delivered()
    fire(client, taken(client, name), "verified", {"commit": "0" * 40})
    taken(client, name)
    noted(client, name, "activity", doing="merging")


def scene(client: Client) -> None:
    """Make an agent of each visual state, and one of each kind of task that waits."""
    claimed(client, "b/starts")
    busy = claimed(client, "b/works").alive(pid=4711, host="anvil")
    noted(client, busy.names.agent, "progress", message="reading the tests")
    claimed(client, "b/hangs").alive().silent()
    unsupervised(client, "b/ghost")
    merging(client, "b/merges")
    claimed(client, "b/sits").alive(pid=4712).agent_fires("task_finished")
    dead = claimed(client, "b/crashed").alive()
    dead.agent_fires("ended", {"reason": "it crashed"})
    dead.task_fires("failed", {"reason": "it crashed", "final": True})
    submitted(client, "b/first")
    Tasks(client).submit({"title": "x", "depends_on": ["gone"]}, backlog="b", name="never")
