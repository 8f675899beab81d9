"""Which agents an abort reaches, by the records of those that live and of those above them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from interlock.system.errors import UnknownRecordError
from interlock.system.records import Records
from interlock.system.tables import AbortReason, Record, root_of
from interlock.systems.tasks.machines.abort import AbortPolicy, AbortScope, Tree, aborts
from interlock.systems.tasks.machines.agent.payloads import AgentData
from interlock.systems.tasks.machines.agent.table import State as AgentState

ALIVE = (AgentState.STARTING, AgentState.WORKING, AgentState.IDLE)


def reached(
    records: Records, agent: Record[AgentData], scope: AbortScope
) -> Mapping[str, AbortReason]:
    """Return the agents that end by an abort of this one, each with its reason.

    The agent's policy decides how far the abort goes. The agent and those between may be dead: a
    command that is no session ends when it has split its task, before the agents of the parts do.
    """
    policy = AbortPolicy(
        tool_to_sibling=agent.data["tool_to_sibling"],
        sibling_to_session=agent.data["sibling_to_session"],
    )
    return aborts(_tree(records, agent), session=agent.id, scope=scope, policy=policy)


def _tree(records: Records, origin: Record[AgentData]) -> Tree:
    """Return the parent of each agent: of the origin, of all that live, and of their ancestors."""
    views, root = records.views, origin.root
    tree: dict[str, str | None] = {}
    pending = [str(origin.id), *views.ids(records.machines["agent"], root=root, states=ALIVE)]
    while pending:
        agent = pending.pop()
        if agent in tree:
            continue
        tree[agent] = None
        with suppress(UnknownRecordError):
            record: Record[AgentData] = views.record(agent)
            parent = record.data.get("parent")
            if parent and root_of(parent) == root:
                tree[agent] = parent
                pending.append(parent)
    return tree
