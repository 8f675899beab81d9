"""Takes the rows that follow from a record's data alone in the commit that enters their state.

Such a row needs nothing from outside, so that its record would only wait for a worker to fire it.
Each is a transition of its own in the log; the states between owe nothing. This is what SCXML calls
an eventless transition (W3C, State Chart XML, section 3.13).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from interlock.kernel.amounts import summed
from interlock.kernel.calling import called
from interlock.kernel.decision import Decision
from interlock.kernel.errors import CallError
from interlock.kernel.machine import Machine
from interlock.kernel.owing import NOTHING, entered_effects, left_effects, shares_changed
from interlock.kernel.table import Mode
from interlock.kernel.trigger import CREATED

HOPS_MAX = 8  # of one commit; the effects of the state that is reached then go on from there


def with_followers(machine: Machine, decision: Decision) -> Decision:
    """Return a decision together with all rows that follow it from the data alone."""
    return joined(machine, [decision, *_followers(machine, decision)])


def created(machine: Machine, creation: Decision, *, begins: bool) -> Decision:
    """Return a creation together with what follows it; with the first trigger, if it `begins`.

    The first trigger is left out where deciding it needs other records, or where it is refused.
    """
    hops, first = [creation], machine.first_trigger
    if begins and first and not machine.reads(creation.after.state, first):
        with suppress(CallError):
            hops.append(machine.decide(creation.after, first, machine.admit(first, {})))
    hops += _followers(machine, hops[-1])
    # The script that creates a record ends and counts nothing, and a name that another record holds
    # must not refuse the creation.
    last = next((n for n, hop in enumerate(hops) if n and _is_late(hop)), len(hops))
    return joined(machine, hops[:last])


def _is_late(hop: Decision) -> bool:
    counts = any(hop.deltas.values()) or bool(hop.bounds)
    return hop.ends or hop.counts_as_ended or counts or _takes_names(hop)


def _followers(machine: Machine, decision: Decision) -> Iterator[Decision]:
    for _ in range(HOPS_MAX):
        # A row that stays enters nothing, one that carries has its effect at work still, and one
        # that begins a countdown waits for it.
        if decision.mode in (Mode.INTERNAL, Mode.CARRY) or any(o.countdown for o in decision.own):
            return
        follower = _follower(machine, decision)
        # Its effect fires a row that others may refuse: together with it, what has happened
        # already, such as an outcome, would be refused too.
        if follower is None or _is_refusable(follower):
            return
        yield follower
        decision = follower


def _is_refusable(hop: Decision) -> bool:
    """Return whether the store, or the machine of new children, may refuse a transition."""
    return _takes_names(hop) or bool(hop.children) or any(hop.deltas.values())


def _takes_names(hop: Decision) -> bool:
    return hop.shares is not None and bool(hop.shares.takes)


def _follower(machine: Machine, decision: Decision) -> Decision | None:
    record = decision.after
    for row in machine.followers:
        if row.source != record.state or row.follows is None:
            continue
        name = f"what follows {row.source}/{row.trigger}"
        payload = called(machine.name, name, row.follows, record.data)
        if payload is None:
            continue
        trigger = str(row.trigger)
        try:
            return machine.decide(record, trigger, machine.admit(trigger, payload))
        except CallError:
            continue  # the effect of the state reports why, as ever
    return None


def joined(machine: Machine, hops: Sequence[Decision]) -> Decision:
    """Return one decision for transitions that follow each other, each from the one before.

    The record owes what the rows name, what leaving the first state and entering the last owes, and
    nothing of the states between.
    """
    first, last = hops[0], hops[-1]
    if first is last:
        return first
    before, after = first.before, last.after
    creates = first.trigger == CREATED
    left, entered = machine.stage(before.state), machine.stage(after.state)
    bounds: dict[str, int | None] = {}
    for hop in hops:
        bounds |= hop.bounds
    owes = sum((hop.own for hop in hops), ())
    owes += entered_effects(machine.name, entered, after.data)
    owes += () if creates else left_effects(left, before.data, entered, after.data)
    shared = NOTHING if creates else left.shares(before.data)
    return replace(
        last,
        before=before,
        trigger=first.trigger,
        payload=first.payload,
        facts=first.facts,
        mode=first.mode,
        owes=owes + machine.mirrored(entered, after.data),
        interrupts=first.interrupts,
        by=first.by,
        names_proposal=first.names_proposal,
        shares=shares_changed(shared, entered.shares(after.data)),
        counts_as_ended=any(hop.counts_as_ended for hop in hops),
        bounds=bounds,
        deltas=summed(hop.deltas for hop in hops),
        path=tuple(hops),
    )
