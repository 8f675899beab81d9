"""Leaves to other processes what only another version of a table knows.

While versions change, workers of both are up. What one of them cannot act on is neither lost nor
postponed for long: its message goes back to the queue, or it is due again in a moment.
"""

from __future__ import annotations

from typing import Any

from celery.exceptions import Ignore
from kombu.exceptions import ContentDisallowed, DecodeError

from interlock.kernel.errors import KernelError, StoreError
from interlock.kernel.moving import is_older
from interlock.kernel.record import Record, split_key
from interlock.kernel.store.views import Views
from interlock.workers.engine.consumer import Meant
from interlock.workers.engine.dispatch import Dispatch

UNREADABLE = (ContentDisallowed, DecodeError, ValueError, TypeError, LookupError, AttributeError)
UNHELD = ("owed", "lapsed")  # the states of an effect that a message may begin


def meant(dispatch: Dispatch, name: object, message: Any) -> Meant:
    """Return whom a message of an unknown task is for. Raises StoreError.

    If the record is one that this process moves, a sweep does that in a moment.
    """
    machine, _, effect = str(name).partition(".")
    record = _named(dispatch, message) if machine in dispatch.machines and effect else None
    if record is None or record.machine != machine:
        return Meant.NOBODY
    (key,), *_ = message.payload
    owed = {entry.key(record.id): entry.name for entry in record.entries if entry.state in UNHELD}
    if record.paused or owed.get(key) != effect:
        return Meant.PAST
    if is_older(dispatch.machines[machine], record):
        dispatch.indexes.poll_soon(dispatch.keys.effects, key)
        return Meant.PAST
    return Meant.OTHERS


def _named(dispatch: Dispatch, message: Any) -> Record | None:
    """Return the record that a message names, as it is stored: no function of its table runs."""
    try:
        (key,), *_ = message.payload
        return Views(dispatch.client, dispatch.keys).record(split_key(key)[0])
    except StoreError:
        raise
    except (KernelError, *UNREADABLE):
        return None


def known_elsewhere(task: str, name: str) -> Ignore:
    """Return the end of a message whose effect another version of the table calls otherwise."""
    return Ignore(f"not claimed: {task} is called {name} by another version of its table")
