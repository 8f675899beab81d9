"""Follows logs and events for many listeners: the store is looked at once for all of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fastapi.concurrency import run_in_threadpool

from interlock.kernel.errors import StoreError
from interlock.kernel.store.people import AccessTokens
from interlock.workers.access.roles import Caller
from interlock.workers.api.problems import TOO_MANY_LISTENERS, RefusedRequestError
from interlock.workers.engine.refusals import Repeated

log = logging.getLogger(__name__)

POLL_S = 0.5
BEHIND_S = 0.05  # the same while more follows already than was read for a listener
LISTENERS_MAX = 10_000
LISTENERS_OF_ONE_MAX = 500
READ_AT_ONCE = 1_000  # places after which one look at the store reads
# A listener comes back after this time: its token may have expired, and it misses nothing.
LISTEN_S = 300.0


@dataclass(frozen=True, slots=True)
class Found:
    """What follows a place: messages, the place after them, and whether more follows already."""

    messages: Sequence[Any]
    place: Hashable
    more: bool


# Reads what follows each of several places; None: it cannot be read further there.
Reader = Callable[[Collection[Any]], Mapping[Any, Found | None]]


@dataclass(eq=False)
class Listener:
    """A listener: who reads for it, the place up to which was read, and what was read.

    None instead of a message ends it. It is behind where more follows that was not read yet.
    `revoked` is how many tokens were revoked when its own was found to be none of them.
    """

    read: Reader
    place: Hashable
    caller: Caller
    behind: bool = False
    revoked: int = -1
    messages: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)


class Followers:
    """The listeners of one process."""

    def __init__(self, tokens: AccessTokens) -> None:
        self._tokens = tokens
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

    def listener(self, read: Reader, place: Hashable, caller: Caller) -> Listener:
        """Return a new listener, whose place is taken when it asks for messages.

        Refuses one for whom there is no room.
        """
        if len(self.listeners) >= LISTENERS_MAX:
            detail = f"this process has {LISTENERS_MAX} listeners already"
            raise RefusedRequestError(TOO_MANY_LISTENERS, detail)
        if sum(one.caller.name == caller.name for one in self.listeners) >= LISTENERS_OF_ONE_MAX:
            detail = f"{caller.name} listens {LISTENERS_OF_ONE_MAX} times already"
            raise RefusedRequestError(TOO_MANY_LISTENERS, detail)
        return Listener(read, place, caller)

    async def messages(self, listener: Listener) -> AsyncIterator[Any]:
        """Yield what follows a listener's place, each message once, as it comes, for LISTEN_S."""
        until = time.monotonic() + LISTEN_S
        # Not before: who leaves until then never comes to the end of this.
        self.listeners[listener] = None
        try:
            with suppress(TimeoutError):
                while message := await asyncio.wait_for(
                    listener.messages.get(), until - time.monotonic()
                ):
                    yield message
        finally:
            self.listeners.pop(listener, None)

    async def _follow(self) -> None:
        reading = Repeated("the store", (StoreError,))
        while True:
            listeners = self._next_listeners()
            for one in listeners:
                # It comes last in the next turn, so that all have theirs.
                del self.listeners[one]
                self.listeners[one] = None
            look = _Look(listeners, tuple(self.listeners))
            if look.all:
                try:
                    await run_in_threadpool(reading, partial(look.take, self._tokens))
                except Exception:
                    # It is tried again: otherwise one fault would end the following of all logs.
                    log.exception("logs could not be read for listeners")
            for one in listeners:
                _give(one, look.found)
            for one in look.ended:
                one.messages.put_nowait(None)
            behind = any(one.behind for one in self.listeners)
            await asyncio.sleep(BEHIND_S if behind else POLL_S)

    def _next_listeners(self) -> list[Listener]:
        """Return the listeners for whom the next look reads: all that are at READ_AT_ONCE places.

        Nothing more is read for a listener that has not taken what was read before.
        """
        places: set[tuple[Reader, Hashable]] = set()
        chosen = []
        for one in self.listeners:
            place = (one.read, one.place)
            if one.messages.empty() and (place in places or len(places) < READ_AT_ONCE):
                places.add(place)
                chosen.append(one)
        return chosen


@dataclass(eq=False, slots=True)
class _Look:
    """One look at the store: for whom it reads, who listens, and what was found."""

    chosen: Collection[Listener]
    all: Collection[Listener]
    found: dict[tuple[Reader, Hashable], Found | None] = field(default_factory=dict)
    ended: Collection[Listener] = ()

    def take(self, tokens: AccessTokens) -> None:
        """Read what follows the places of those chosen, and whose tokens were revoked."""
        self.ended = _refused(self.all, tokens)
        places: dict[Reader, set[Hashable]] = defaultdict(set)
        for one in self.chosen:
            places[one.read].add(one.place)
        for read, wanted in places.items():
            self.found.update(((read, place), each) for place, each in read(wanted).items())


def _refused(listeners: Collection[Listener], tokens: AccessTokens) -> list[Listener]:
    """Return the listeners whose tokens were revoked."""
    shown = [one for one in listeners if one.caller.token_id]
    if not shown:
        return []
    # Counted first: a token that is revoked in between is looked for at the next look.
    count = tokens.count_revoked()
    unsure = [one for one in shown if one.revoked != count]
    revoked = tokens.revoked_of({one.caller.token_id for one in unsure})
    for one in unsure:
        one.revoked = count
    return [one for one in unsure if one.caller.token_id in revoked]


def _give(listener: Listener, found: Mapping[tuple[Reader, Hashable], Found | None]) -> None:
    """Give a listener what was read for it, if anything was."""
    key = (listener.read, listener.place)
    if key not in found:
        return
    read = found[key]
    if read is None:
        listener.messages.put_nowait(None)
        return
    for message in read.messages:
        listener.messages.put_nowait(message)
    listener.place, listener.behind = read.place, read.more
