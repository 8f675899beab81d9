"""The records that a walk waits for: of a workflow that ends as the walk has it."""

from __future__ import annotations

from contextlib import suppress

from interlock.kernel.errors import CallError
from interlock.workers.client import Client
from interlock.workflow.data import Data
from interlock.workflow.durations import days
from interlock.workflow.workflow import Workflow


class Nothing(Data):
    """Data without a field."""


OUTSIDE = Workflow("explored_outside", Nothing, expires=days(3_650))
OUTSIDE.wait("open", well="done", badly="lost")
OUTSIDE.ends(done=True, lost=False)


def end_outside(client: Client, record_id: str, *, is_success: bool) -> None:
    """End the record that another one waits for, if it can be created and has not ended before."""
    with suppress(CallError):
        client.submit(OUTSIDE, Nothing(), id=record_id)
        client.fire(record_id, "well" if is_success else "badly")
