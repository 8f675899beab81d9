"""Follows the logs of records for many listeners: the store is looked at once for all of them."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from fastapi.concurrency import run_in_threadpool

from interlock.kernel.errors import InvalidPayloadError, StoreError
from interlock.kernel.store.views import LogLine, Views
from interlock.workers.api.problems import TOO_MANY_LISTENERS, RefusedRequestError
from interlock.workers.engine.refusals import Repeated

log = logging.getLogger(__name__)

POLL_S = 0.5
LISTENERS_MAX = 10_000
LISTENERS_OF_ONE_MAX = 500
# A listener comes back after this time: its token is asked for again, and it misses nothing.
LISTEN_S = 300.0
START = "0-0"  # before every line of a log
_POSITION = re.compile(r"\d{1,15}-\d{1,15}")


@dataclass(eq=False)
class Listener:
    """A listener: its record, the position up to which it was read for it, and what was read."""

    record_id: str
    position: str
    caller: str
    lines: asyncio.Queue[LogLine] = field(default_factory=asyncio.Queue)


class Followers:
    """The listeners of one process."""

    def __init__(self, views: Views) -> None:
        self.views = views
        self.listeners: set[Listener] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look at the store for all listeners, until the block ends."""
        following = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following

    def check(self, after: str, caller: str) -> None:
        """Refuse a position that is none, and a listener for whom there is no room."""
        if not _POSITION.fullmatch(after):
            raise InvalidPayloadError("Last-Event-ID", [f"{after[:40]!r} is no position in a log"])
        if len(self.listeners) >= LISTENERS_MAX:
            detail = f"this process has {LISTENERS_MAX} listeners already"
            raise RefusedRequestError(TOO_MANY_LISTENERS, detail)
        if sum(one.caller == caller for one in self.listeners) >= LISTENERS_OF_ONE_MAX:
            detail = f"{caller} listens {LISTENERS_OF_ONE_MAX} times already"
            raise RefusedRequestError(TOO_MANY_LISTENERS, detail)

    async def lines(self, record_id: str, after: str, caller: str) -> AsyncIterator[LogLine]:
        """Yield the lines of a log after a position, each once, as they come, for LISTEN_S."""
        listener = Listener(record_id, after, caller)
        self.listeners.add(listener)
        until = time.monotonic() + LISTEN_S
        try:
            with suppress(TimeoutError):
                while True:
                    left_s = until - time.monotonic()
                    yield await asyncio.wait_for(listener.lines.get(), left_s)
        finally:
            self.listeners.discard(listener)

    async def _follow(self) -> None:
        reading = Repeated("the store", (StoreError,))
        while True:
            # Nothing more is read for a listener that has not taken what was read before.
            listeners = [one for one in self.listeners if one.lines.empty()]
            places = {(one.record_id, one.position) for one in listeners}
            found: dict[tuple[str, str], list[LogLine]] = {}
            if places:
                try:
                    await run_in_threadpool(reading, partial(self._read, places, found))
                except Exception:
                    # It is tried again: otherwise one fault would end the following of all logs.
                    log.exception("logs could not be read for listeners")
            for one in listeners:
                for line in found.get((one.record_id, one.position), ()):
                    one.lines.put_nowait(line)
                    one.position = line[0]
            await asyncio.sleep(POLL_S)

    def _read(
        self, places: set[tuple[str, str]], found: dict[tuple[str, str], list[LogLine]]
    ) -> None:
        found.update(self.views.lines_after(places))
