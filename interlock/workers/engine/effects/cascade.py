"""Propagates ends in a family: to a parent, and to the children of a parent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.kernel.effect import CASCADE, Kind
from interlock.kernel.errors import AnotherVersionError, CallError, HeldError, UnknownRecordError
from interlock.kernel.event import Cause, Event
from interlock.kernel.families import is_lost, kind_of_child
from interlock.kernel.machine import Machine
from interlock.kernel.record import Record, RecordId, place_of
from interlock.kernel.store.commands import Call, Warrant
from interlock.kernel.store.subscriptions import MISSING, PLACEHOLDER, Subscriber
from interlock.kernel.table import Mode, Stage, Terminal, Waiting
from interlock.kernel.traits import Children, Prerequisites
from interlock.workers.engine.lost_children import why_lost
from interlock.workers.engine.work import EffectWork, Outcome

SEQUENCE_MAX = 2**63  # after it no line of a version has a number in a log


def cascade(work: EffectWork) -> Outcome | None:
    """Advance a parent after its children, close its children, or recheck its countdown.

    A child that is lost is reported to its parent.
    """
    if work.lease.kind is Kind.ADVANCE:
        return advance(work)
    record = work.dispatch.views.record(work.record.id)
    report_loss(work, record)
    version = int(work.lease.suffix.partition(".")[0])
    if isinstance(work.machine.stage(record.state), Terminal):
        close(work, record, record.version)
    elif leaves_children(work, version):
        end_creation(work, record, version)
        close(work, record, version)
    else:
        recheck(work, record)
    return None


def advance(work: EffectWork) -> Outcome | None:
    """Fire the end of a countdown, unless the record no longer waits for it."""
    generation, _, name = work.lease.suffix.partition(":")[0].partition(".advance.")
    machine, record, kind = work.machine, work.record, work.machine.waits_for(name)
    assert kind, "what a countdown counts is known"
    countdown = f"{name}:{generation}"
    tally = work.dispatch.views.tally(record.id, countdown)
    payload: dict[str, Any] = {"tally": tally}
    says_why = machine.taken_by(kind.advance_trigger, {"detail": ""})
    if (
        isinstance(kind, Children)
        and (kind.lost_trigger or says_why)
        and waits_for(machine, record, countdown)
    ):
        lost = lost_of(work, kind, tally)
        # The loss of the last child is reported by an effect of its own, which may come later.
        for child in lost if kind.lost_trigger else ():
            report_loss(work, child)
        record = work.dispatch.views.record(record.id)
        if says_why:
            payload["detail"] = why_lost(work.dispatch.views, lost)
    if isinstance(kind, Prerequisites):
        # Their countdown goes on in any state in which its end has a transition.
        waits = bool(machine.explain(record, kind.advance_trigger, payload).target)
    else:
        waits = waits_for(machine, record, countdown)
    return Outcome(kind.advance_trigger, payload) if waits else None


def lost_of(work: EffectWork, kind: Children, tally: Mapping[str, int]) -> list[Record]:
    """Return the children that have ended without success. They are read only if there are any."""
    machine = work.dispatch.lifecycle.machine(kind.machine or work.machine.name)
    well = {str(stage.state) for stage in machine.stages if is_well(stage)}
    if tally.keys() <= well:
        return []
    return [child for child in work.children(kind.countdown) if is_lost(machine, child)]


def is_well(stage: Stage) -> bool:
    """Whether a state is the end of a success."""
    return isinstance(stage, Terminal) and stage.is_success


def waits_for(machine: Machine, record: Record, countdown: str) -> bool:
    """Whether a record waits in its present state for the end of this countdown."""
    stage = machine.stage(record.state)
    return isinstance(stage, Waiting) and countdown == f"{stage.countdown}:{record.entered}"


def report_loss(work: EffectWork, child: Record) -> None:
    """Fire at the parent that a child is lost, as long as the parent waits for it.

    Repeating it changes nothing. A refusal of the parent is noted.
    """
    kind = kind_of_child(work.dispatch.machines, child)
    parent_id = child.parent
    if kind is None or parent_id is None or not kind.lost_trigger:
        return
    parent = work.dispatch.views.record(parent_id)
    of_child, of_parent = (work.dispatch.lifecycle.machine(one.machine) for one in (child, parent))
    if not is_lost(of_child, child) or not waits_for(of_parent, parent, child.counted):
        return
    call = Call(
        Cause(CASCADE.name),
        op_id=f"loss:{child.id}:{child.counted}",
        warrant=Warrant.component(CASCADE.name),
    )
    loss = {"child": child.id, "state": child.state}
    why = {"detail": why_lost(work.dispatch.views, [child])}
    loss |= of_parent.taken_by(kind.lost_trigger, why)
    try:
        work.dispatch.lifecycle.fire(parent, kind.lost_trigger, loss, call)
    except CallError as refusal:
        work.audit("loss_refused", {"child": child.id, "why": str(refusal)})


def leaves_children(work: EffectWork, version: int) -> bool:
    """Whether the row of this version owes this effect on leaving its state: its children end."""
    place = (work.record.id, f"{version - 1}-{SEQUENCE_MAX}")
    lines = work.dispatch.views.lines_after([place], 1)[place] or []
    return any(
        row.effect == CASCADE and row.mode is not Mode.INTERNAL and row.target == event.target
        for _, event in lines
        if isinstance(event, Event)
        for row in work.machine.rows(event.source, event.trigger)
    )


def end_creation(work: EffectWork, record: Record, version: int) -> None:
    """Let no more children be created in countdowns that were begun before this version."""
    for entry in record.entries:
        generation = int(entry.suffix.partition(".")[0])
        if entry.kind is Kind.SPAWN and generation < version:
            counting = Subscriber.of(record, f"{entry.countdown}:{generation}")
            work.dispatch.lifecycle.leave_countdown(counting, PLACEHOLDER, "")


def close(work: EffectWork, record: Record, version: int) -> None:
    """Close every live child that was listed before this version of the record.

    Each closes its own children. Repeating it changes nothing.

    A child that refuses does not keep the others from being closed; it is asked again later.
    """
    failures: list[Exception] = []
    for child_id in work.dispatch.views.children(record.id):
        work.raise_if_stopped()
        if place_of(child_id)[0] >= version:
            continue
        try:
            _close_one(work, record, child_id)
        except (AnotherVersionError, CallError, HeldError, LookupError) as failure:
            failures.append(failure)
    if failures:
        raise failures[0]


def _close_one(work: EffectWork, record: Record, child_id: RecordId) -> None:
    child = work.dispatch.views.record(child_id)
    machine = work.dispatch.lifecycle.machine(child.machine)
    trigger = machine.close_trigger
    if isinstance(machine.stage(child.state), Terminal):
        return
    reason = f"its parent {record.id} is {record.state}"
    payload = machine.taken_by(trigger, {"reason": reason})
    call = Call(Cause(CASCADE.name, "" if payload else reason), op_id=f"close:{work.key}")
    try:
        work.dispatch.lifecycle.fire(child_id, trigger, payload, call)
    except CallError:
        child = work.dispatch.views.record(child_id)
        # A child that is being verified or recovered ends by itself.
        if trigger in machine.legal(child.state):
            raise


def recheck(work: EffectWork, record: Record) -> None:
    """Take children that have ended, but are still counted, out of the record's countdown."""
    stage = work.machine.stage(record.state)
    if not (isinstance(stage, Waiting) and stage.countdown):
        return
    counting = Subscriber.of(record, f"{stage.countdown}:{record.entered}")
    for member in work.dispatch.views.counted(record.id, counting.countdown) - {PLACEHOLDER}:
        work.raise_if_stopped()
        try:
            child = work.dispatch.views.record(member)
        except UnknownRecordError:
            work.dispatch.lifecycle.leave_countdown(counting, member, MISSING)
            continue
        machine = work.dispatch.lifecycle.machine(child.machine)
        if isinstance(machine.stage(child.state), Terminal):
            work.dispatch.lifecycle.leave_countdown(counting, member, child.state)
