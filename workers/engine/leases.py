"""Takes the lease that is born with a record or its state; it claims nothing that is owed."""

from __future__ import annotations

from interlock.kernel.errors import HeldError
from interlock.kernel.store.commands import InitialLease
from interlock.kernel.store.leases import Lease, Refused
from interlock.workers.engine.dispatch import Dispatch


def initial_lease_of(dispatch: Dispatch, record_id: str, initial_lease: InitialLease) -> Lease:
    """Return the lease that was born with a record's state, or that it was born with."""
    record = dispatch.views.record(record_id)
    machine = dispatch.lifecycle.machine(record.machine)
    mine = [one for one in record.entries if one.token.endswith(f"-{initial_lease.nonce}")]
    if not mine:
        raise HeldError(record_id, "it was taken away again at once")
    entry = mine[0]
    lease = dispatch.leases.claim(
        entry.key(record.id),
        dispatch.effect(record.machine, entry.name),
        nonce=initial_lease.nonce,
        holder=initial_lease.holder,
        schema=machine.schema,
    )
    if isinstance(lease, Refused):
        raise HeldError(record_id, f"it was taken away again at once: {lease.word}")
    return lease
