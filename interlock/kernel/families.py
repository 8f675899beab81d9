"""What a decision about a record means to its family."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from interlock.kernel.amounts import check_deltas
from interlock.kernel.decision import Decision
from interlock.kernel.effect import CASCADE, Kind
from interlock.kernel.errors import InvalidPayloadError, UnknownMachineError
from interlock.kernel.event import Cause, Event, Note
from interlock.kernel.machine import Machine
from interlock.kernel.record import Record, child_ids, record_id
from interlock.kernel.table import (
    Owed,
    Terminal,
)
from interlock.kernel.traits import Children


def kind_of_child(machines: Mapping[str, Machine], record: Record) -> Children | None:
    """Return which kind of children of its parent a record is; None if no countdown counts it."""
    parent = machines.get(record.parent_machine or record.machine) if record.counted else None
    kind = parent.waits_for(record.counted.partition(":")[0]) if parent else None
    return kind if isinstance(kind, Children) else None


def is_success(machine: Machine, record: Record) -> bool:
    """Whether a record has ended with success."""
    stage = machine.stage(record.state)
    return isinstance(stage, Terminal) and stage.is_success


def is_lost(machine: Machine, record: Record) -> bool:
    """Whether a record has ended without success, or counts as ended before it ends."""
    stage = machine.stage(record.state)
    if isinstance(stage, Terminal):
        return not stage.is_success
    return stage.is_counted_as_ended(record.data)


def reporting_loss(machines: Mapping[str, Machine], decision: Decision, cause: Cause) -> Decision:
    """Let a child that is lost owe the effect that reports it, where its parent wants to know.

    A parent that closes its children does not: it has ended.
    """
    child, machine = decision.after, machines[decision.after.machine]
    closed = decision.trigger == machine.close_trigger and cause.actor == CASCADE.name
    if closed or not (decision.ends or decision.counts_as_ended) or not is_lost(machine, child):
        return decision
    kind = kind_of_child(machines, child)
    if kind is None or not kind.lost_trigger:
        return decision
    return replace(decision, owes=(*decision.owes, Owed(CASCADE, Kind.TRANSITION)))


def check_children(machines: Mapping[str, Machine], decision: Decision) -> None:
    """Refuse a decision to create children that could not be created, while a caller can see it.

    Raises InvalidPayloadError, InvalidIdError.
    """
    kind, listed, parent = decision.spawns, decision.children, decision.after
    if kind is None or not listed:
        return
    if len(listed) > Children.NUMBER_MAX:
        problem = f"it lists {len(listed)} children, the limit is {Children.NUMBER_MAX}"
        raise InvalidPayloadError(kind.listed_in, [problem])
    record_id(child_ids(parent.id, parent.version, len(listed))[-1])
    name = kind.machine or parent.machine
    if name not in machines:
        raise UnknownMachineError(name, sorted(machines))
    machine = machines[name]
    for number, child in enumerate(listed, start=1):
        try:
            machine.initial_data(child.payload)
            check_deltas({each: n for each, n in child.bounds.items() if n is not None})
        except InvalidPayloadError as refusal:
            which = f"number {number} of the {kind.countdown}"
            raise InvalidPayloadError(which, refusal.problems) from None


def countdowns_begun(machine: Machine, lines: Iterable[Event | Note]) -> list[str]:
    """Return the countdowns that a log has begun, <name>:<generation>, the oldest first.

    Where rows of one cell begin different countdowns, each of them is named.
    """
    events = (line for line in lines if isinstance(line, Event))
    begun = [
        f"{row.spawns}:{event.version}"
        for event in events
        for row in machine.rows(event.source, event.trigger)
        if row.spawns and row.target == event.target
    ]
    return list(dict.fromkeys(begun))


def strangers(machines: Mapping[str, Machine]) -> Iterator[str]:
    """Name each machine whose children are of one that does not exist, or cannot be closed."""
    for machine in machines.values():
        for kind in machine.children:
            of = kind.machine or machine.name
            if of not in machines:
                yield f"{machine.name}: its {kind.countdown} are of {of}, which is no machine"
            elif not machines[of].close_trigger:
                yield (
                    f"{machine.name}: its {kind.countdown} are of {of}, which names no "
                    "close_trigger: they would go on when their parent has ended"
                )
