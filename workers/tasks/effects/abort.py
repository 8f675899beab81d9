"""Propagates an agent's abort to other agents; `kernel.machines.tasks.abort` decides to which."""

from __future__ import annotations

from contextlib import suppress

from interlock.kernel.errors import CallError, UnknownRecordError
from interlock.kernel.event import Event
from interlock.kernel.machines.tasks.abort import AbortPolicy, AbortScope, Tree, aborts
from interlock.kernel.reason import AbortReason, TransitionReason, why_of
from interlock.kernel.record import Record, root_of
from interlock.workers.engine.work import Work
from interlock.workers.tasks.agents import ALIVE
from interlock.workers.tasks.claims import component_call

COMPONENT = "abort"
# Triggers that leave the agent's own session at work.
SCOPES = {"tool_aborted": AbortScope.TOOL, "siblings_aborted": AbortScope.SIBLING}


def abort(work: Work) -> None:
    """End every agent that the abort reaches. A repetition finds them ended."""
    record = work.dispatch.views.record(work.record.id)
    scope = _scope(work)
    if scope is None:
        return
    tree = _tree(work, record)
    data = record.data
    policy = AbortPolicy(
        tool_to_sibling=data["tool_to_sibling"], sibling_to_session=data["sibling_to_session"]
    )
    for agent, reason in aborts(tree, session=record.id, scope=scope, policy=policy).items():
        work.raise_if_stopped()
        _end_agent(work, agent, reason)


def _scope(work: Work) -> AbortScope | None:
    """Return the scope of the event that created this effect, or None if it aborted nothing.

    An earlier abort of the same agent created an effect of its own.
    """
    version = int(work.lease.suffix.partition(".")[0])
    for event in work.dispatch.views.history(work.record.id):
        if isinstance(event, Event) and event.version == version:
            if event.trigger in SCOPES:
                return SCOPES[event.trigger]
            completed = event.payload.get("why") == TransitionReason.COMPLETED
            return None if completed else AbortScope.SESSION
    return None


def _tree(work: Work, origin: Record) -> Tree:
    """Return the parent of each agent: of the origin, of all that live, and of their ancestors."""
    machine, views = work.machine, work.dispatch.views
    root = root_of(origin.id)
    tree: dict[str, str | None] = {}
    pending = [str(origin.id), *views.ids(machine, root=root, states=ALIVE)]
    while pending:
        agent = pending.pop()
        if agent in tree:
            continue
        tree[agent] = None
        with suppress(UnknownRecordError):
            parent = views.record(agent).data.get("parent")
            if parent and root_of(parent) == root:
                tree[agent] = parent
                pending.append(parent)
    return tree


def _end_agent(work: Work, agent: str, reason: AbortReason) -> None:
    end = {"abort": reason, "why": why_of(reason), "reason": f"{work.record.id} was aborted"}
    # The trigger is refused by an agent that has ended already.
    with suppress(CallError):
        work.dispatch.fire(agent, "ended", end, component_call(COMPONENT, "ended", agent))
