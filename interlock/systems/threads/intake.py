"""Creates threads from the messages of producers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock import Client, Submitted
from interlock.systems.threads.client import Threads


def accept(client: Client, thread: str, payload: Mapping[str, Any], priority: int) -> Submitted:
    """Create a thread. Raises CallError if the message can never be accepted."""
    return Threads(client).submit(payload, id=thread, priority=priority)


def plain_payload(title: str, source: str) -> dict[str, Any]:
    """Return what a thread with this title is created from."""
    return {"inciting": {"source": source, "title": title, "text": ""}}
