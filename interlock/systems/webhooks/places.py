"""Bounds how many messages are on their way to one endpoint, so that none takes all threads."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from interlock import Settings
from interlock.system.records import NotYetError

SHARE = 4  # of the threads of a worker, an endpoint has one in four
# A message waits in its thread for a place only where one was taken or left a moment ago, as it is
# while an endpoint answers.
PATIENCE_S = 1.0
# The others give their thread back. They come again one after the other, so that thousands that
# wait for an endpoint are no load.
RETURN_S = 10.0
GAP_S = 0.05


@dataclass
class _Line:
    places: asyncio.Semaphore
    moved_at: float = 0.0
    returns_at: float = 0.0  # when the last of those that were sent away comes again


class Places:
    """The places of the endpoints in one worker. They are used in one event loop."""

    def __init__(self, per_endpoint: int) -> None:
        self.per_endpoint = per_endpoint
        self._lines = defaultdict[str, _Line](lambda: _Line(asyncio.Semaphore(per_endpoint)))

    @asynccontextmanager
    async def place(self, endpoint: str) -> AsyncIterator[None]:
        """Hold one of the places of an endpoint. Raises NotYetError if none is free soon."""
        line, clock = self._lines[endpoint], asyncio.get_running_loop().time
        try:
            async with asyncio.timeout_at(max(line.moved_at + PATIENCE_S, clock())):
                await line.places.acquire()
        except TimeoutError:
            now = clock()
            line.returns_at = max(now + RETURN_S, line.returns_at + GAP_S)
            why = f"{self.per_endpoint} messages to the endpoint {endpoint} wait for its answer"
            raise NotYetError(why, after_s=line.returns_at - now) from None
        line.moved_at = clock()
        try:
            yield
        finally:
            line.moved_at = clock()
            line.places.release()


def open_places(settings: Settings) -> Places:
    """Return the places of this process: each endpoint has a share of its threads."""
    return Places(max(1, settings.concurrency // SHARE))
