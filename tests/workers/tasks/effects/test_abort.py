"""Who hears of an abort in a store: by the event that owes it, and by no earlier one."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from interlock.kernel.event import Cause
from interlock.kernel.machines import MACHINES
from interlock.kernel.store.commands import Call, InitialLease
from interlock.kernel.store.leases import Lease
from interlock.workers.client import Client
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.systems import handlers
from tests.workers.tasks.claims import fire, held
from tests.workers.threads.threads import client_of

WELL = {"exit_code": 0, "why": "completed"}


class Fleet:
    """Agents of a family, without processes."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.runner = Runner(client.dispatch, Resources(client.settings))

    def agent(self, name: str, **more: Any) -> Lease:
        """Bear an agent that is at work."""
        of, initial_lease = f"b/{name}", InitialLease(uuid4().hex[:8], "keeper", 60_000)
        birth = {"name": name, "role": "any", "command": "true", "task": "b/t", **more}
        self.client.dispatch.create(
            "agent", of, birth, Call(Cause("assignment")), initial_lease=initial_lease
        )
        lease = held(self.client, of, initial_lease)
        fire(self.client, lease, "confirmed_alive")
        return lease

    def spread(self, lease: Lease) -> None:
        """Do every abort that an agent owes."""
        of = lease.record.id
        for entry in self.client.show(of).entries:
            if entry.name == "abort":
                key = entry.key(of)
                self.runner.perform(MACHINES["agent"], "abort", handlers()["abort"], key)

    def state(self, lease: Lease) -> str:
        return self.client.show(lease.record.id).state

    def abort_of(self, lease: Lease) -> Any:
        return self.client.show(lease.record.id).data["end"]["abort"]


@pytest.fixture
def fleet(server: EmbeddedServer, prefix: str) -> Fleet:
    return Fleet(client_of(server.url, prefix))


def test_siblings_hear_of_what_was_raised_and_later_ones_do_not(fleet: Fleet) -> None:
    above = fleet.agent("above")
    one, two = (fleet.agent(name, parent="b/above") for name in ("one", "two"))
    fire(fleet.client, one, "abort_raised", {"scope": "sibling"})
    fleet.spread(one)
    later = fleet.agent("later", parent="b/above")

    fire(fleet.client, one, "ended", WELL)
    fleet.spread(one)

    assert fleet.abort_of(two) == "sibling_aborted"
    assert [fleet.state(lease) for lease in (above, later)] == ["working", "working"]


def test_a_contained_tool_call_reaches_nobody(fleet: Fleet) -> None:
    fleet.agent("above")
    one, two = (fleet.agent(name, parent="b/above") for name in ("one", "two"))

    fire(fleet.client, one, "abort_raised", {"scope": "tool"})
    fleet.spread(one)

    assert [fleet.state(lease) for lease in (one, two)] == ["working", "working"]


def test_with_both_policies_the_parents_session_goes_too_and_strangers_stay(fleet: Fleet) -> None:
    policy = {"tool_to_sibling": True, "sibling_to_session": True}
    above = fleet.agent("above")
    one, two = (fleet.agent(name, parent="b/above", **policy) for name in ("one", "two"))
    below, stranger = fleet.agent("below", parent="b/two"), fleet.agent("stranger")

    fire(fleet.client, one, "abort_raised", {"scope": "tool"})
    fleet.spread(one)

    told = [fleet.abort_of(lease) for lease in (above, one, two, below)]
    assert told == ["sibling_aborted", "parent_aborted", "sibling_aborted", "parent_aborted"]
    assert fleet.state(stranger) == "working"


def test_a_crash_reaches_descendants_through_agents_that_have_ended(fleet: Fleet) -> None:
    above, middle = fleet.agent("above"), fleet.agent("middle", parent="b/above")
    below = fleet.agent("below", parent="b/middle")
    fire(fleet.client, middle, "ended", WELL)
    fleet.spread(middle)

    fire(fleet.client, above, "ended", {"exit_code": -9, "abort": "oom", "why": "aborted"})
    fleet.spread(above)

    assert fleet.abort_of(below) == "parent_aborted"
