"""A stream of server-sent events to one caller, who is cut off if it takes nothing of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from interlock.workers.access.roles import Caller

log = logging.getLogger(__name__)

PING_S = 15
SEND_S = 30  # so long a listener may take nothing of what is sent
ABORT = "abort"  # in the state of a connection: closes it at once, whatever was not sent


class EventStream(EventSourceResponse):
    """The answer to a listener. That it is cut off is a line of the log, and no fault."""

    def __init__(self, events: AsyncIterator[ServerSentEvent], by: Caller) -> None:
        super().__init__(events, ping=PING_S, send_timeout=SEND_S)
        self._by = by

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until they end, or the listener leaves or is cut off."""
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            log.warning(
                "%s at %s is cut off: it took nothing of its stream of events for %g seconds",
                self._by.name,
                client_text(scope.get("client")),
                self.send_timeout,
            )
            await cut_off(scope)


async def cut_off(scope: Scope) -> bool:
    """Close the connection of a request at once, and return whether its server can do that.

    An answer that only ends early is a fault to the server, which would log it with a traceback.
    """
    abort = scope.get("state", {}).get(ABORT)
    if abort:
        abort()
        await asyncio.sleep(0)  # until the server has noticed
    return bool(abort)


def client_text(client: Any) -> str:
    """Return the address and the port of a client."""
    return f"{client[0]}:{client[1]}" if client else "an unknown address"
