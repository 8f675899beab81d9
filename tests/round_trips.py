"""Counts the round trips of this process to its stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from redis.connection import AbstractConnection

from interlock.kernel.store.call_times import CallTimes


@contextmanager
def round_trips() -> Iterator[Callable[[], int]]:
    """Yield a function that returns how often the block has sent to a server by now.

    A pipeline is sent at once. The counts of a server have the calls of other processes too. In the
    block, no times of calls are added to the store, as a process otherwise does every few seconds.
    """
    count = 0
    send: Callable[..., None] = AbstractConnection.send_packed_command

    def counted(*arguments: Any, **options: Any) -> None:
        nonlocal count
        count += 1
        send(*arguments, **options)

    with (
        patch.object(AbstractConnection, "send_packed_command", counted),
        patch.object(CallTimes, "count", return_value=False),
    ):
        yield lambda: count
