"""Creates threads from the messages of producers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.systems.threads.client import Threads
from interlock.workers.client import Client
from interlock.workers.engine.submission import Submitted


def accept(client: Client, thread: str, payload: Mapping[str, Any], priority: int) -> Submitted:
    """Create a thread. Raises CallError if the message can never be accepted."""
    return Threads(client).submit(payload, id=thread, priority=priority)
