"""Carries an agent's abort along the chain: ends who must hear of it; who that is, it is told."""

from __future__ import annotations

from contextlib import suppress

from interlock.kernel.errors import CallError, UnknownRecordError
from interlock.kernel.event import Event
from interlock.kernel.machines.tasks.abort import AbortPolicy, AbortScope, Tree, aborts
from interlock.kernel.reason import AbortReason, TransitionReason, why_of
from interlock.kernel.record import Record, partition_of, root_of
from interlock.workers.engine.work import Work
from interlock.workers.tasks.claims import party

PARTY = "abort"
AGENTS_MAX = 10_000
ALIVE = ("starting", "working", "idle")


def abort(work: Work) -> None:
    """End every agent that an abort reaches. A repetition finds them ended."""
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
        _tell(work, agent, reason)


def _scope(work: Work) -> AbortScope | None:
    """Return what was aborted by the very event that owes this: an earlier one has had its own."""
    version = int(work.lease.suffix.partition(".")[0])
    for line in work.dispatch.views.history(work.record.id):
        if isinstance(line, Event) and line.version == version:
            if line.trigger == "abort_raised":
                return AbortScope(line.payload["scope"])
            well = line.payload.get("why") == TransitionReason.COMPLETED
            return None if well else AbortScope.SESSION
    return None


def _tree(work: Work, origin: Record) -> Tree:
    """Return who started whom: the origin, every agent that lives, and all that are above them."""
    machine, views = work.machine, work.dispatch.views
    partition, root = partition_of(origin.id), root_of(origin.id)
    tree: dict[str, str | None] = {}
    waiting = [str(origin.id)]
    for state in ALIVE:
        found = views.list_in_partition(machine, state, partition, AGENTS_MAX)
        waiting += [one for one in found if root_of(one) == root]
    while waiting:
        one = waiting.pop()
        if one in tree:
            continue
        tree[one] = None
        with suppress(UnknownRecordError):
            above = views.record(one).data.get("parent")
            if above and root_of(above) == root:
                tree[one] = above
                waiting.append(above)
    return tree


def _tell(work: Work, agent: str, reason: AbortReason) -> None:
    end = {"abort": reason, "why": why_of(reason), "reason": f"{work.record.id} was aborted"}
    # Who has ended already has nothing left to hear.
    with suppress(CallError):
        work.dispatch.fire(agent, "ended", end, party(PARTY, "ended", agent))
