"""The calls with which components and holders of leases fire triggers."""

from __future__ import annotations

from uuid import uuid4

from interlock.kernel.event import Cause
from interlock.kernel.store.commands import Call, Warrant
from interlock.kernel.store.leases import Lease


def component_call(name: str, trigger: str, record_id: str) -> Call:
    """Return the call with which a component, which holds no lease of the record, fires a trigger.

    The log of the record names the component as the actor.
    """
    op_id = f"{name}:{trigger}:{record_id}:{uuid4().hex[:8]}"
    return Call(Cause(name), op_id, Warrant.component(name))


def holder_call(lease: Lease, trigger: str) -> Call:
    """Return the call by which the holder of a lease reports the outcome of its work."""
    warrant = Warrant.token(lease.suffix, lease.token)
    return Call(Cause(lease.name), f"{lease.token}:{trigger}", warrant)
