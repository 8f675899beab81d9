"""Reads the initial lease, which the commit of a new record or state gives to the caller."""

from __future__ import annotations

from interlock.kernel.errors import HeldError
from interlock.kernel.store.leases import Lease, Refused
from interlock.workers.engine.dispatch import Dispatch


def initial_lease(dispatch: Dispatch, record_id: str, nonce: str, holder: str) -> Lease:
    """Return the lease with this nonce that a commit has given to a holder, renewed.

    Raises HeldError if the holder has lost it already.
    """
    record = dispatch.views.record(record_id)
    leased = (entry for entry in record.entries if entry.token.endswith(f"-{nonce}"))
    entry = next(leased, None)
    if entry is None:
        raise HeldError(record.id, "its effect has another holder already, or is over")
    lease = dispatch.leases.claim(
        entry.key(record.id),
        dispatch.effect(record.machine, entry.name),
        nonce=nonce,
        holder=holder,
        schema=dispatch.lifecycle.machine(record.machine).schema,
    )
    if isinstance(lease, Refused):
        raise HeldError(record.id, f"its effect was lost meanwhile: {lease.status}")
    return lease
