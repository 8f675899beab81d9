"""Creates a record for a caller outside, where the quota has room, and starts its work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.kernel.event import Cause
from interlock.kernel.store.commands import Call
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.submission import Submitted, check_submission


def submit_record(
    dispatch: Dispatch,
    machine: str,
    new_id: str,
    payload: Mapping[str, Any],
    cause: Cause,
    *,
    priority: int = 5,
    is_admitted: bool = False,
) -> Submitted:
    """Create a record, and fire the first trigger of its machine, if it has one.

    A repetition with the same payload changes nothing. Raises IdTakenError if the id exists with
    another payload, and QuotaError if the deployment has no room for another record, unless the
    quota has admitted it before.
    """
    check_submission(payload, new_id, priority)
    if not is_admitted:
        dispatch.quota.admit([new_id])
    begins = not payload.get("hold")
    call = Call(cause)
    fired = dispatch.create(machine, new_id, payload, call, priority=priority, begins=begins)
    return Submitted(new_id, fired.replayed)
