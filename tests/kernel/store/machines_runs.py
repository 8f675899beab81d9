"""A workspace, its runs and their codons in a store, for tests that create and move them."""

from __future__ import annotations

from typing import Any

from interlock.kernel.event import Event
from interlock.kernel.fired import Fired
from interlock.kernel.record import RecordId
from interlock.kernel.store.commands import InitialLease, Warrant
from interlock.kernel.store.leases import Lease
from interlock.systems.runs.machines.events import CodonStarted, RunStarted, run_event
from interlock.systems.runs.machines.translation import wanted
from tests.kernel.samples import RUN_BIRTH
from tests.kernel.store.kernel_at_a_fixed_time import World
from tests.systems.runs.machines.codons import CHAIN, metadata

DATA, RUN, CODON = "data", "data/1", "data/1/1"
HOLDER = InitialLease("hold", "here", 10_000)
EVENTS = Warrant.component("events")
LAUNCH = Warrant.component("launch")
Listed = list[tuple[RecordId, int]]


def workspace(world: World, of: str = DATA) -> str:
    world.create(of, {"folder": "/data", "host": "here"}, machine="workspace")
    return of


def run(world: World, of: str = RUN) -> str:
    world.create(of, RUN_BIRTH, machine="run")
    return of


def codon(world: World, of: str = CODON, state: str = "preparing") -> str:
    """Create a codon, and bring it to a state along the chain."""
    world.create(of, {"codon_id": "clean"}, machine="codon", initial_lease=HOLDER)
    for following in CHAIN[1 : CHAIN.index(state) + 1]:
        move(world, following, of)
    return of


def begun(world: World, state: str = "running") -> str:
    """Create a workspace, a run and a codon that is in a state."""
    workspace(world)
    run(world)
    return codon(world, state=state)


def tell(world: World, name: str, of: str = CODON, *, op: str = "", **said: Any) -> Fired:
    """Fire what a published event asks of a record."""
    run_id = {"run_id": of} if of.count("/") == 1 else {"run_id": of, "codon_id": "clean"}
    read = run_event({"type": name, "data": {**run_id, **said}})
    assert not isinstance(read, RunStarted | CodonStarted)
    trigger, payload = wanted(read, world.record(of).state)
    return world.fire(of, trigger, payload, warrant=EVENTS, op=op)


def move(world: World, to: str, of: str = CODON) -> Fired:
    """Bring a codon to a state, with all fields that this requires."""
    source = world.record(of).state
    said: dict[str, Any] = {"from": source, "to": to, "metadata": metadata(source, to)}
    return tell(world, "CodonTransitioned", of, **said)


def fail(world: World, of: str = RUN) -> Fired:
    """End a run, as a person does."""
    return world.fire(of, "fail", {"reason": "enough"})


def complete(world: World, of: str = RUN) -> Fired:
    """End a run, as its supervisor does."""
    return world.fire(of, "complete", {}, warrant=LAUNCH)


def settle(world: World, of: str) -> None:
    """Settle all effects of a record; its holders are gone."""
    record = world.record(of)
    for entry in record.entries:
        key = entry.key(of)
        if entry.state == "owed":
            world.settle(world.claim_key(key))
        else:
            named = (key, entry.suffix, entry.token, entry.attempts, entry.name, entry.kind)
            world.settle(Lease(*named, record, 0))


def listed(world: World, of: str = DATA, after: str = "0-0", limit: int = 100_000) -> Listed:
    return [(one, version) for _, one, version in world.views.family_log(of, after, limit)]


def logged(world: World, of: str = DATA) -> list[Event]:
    """Return the events that a family log lists, in its order."""
    return world.views.events(listed(world, of))
