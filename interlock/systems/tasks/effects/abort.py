"""Propagates an agent's abort to other agents; `machines/abort.py` decides to which."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from interlock import CallError, EffectWork, Event
from interlock.system.tables import AbortReason, TransitionReason
from interlock.systems.tasks.agent_tree import reached
from interlock.systems.tasks.machines.abort import AbortScope
from interlock.systems.tasks.machines.agent.payloads import AgentData
from interlock.systems.tasks.machines.agent.table import Trigger as AgentTrigger

# Triggers that leave the agent's own session at work.
SCOPES: Mapping[str, AbortScope] = {
    AgentTrigger.TOOL_ABORTED: AbortScope.TOOL,
    AgentTrigger.SIBLINGS_ABORTED: AbortScope.SIBLING,
}


def abort(work: EffectWork[AgentData]) -> None:
    """End every agent that the abort reaches. A repetition finds them ended."""
    record = work.records.views.record(work.record.id)
    scope = _scope(work)
    if scope is None:
        return
    for agent, reason in reached(work.records, record, scope).items():
        work.raise_if_stopped()
        _end_agent(work, agent, reason)


def _scope(work: EffectWork[AgentData]) -> AbortScope | None:
    """Return the scope of the event that created this effect, or None if it aborted nothing.

    An earlier abort of the same agent created an effect of its own.
    """
    version = int(work.lease.suffix.partition(".")[0])
    for event in work.records.views.history(work.record.id):
        if isinstance(event, Event) and event.version == version:
            if event.trigger in SCOPES:
                return SCOPES[event.trigger]
            completed = event.payload.get("why") == TransitionReason.COMPLETED
            return None if completed else AbortScope.SESSION
    return None


def _end_agent(work: EffectWork[AgentData], agent: str, reason: AbortReason) -> None:
    end = {"abort": reason, "why": reason.why, "reason": f"{work.record.id} was aborted"}
    # The trigger is refused by an agent that has ended already.
    with suppress(CallError):
        work.records.fire(agent, AgentTrigger.ENDED, end)
