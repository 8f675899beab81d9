"""Which agents an abort ends: decided by the event that created the effect, not by earlier ones."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.errors import (
    GuardRefusedError,
    InvalidPayloadError,
)
from interlock.kernel.machines import MACHINES
from interlock.kernel.store.leases import Lease
from interlock.systems.tasks.agents import Agents
from interlock.workers.client import Client
from interlock.workers.engine.effect_ends import EffectRetriedError
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.systems import handlers
from tests.systems.tasks.claims import fire
from tests.systems.threads.threads import client_of

COMPLETED = {"exit_code": 0, "why": "completed"}


class AgentTree:
    """Agents of one backlog, without processes."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.runner = Runner(client.dispatch, Resources(client.settings))

    def agent(self, name: str, **more: Any) -> Lease:
        """Create an agent that is at work."""
        payload = {"name": name, "role": "any", "command": "true", "task": "b/t", **more}
        creator = self.client.records.named("assignment")
        lease = creator.create("agent", f"b/{name}", payload, leased_by="supervisor").granted
        fire(self.client, lease, "confirmed_alive")
        return lease

    def propagate(self, lease: Lease) -> None:
        """Perform every abort effect of an agent."""
        agent_id = lease.record.id
        for entry in self.client.show(agent_id).entries:
            if entry.name == "abort":
                key = entry.key(agent_id)
                self.runner.perform(MACHINES["agent"], "abort", handlers()["agent.abort"], key)

    def state(self, lease: Lease) -> str:
        return self.client.show(lease.record.id).state

    def abort_of(self, lease: Lease) -> Any:
        return self.client.show(lease.record.id).data["end"]["abort"]


@pytest.fixture
def agents(server: EmbeddedServer, prefix: str) -> AgentTree:
    return AgentTree(client_of(server.url, prefix))


def test_an_abort_ends_the_siblings_of_its_time_and_no_later_one(agents: AgentTree) -> None:
    parent = agents.agent("above")
    one, two = (agents.agent(name, parent="b/above") for name in ("one", "two"))
    fire(agents.client, one, "siblings_aborted")
    agents.propagate(one)
    later = agents.agent("later", parent="b/above")

    fire(agents.client, one, "ended", COMPLETED)
    agents.propagate(one)

    assert agents.abort_of(two) == "sibling_aborted"
    assert [agents.state(lease) for lease in (parent, later)] == ["working", "working"]


def test_an_agent_that_a_newer_version_has_written_is_ended_by_a_worker_of_that_version(
    agents: AgentTree,
) -> None:
    agents.agent("above")
    one, two = (agents.agent(name, parent="b/above") for name in ("one", "two"))
    fire(agents.client, one, "siblings_aborted")
    dispatch = agents.client.dispatch
    record = dispatch.keys.record(two.record.id)
    dispatch.client.hset(record, "schema", "99")

    with pytest.raises(EffectRetriedError, match="has schema 99"):
        agents.propagate(one)
    given_back = next(e for e in agents.client.show("b/one").entries if e.name == "abort")
    assert (given_back.state, given_back.attempts) == ("owed", 0)

    dispatch.client.hset(record, "schema", str(two.record.schema))
    agents.client.retry("b/one")
    agents.propagate(one)
    assert agents.abort_of(two) == "sibling_aborted"


def test_an_aborted_tool_call_ends_no_other_agent_by_default(agents: AgentTree) -> None:
    agents.agent("above")
    one, two = (agents.agent(name, parent="b/above") for name in ("one", "two"))

    fire(agents.client, one, "tool_aborted")
    agents.propagate(one)

    assert [agents.state(lease) for lease in (one, two)] == ["working", "working"]


def test_a_person_aborts_siblings_or_a_session_and_no_tool_call(agents: AgentTree) -> None:
    agents.agent("above")
    one, two = (agents.agent(name, parent="b/above") for name in ("one", "two"))
    by_hand = Agents(agents.client)

    with pytest.raises(InvalidPayloadError, match="scope 'tool': sibling or session"):
        by_hand.abort("b/one", scope="tool")  # type: ignore[arg-type]
    with pytest.raises(GuardRefusedError, match="supervision may fire it"):
        agents.client.fire("b/one", "tool_aborted")
    by_hand.abort("b/one", scope="sibling", reason="the plan has changed")
    agents.propagate(one)

    assert (agents.state(one), agents.abort_of(two)) == ("working", "sibling_aborted")


def test_the_abort_of_an_agent_that_has_ended_reaches_the_agents_of_its_parts(
    agents: AgentTree,
) -> None:
    above = agents.agent("above")
    middle = agents.agent("middle", parent="b/above")
    for split in (above, middle):
        fire(agents.client, split, "ended", COMPLETED)
    child, stranger = agents.agent("below", parent="b/middle"), agents.agent("stranger")

    Agents(agents.client).abort("b/above", reason="all of it is wrong")

    assert (agents.abort_of(child), agents.state(stranger)) == ("parent_aborted", "working")
    assert Agents(agents.client).abort("b/above").state == "dead", "nobody is left below it"


def test_the_abort_below_an_ended_agent_is_finished_by_a_repetition(
    agents: AgentTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    fire(agents.client, agents.agent("above"), "ended", COMPLETED)
    parts = [agents.agent(name, parent="b/above") for name in ("one", "two")]
    below = [agents.agent(f"{name}-below", parent=f"b/{name}") for name in ("one", "two")]
    real = agents.client.fire

    def lost(*_: Any, **__: Any) -> Any:
        raise ConnectionError("the store is gone")

    def once(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(agents.client, "fire", lost)
        return real(*arguments, **options)

    monkeypatch.setattr(agents.client, "fire", once)
    with pytest.raises(ConnectionError):
        Agents(agents.client).abort("b/above")
    assert sorted(agents.state(lease) for lease in parts) == ["dead", "working"]
    monkeypatch.setattr(agents.client, "fire", real)

    Agents(agents.client).abort("b/above")

    assert [agents.abort_of(lease) for lease in parts + below] == ["parent_aborted"] * 4


def test_a_policy_that_ends_the_parent_ends_all_its_parts_though_the_parent_has_ended(
    agents: AgentTree,
) -> None:
    parent = agents.agent("above")
    policy = {"sibling_to_session": True}
    one, two = (agents.agent(name, parent="b/above", **policy) for name in ("one", "two"))
    fire(agents.client, parent, "ended", COMPLETED)

    fire(agents.client, one, "siblings_aborted")
    agents.propagate(one)

    assert [agents.abort_of(each) for each in (one, two)] == ["parent_aborted", "sibling_aborted"]


def test_with_both_policies_the_parent_ends_too_and_unrelated_agents_do_not(
    agents: AgentTree,
) -> None:
    policy = {"tool_to_sibling": True, "sibling_to_session": True}
    parent = agents.agent("above")
    one, two = (agents.agent(name, parent="b/above", **policy) for name in ("one", "two"))
    child, stranger = agents.agent("below", parent="b/two"), agents.agent("stranger")

    fire(agents.client, one, "tool_aborted")
    agents.propagate(one)

    reasons = [agents.abort_of(lease) for lease in (parent, one, two, child)]
    assert reasons == ["sibling_aborted", "parent_aborted", "sibling_aborted", "parent_aborted"]
    assert agents.state(stranger) == "working"


def test_a_crash_reaches_descendants_through_agents_that_have_ended(agents: AgentTree) -> None:
    parent, middle = agents.agent("above"), agents.agent("middle", parent="b/above")
    child = agents.agent("below", parent="b/middle")
    fire(agents.client, middle, "ended", COMPLETED)
    agents.propagate(middle)

    fire(agents.client, parent, "ended", {"exit_code": -9, "abort": "oom", "why": "aborted"})
    agents.propagate(parent)

    assert agents.abort_of(child) == "parent_aborted"
