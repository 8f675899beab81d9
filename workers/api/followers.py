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
from itertools import islice

from fastapi.concurrency import run_in_threadpool

from interlock.kernel.errors import InvalidPayloadError, StoreError
from interlock.kernel.store.views import LogLine, Views
from interlock.workers.api.problems import TOO_MANY_LISTENERS, RefusedRequestError
from interlock.workers.engine.refusals import Repeated

log = logging.getLogger(__name__)

POLL_S = 0.5
LISTENERS_MAX = 10_000
LISTENERS_OF_ONE_MAX = 500
READ_AT_ONCE = 1_000  # listeners for whom one look at the store reads
# A listener comes back after this time: its token is asked for again, and it misses nothing.
LISTEN_S = 300.0
POSITION = r"\d{1,15}-\d{1,15}"


@dataclass(eq=False)
class Listener:
    """A listener: its record, the position up to which it was read for it, and what was read.

    None instead of a line ends it, because its log cannot be read further.
    """

    record_id: str
    position: str
    caller: str
    lines: asyncio.Queue[LogLine | None] = field(default_factory=asyncio.Queue)


class Followers:
    """The listeners of one process."""

    def __init__(self, views: Views) -> None:
        self.views = views
        self.listeners: dict[Listener, None] = {}  # in the order of their turns

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

    def listener(self, record_id: str, after: str, caller: str) -> Listener:
        """Return a new listener. Refuses a position that is none, and who has no room."""
        if not re.fullmatch(POSITION, after):
            raise InvalidPayloadError("Last-Event-ID", [f"{after[:40]!r} is no position in a log"])
        if len(self.listeners) >= LISTENERS_MAX:
            detail = f"this process has {LISTENERS_MAX} listeners already"
            raise RefusedRequestError(TOO_MANY_LISTENERS, detail)
        if sum(one.caller == caller for one in self.listeners) >= LISTENERS_OF_ONE_MAX:
            detail = f"{caller} listens {LISTENERS_OF_ONE_MAX} times already"
            raise RefusedRequestError(TOO_MANY_LISTENERS, detail)
        listener = Listener(record_id, after, caller)
        self.listeners[listener] = None
        return listener

    async def lines(self, listener: Listener) -> AsyncIterator[LogLine]:
        """Yield the lines of a log after a position, each once, as they come, for LISTEN_S."""
        until = time.monotonic() + LISTEN_S
        try:
            with suppress(TimeoutError):
                while line := await asyncio.wait_for(
                    listener.lines.get(), until - time.monotonic()
                ):
                    yield line
        finally:
            self.listeners.pop(listener, None)

    async def _follow(self) -> None:
        reading = Repeated("the store", (StoreError,))
        while True:
            # Nothing more is read for a listener that has not taken what was read before.
            free = (one for one in self.listeners if one.lines.empty())
            listeners = list(islice(free, READ_AT_ONCE))
            for one in listeners:
                # It comes last in the next turn, so that all have theirs.
                del self.listeners[one]
                self.listeners[one] = None
            places = {(one.record_id, one.position) for one in listeners}
            found: dict[tuple[str, str], list[LogLine] | None] = {}
            if places:
                try:
                    await run_in_threadpool(reading, partial(self._read, places, found))
                except Exception:
                    # It is tried again: otherwise one fault would end the following of all logs.
                    log.exception("logs could not be read for listeners")
            for one in listeners:
                lines = found.get((one.record_id, one.position), ())
                if lines is None:
                    log.error("the log of %s cannot be read after %s", one.record_id, one.position)
                    one.lines.put_nowait(None)
                    continue
                for line in lines:
                    one.lines.put_nowait(line)
                    one.position = line[0]
            await asyncio.sleep(POLL_S)

    def _read(
        self, places: set[tuple[str, str]], found: dict[tuple[str, str], list[LogLine] | None]
    ) -> None:
        found.update(self.views.lines_after(places))
