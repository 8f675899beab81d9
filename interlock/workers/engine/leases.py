"""Reads the initial lease, which the commit of a new record or state gives to the caller."""

from __future__ import annotations

from interlock.kernel.errors import HeldError
from interlock.kernel.store.commands import InitialLease
from interlock.kernel.store.leases import Lease, Refused
from interlock.workers.engine.dispatch import Dispatch


def read_initial_lease(dispatch: Dispatch, record_id: str, initial_lease: InitialLease) -> Lease:
    """Return the lease that a commit has given to this process, with its token.

    A claim with the nonce of that commit returns it, and renews it. Raises HeldError if this
    process has lost it already.
    """
    record = dispatch.views.record(record_id)
    machine = dispatch.lifecycle.machine(record.machine)
    leased = [e for e in record.entries if e.token.endswith(f"-{initial_lease.nonce}")]
    if not leased:
        raise HeldError(record_id, "its effect has another holder already, or is over")
    entry = leased[0]
    lease = dispatch.leases.claim(
        entry.key(record.id),
        dispatch.effect(record.machine, entry.name),
        nonce=initial_lease.nonce,
        holder=initial_lease.holder,
        schema=machine.schema,
    )
    if isinstance(lease, Refused):
        raise HeldError(record_id, f"its effect was lost meanwhile: {lease.status}")
    return lease
