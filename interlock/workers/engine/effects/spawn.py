"""Creates the children that a row has listed, each exactly once."""

from __future__ import annotations

from interlock.kernel.errors import ClosedParentError
from interlock.kernel.event import Cause
from interlock.kernel.record import child_ids
from interlock.kernel.store.children import children_listed
from interlock.kernel.table import UNBOUND
from interlock.kernel.traits import Children
from interlock.workers.engine.work import EffectWork


def spawn(work: EffectWork) -> None:
    """Create every child in the list. A repetition skips those that exist.

    Raises IdTakenError where another record has the id of a child. The parent then waits, and a
    person is asked in the end.
    """
    dispatch, record = work.dispatch, work.record
    generation = int(work.lease.suffix.partition(".")[0])
    name = record.spawning(work.lease.suffix)
    kind = work.machine.waits_for(name)
    assert isinstance(kind, Children), "a row that spawns names a kind of children"
    listed = children_listed(dispatch.client, dispatch.keys, record.id, generation)
    if listed is None:  # by a version of this program that kept the list in the data alone
        entries = record.data[kind.listed_in]
        listed = kind.listed(record.data, child_ids(record.id, generation, len(entries)))
    machine = dispatch.lifecycle.machine(kind.machine or record.machine)
    cause = Cause("spawn", f"part of {record.id}")
    for child_id, child in zip(child_ids(record.id, generation, len(listed)), listed, strict=True):
        work.raise_if_stopped()
        # A child of another machine keeps the bounds that it would have as a root.
        is_other = machine is not work.machine
        own = machine.bounds(machine.initial_data(child.payload)) if is_other else UNBOUND
        try:
            dispatch.lifecycle.create(
                machine.name,
                child_id,
                child.payload,
                cause,
                priority=record.priority,
                countdown=f"{name}:{generation}",
                bounds={**own, **child.bounds},
                begins=True,
            )
        except ClosedParentError:
            return  # the parent or its countdown has ended: no more children
