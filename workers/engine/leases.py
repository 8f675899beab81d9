"""Claims the initial lease, which was created together with a record or with its state."""

from __future__ import annotations

from interlock.kernel.errors import HeldError
from interlock.kernel.store.commands import InitialLease
from interlock.kernel.store.leases import Lease, Refused
from interlock.workers.engine.dispatch import Dispatch


def claim_initial_lease(dispatch: Dispatch, record_id: str, initial_lease: InitialLease) -> Lease:
    """Return the initial lease. Raises HeldError if another process has taken it already."""
    record = dispatch.views.record(record_id)
    machine = dispatch.lifecycle.machine(record.machine)
    leased = [e for e in record.entries if e.token.endswith(f"-{initial_lease.nonce}")]
    if not leased:
        raise HeldError(record_id, "another process took its effect at once")
    entry = leased[0]
    lease = dispatch.leases.claim(
        entry.key(record.id),
        dispatch.effect(record.machine, entry.name),
        nonce=initial_lease.nonce,
        holder=initial_lease.holder,
        schema=machine.schema,
    )
    if isinstance(lease, Refused):
        raise HeldError(record_id, f"another process took its effect at once: {lease.status}")
    return lease
