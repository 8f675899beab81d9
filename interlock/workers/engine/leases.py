"""Reads the initial lease, which the commit of a new record or state gives to the caller."""

from __future__ import annotations

from interlock.kernel.errors import HeldError
from interlock.kernel.record import Entry, Record
from interlock.kernel.store.commands import sanitized
from interlock.kernel.store.leases import Lease, Refused
from interlock.workers.engine.dispatch import Dispatch


def initial_lease(dispatch: Dispatch, record_id: str, nonce: str, holder: str) -> Lease:
    """Return the lease with this nonce that a commit has given to a holder, with its token.

    Raises HeldError if the holder has lost it already.
    """
    record = dispatch.views.record(record_id)
    leased = (entry for entry in record.entries if entry.token.endswith(f"-{nonce}"))
    return _renewed(dispatch, record, next(leased, None), holder)


def lease_of_creation(dispatch: Dispatch, record_id: str, holder: str) -> Lease:
    """Return the lease that a holder got as it created a record, now or in an earlier call.

    Raises HeldError if the holder has lost it already.
    """
    record = dispatch.views.record(record_id)
    leased = (entry for entry in record.entries if entry.holder == sanitized(holder))
    return _renewed(dispatch, record, next(leased, None), holder)


def _renewed(dispatch: Dispatch, record: Record, entry: Entry | None, holder: str) -> Lease:
    """Return the lease of an entry, renewed: a claim with the nonce of its token gets it again."""
    if entry is None:
        raise HeldError(record.id, "its effect has another holder already, or is over")
    lease = dispatch.leases.claim(
        entry.key(record.id),
        dispatch.effect(record.machine, entry.name),
        nonce=entry.token.rpartition("-")[2],
        holder=holder,
        schema=dispatch.lifecycle.machine(record.machine).schema,
    )
    if isinstance(lease, Refused):
        raise HeldError(record.id, f"its effect was lost meanwhile: {lease.status}")
    return lease
