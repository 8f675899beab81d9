"""Creates a record for a caller outside, where the quota has room, and starts its work."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from interlock.kernel.errors import CallError
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
    fired = dispatch.create(machine, new_id, payload, Call(cause), priority=priority)
    begins = dispatch.lifecycle.machine(machine).first_trigger
    if begins and not payload.get("hold") and fired.version:
        # After a repeated submission it was fired already, and the record may even be pruned.
        with suppress(CallError):
            dispatch.fire(new_id, begins, {}, Call(cause, f"begin:{new_id}"))
    return Submitted(new_id, fired.replayed)
