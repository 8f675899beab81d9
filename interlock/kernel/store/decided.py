"""What a decision to create or change a record means to the scripts: their keys, and its events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.kernel.decision import Decision
from interlock.kernel.effect import Kind
from interlock.kernel.event import Cause, Event
from interlock.kernel.machine import Machine
from interlock.kernel.record import Record, RecordId, ancestors, parent_of, partition_of
from interlock.kernel.store import codec
from interlock.kernel.store.keys import Keys
from interlock.kernel.table import ACTORS, CREATED


def records_above(machine: Machine, record: Record, countdown: str) -> Mapping[RecordId, str]:
    """Return the records that a new one is below, and the machine that each must be of.

    The parent that counts a child in a countdown is known to be right.
    """
    prefix = machine.placement.id_prefix
    return {} if countdown else dict(zip(ancestors(record.id), prefix, strict=True))


def create_keys(keys: Keys, machine: Machine, decision: Decision, countdown: str) -> dict[str, Any]:
    """Return the keys of the script that creates a record, by name, but those of its messages."""
    record, is_logged = decision.after, machine.bookkeeping.in_family_log
    partition, parent = partition_of(record.id), parent_of(record.id) if countdown else None
    joined: list[str] = []
    if parent:
        joined = [keys.record(parent), keys.members(parent, countdown), keys.children(parent)]
    return {
        "record": keys.record(record.id),
        "counters": keys.counters(record.id),
        "log": keys.log(record.id),
        "tombstone": keys.tombstone(record.id),
        "effects": keys.effects(partition),
        "timers": keys.timers(partition),
        "waits": keys.waits(partition),
        "state_index": keys.state_index(record.id, machine.name, record.state),
        "creation_index": keys.creation_index(partition, machine.name),
        "search_index": keys.search_index(partition),
        "metrics": keys.metrics(partition),
        "feed": keys.feed(partition),
        "spawn_members": _spawn_members(keys, decision),
        "parent_keys": joined,
        "shared_keys": _shared_keys(keys, decision),
        "family_log": [keys.family_log(record.id)] if is_logged else [],
    }


def commit_keys(keys: Keys, machine: Machine, decision: Decision) -> dict[str, Any]:
    """Return the keys of the script that commits, by name, but those of its messages.

    Those of a parent that counts the record are missing too.
    """
    before, after = decision.before, decision.after
    partition, is_logged = partition_of(after.id), machine.bookkeeping.in_family_log
    return {
        "record": keys.record(after.id),
        "log": keys.log(after.id),
        "ops": keys.ops(after.id),
        "op_times": keys.op_times(after.id),
        "effects": keys.effects(partition),
        "timers": keys.timers(partition),
        "waits": keys.waits(partition),
        "old_state_index": keys.state_index(after.id, machine.name, before.state),
        "new_state_index": keys.state_index(after.id, machine.name, after.state),
        "ended_index": keys.ended(partition),
        "search_index": keys.search_index(partition),
        "metrics": keys.metrics(partition),
        "feed": keys.feed(partition),
        "spawn_members": _spawn_members(keys, decision),
        "saved": keys.saved(after.id),
        "chain": keys.chain(after.id),
        "fact_records": [*map(keys.record, decision.facts)],
        "subscribers": [keys.subscribers(after.id)] if decision.ends else [],
        "shared_keys": _shared_keys(keys, decision),
        "family_log": [keys.family_log(after.id)] if is_logged else [],
    }


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


def hops_plan(
    machine: Machine,
    decision: Decision,
    cause: Cause,
    op_id: str,
    deltas: Sequence[Mapping[str, int]],
) -> dict[str, Any]:
    """Return the event of each transition of a decision, its state, and the data of the last."""
    events: list[bytes] = []
    data = b""
    for hop, counted in zip(decision.hops, deltas, strict=True):
        data = codec.encode(hop.after.data, "the data", codec.DATA_BYTES_MAX)
        # Who creates a record also fires its first trigger.
        asked = not events or hop.trigger == machine.first_trigger
        why = cause if asked else _cause(hop, cause)
        events.append(_event(machine, hop, why, op_id, counted, codec.digest(data)))
    return {"events": events, "states": [hop.after.state for hop in decision.hops], "data": data}


def _cause(follower: Decision, cause: Cause) -> Cause:
    """Return the effect that would have fired a row, had its record had to wait for that."""
    effect = next((name for name in follower.by if name not in ACTORS), "")
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
