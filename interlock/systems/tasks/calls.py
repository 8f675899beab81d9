"""The calls with which components and holders of leases fire triggers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import uuid4

from interlock import CallError
from interlock.system.records import Call, Dispatch, Lease, Warrant
from interlock.system.tables import Cause


def component_call(name: str, trigger: str, record_id: str) -> Call:
    """Return the call with which a component, which holds no lease of the record, fires a trigger.

    The log of the record names the component as the actor.
    """
    op_id = f"{name}:{trigger}:{record_id}:{uuid4().hex[:8]}"
    return Call(Cause(name), op_id, Warrant.component(name))


def fire_if_taken(
    dispatch: Dispatch, name: str, record_id: str, trigger: str, payload: Mapping[str, Any]
) -> None:
    """Fire a trigger as a component; a record that does not take it any more is left as it is."""
    with suppress(CallError):
        call = component_call(name, trigger, record_id)
        dispatch.lifecycle.fire(record_id, trigger, payload, call)


def holder_call(lease: Lease, trigger: str) -> Call:
    """Return the call by which the holder of a lease reports the outcome of its work."""
    warrant = Warrant.token(lease.suffix, lease.token)
    return Call(Cause(lease.name), f"{lease.token}:{trigger}", warrant)
