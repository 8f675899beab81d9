"""Brings claims of tasks to where a keeper, a worker or an agent of others would bring them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from interlock.kernel.effect import Kind
from interlock.kernel.event import Cause
from interlock.kernel.record import Entry, Record
from interlock.kernel.store.commands import Call, InitialLease, Jot, Warrant
from interlock.kernel.store.leases import Lease
from interlock.workers.client import Client
from interlock.workers.tasks.client import Tasks
from interlock.workers.tasks.workplace import Workplace, workplace_of

TURN = ("task_claimed", "agent_spawned", "agent_spawned")


@dataclass
class Claimed:
    """A claimed task of ours, with its agent and its turn."""

    client: Client
    task: Lease
    agent: Lease
    place: Workplace

    def alive(self, **where: Any) -> Claimed:
        """Do what a keeper does when the process has given a sign of life."""
        self.agent_fires("confirmed_alive", where)
        self.task_fires("started")
        self.turn("agent_spawned")
        return self

    def agent_fires(self, trigger: str, payload: Mapping[str, Any] | None = None) -> None:
        fire(self.client, self.agent, trigger, payload)

    def task_fires(self, trigger: str, payload: Mapping[str, Any] | None = None) -> None:
        fire(self.client, self.task, trigger, payload)

    def turn(self, trigger: str, name: str = "supervision", **payload: Any) -> None:
        of = self.place.turn
        self.client.dispatch.fire(of, trigger, payload, party(name, trigger, of))

    def delivered(self) -> Claimed:
        """End the agent as one that has done its task."""
        self.turn("verify_requested")
        self.task_fires("completed", {"summary": "done"})
        self.agent_fires("ended", {"exit_code": 0})
        return self

    def silent(self) -> Claimed:
        """Let the agent have beaten a whole lease ago."""
        self.client.dispatch.leases.renew({self.agent.key: (self.agent.token, 1, 0)})
        return self


def fire(
    client: Client, lease: Lease, trigger: str, payload: Mapping[str, Any] | None = None
) -> None:
    """Fire under a lease."""
    warrant = Warrant.token(lease.suffix, lease.token)
    call = Call(Cause(lease.name), f"{lease.token}:{trigger}", warrant)
    client.dispatch.fire(lease.record.id, trigger, payload or {}, call)


def submitted(client: Client, name: str, **more: Any) -> str:
    """Hand in a task that an agent's command does, in a repository that nobody looks at."""
    given = {"title": name, "repo": "/nowhere", "agent": "true", **more}
    return str(client.submit(given, id=name, machine="task").id)


def claimed(client: Client, name: str, **more: Any) -> Claimed:
    """Submit a task and claim it, as who assigns it does; its agent is about to start."""
    dispatch, of = client.dispatch, submitted(client, name, **more)
    initial_lease = InitialLease(
        uuid4().hex[:8], "keeper", dispatch.effect("task", "agent").lease_ms
    )
    claim = {"owner": "here", "identity": "unknown", "at_ms": dispatch.views.now_ms()}
    dispatch.fire(
        of, "claimed", claim, party("assignment", "claimed", of), initial_lease=initial_lease
    )
    task = held(client, of, initial_lease)
    place = workplace_of(task.record)
    initial_lease = InitialLease(
        uuid4().hex[:8], "keeper", dispatch.effect("agent", "supervision").lease_ms
    )
    birth = {"name": place.name, "role": task.record.data["role"], "command": "true", "task": of}
    cause = Call(Cause("assignment"))
    dispatch.create("agent", place.agent, birth, cause, initial_lease=initial_lease)
    dispatch.create("turn", place.turn, {"task": of, "number": place.number}, cause)
    begun = Claimed(client, task, held(client, place.agent, initial_lease), place)
    for trigger in TURN[:2]:
        begun.turn(trigger, "assignment")
    return begun


def party(name: str, trigger: str, of: str) -> Call:
    """Return the call of a part of the deployment that holds no lease of a record."""
    return Call(Cause(name), f"{name}:{trigger}:{of}:{uuid4().hex[:8]}", Warrant.party(name))


def held(client: Client, of: str, initial_lease: InitialLease) -> Lease:
    """Return the lease that was born with a record's state."""
    record = client.show(of)
    entry = next(one for one in record.entries if one.token.endswith(f"-{initial_lease.nonce}"))
    return leased(client, record, entry, initial_lease.nonce)


def leased(client: Client, record: Record, entry: Entry, nonce: str) -> Lease:
    effect = client.dispatch.effect(record.machine, entry.name)
    lease = client.dispatch.leases.claim(
        entry.key(record.id), effect, nonce=nonce, holder="test", schema=1
    )
    assert isinstance(lease, Lease), lease
    return lease


def taken(client: Client, of: str) -> Lease:
    """Claim what a record's state owes, as a worker does."""
    record = client.show(of)
    entry = next(one for one in record.entries if one.kind is Kind.STATE)
    return leased(client, record, entry, uuid4().hex[:8])


def noted(client: Client, of: str, kind: str, **detail: Any) -> None:
    """Write a note."""
    client.dispatch.note(client.show(of), Jot(kind, detail), op_id=uuid4().hex)


def used(client: Client, of: str, **deltas: int) -> None:
    """Count what an agent used."""
    client.dispatch.note(client.show(of), Jot("usage", {}, deltas), op_id=uuid4().hex)


def unheard(client: Client, name: str) -> Claimed:
    """Have an agent at work that nobody holds and whose process nobody named."""
    begun = claimed(client, name)
    client.dispatch.leases.release(begun.agent, counted=False)
    of = begun.place.agent
    client.dispatch.fire(of, "confirmed_alive", {}, party("supervision", "confirmed_alive", of))
    begun.task_fires("started")
    return begun


def merging(client: Client, name: str) -> None:
    """Bring a claim to its merge."""
    claimed(client, name).alive().delivered()
    fire(client, taken(client, name), "verified", {"commit": "0" * 40})
    taken(client, name)
    noted(client, name, "activity", word="merging")


def scene(here: Client) -> None:
    """Have an agent of each look, and something of everything that waits."""
    claimed(here, "b/starts")
    busy = claimed(here, "b/works").alive(pid=4711, host="anvil")
    noted(here, busy.place.agent, "said", message="reading the tests")
    claimed(here, "b/hangs").alive().silent()
    unheard(here, "b/ghost")
    merging(here, "b/merges")
    claimed(here, "b/sits").alive().agent_fires("task_finished")
    dead = claimed(here, "b/crashed").alive()
    dead.agent_fires("ended", {"reason": "it crashed"})
    dead.task_fires("failed", {"reason": "it crashed", "final": True})
    submitted(here, "b/first")
    Tasks(here).submit({"title": "x", "depends_on": ["gone"]}, backlog="b", name="never")
