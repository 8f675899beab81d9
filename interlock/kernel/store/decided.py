"""What a decision to create or change a record means to the scripts: their keys, and its events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.kernel.decision import Decision
from interlock.kernel.effect import Kind, Sweeper
from interlock.kernel.event import Cause, Event
from interlock.kernel.machine import Machine
from interlock.kernel.record import Record, RecordId, ancestors, parent_of, partition_of
from interlock.kernel.store import codec
from interlock.kernel.store.keys import Keys, KeysOf
from interlock.kernel.table import ACTORS
from interlock.kernel.trigger import CREATED


def records_above(machine: Machine, record: Record, countdown: str) -> Mapping[RecordId, str]:
    """Return the records that a new one is below, and the machine that each must be of.

    The parent that counts a child in a countdown is known to be right.
    """
    prefix = machine.placement.id_prefix
    return {} if countdown else dict(zip(ancestors(record.id), prefix, strict=True))


def create_keys(
    keys: Keys, machine: Machine, decision: Decision, countdown: str, **others: Any
) -> KeysOf:
    """Return the keys of the script that creates a record, with those that the caller adds."""
    record, is_logged = decision.after, machine.bookkeeping.in_family_log
    parent = parent_of(record.id) if countdown else None
    joined: list[str] = []
    if parent:
        joined = [keys.record(parent), keys.members(parent, countdown), keys.children(parent)]
    return keys.of(
        record.id,
        state_index=keys.state_index(record.id, machine.name, record.state),
        creation_index=keys.creation_index(partition_of(record.id), machine.name),
        spawn_members=_spawn_members(keys, decision),
        parent_keys=joined,
        shared_keys=_shared_keys(keys, decision),
        family_log=[keys.family_log(record.id)] if is_logged else [],
        **others,
    )


def move_keys(keys: Keys, machine: Machine, decision: Decision, **others: Any) -> KeysOf:
    """Return the keys of a script that brings a record from one state to another, and others."""
    before, after = decision.before, decision.after
    is_logged = machine.bookkeeping.in_family_log
    return keys.of(
        after.id,
        old_state_index=keys.state_index(after.id, machine.name, before.state),
        new_state_index=keys.state_index(after.id, machine.name, after.state),
        family_log=[keys.family_log(after.id)] if is_logged else [],
        **others,
    )


def commit_keys(keys: Keys, machine: Machine, decision: Decision, **others: Any) -> KeysOf:
    """Return the keys of the script that commits, with those that the caller adds."""
    record_id = decision.after.id
    return move_keys(
        keys,
        machine,
        decision,
        spawn_members=_spawn_members(keys, decision),
        chain=keys.chain(record_id),
        fact_records=[*map(keys.record, decision.facts)],
        subscribers=[keys.subscribers(record_id)] if decision.ends else [],
        shared_keys=_shared_keys(keys, decision),
        **others,
    )


def _spawn_members(keys: Keys, decision: Decision) -> str:
    countdown = next((o.countdown for o in decision.owes if o.kind is Kind.SPAWN), "none")
    return keys.members(decision.after.id, f"{countdown}:{decision.after.version}")


def _shared_keys(keys: Keys, decision: Decision) -> list[str]:
    shares, record_id = decision.shares, decision.after.id
    if shares is None:
        return []
    left = keys.queue(record_id, shares.left_queue)
    entered = keys.queue(record_id, shares.entered_queue)
    held = [keys.holds(record_id), keys.hold_queue(record_id)]
    return [*held, left, entered, keys.queues(record_id)]


def events_plan(
    machine: Machine,
    decision: Decision,
    cause: Cause,
    op_id: str,
    deltas: Sequence[Mapping[str, int]],
) -> dict[str, Any]:
    """Return the event of each transition of a decision, and the data after the last."""
    events: list[bytes] = []
    data = b""
    for hop, counted in zip(decision.hops, deltas, strict=True):
        data = codec.encode(hop.after.data, "the data", codec.DATA_BYTES_MAX)
        # Who creates a record also fires its first trigger.
        asked = not events or hop.trigger == machine.first_trigger
        why = cause if asked else _cause(hop, cause)
        events.append(_event(machine, hop, why, op_id, counted, codec.digest(data)))
    return {"events": events, "data": data}


def hops_plan(
    machine: Machine,
    decision: Decision,
    cause: Cause,
    op_id: str,
    deltas: Sequence[Mapping[str, int]],
) -> dict[str, Any]:
    """Return what `events_plan` returns, and the state after each transition."""
    events = events_plan(machine, decision, cause, op_id, deltas)
    return events | {"states": [hop.after.state for hop in decision.hops]}


def _cause(follower: Decision, cause: Cause) -> Cause:
    """Return the effect that would have fired a row, had its record had to wait for that."""
    others = (name for name in follower.by if not isinstance(name, Sweeper))
    effect = next((name for name in others if name not in ACTORS), "")
    return Cause(effect) if effect else cause


def _event(
    machine: Machine,
    hop: Decision,
    cause: Cause,
    op_id: str,
    deltas: Mapping[str, int],
    data_hash: str,
) -> bytes:
    creates = hop.trigger == CREATED
    return codec.event_bytes(
        Event(
            record_id=hop.after.id,
            version=hop.after.version,
            trigger=hop.trigger,
            source="" if creates else hop.before.state,
            target=hop.after.state,
            payload=hop.payload,
            cause=cause,
            facts=hop.facts,
            explanation=hop.explanation,
            table=machine.digest,
            data_hash=data_hash,
            op_id=op_id,
            deltas=deltas,
            says=hop.says,
        )
    )
