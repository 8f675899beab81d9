"""Closes a connection whose client does not send the head of a request in time.

uvicorn has no such bound: it waits without end for the rest of a head that was begun.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 10.0


class HeadTimeoutProtocol(H11Protocol):
    """The HTTP protocol of uvicorn, with a bound on the time that the head of a request takes.

    The time begins with the connection, and with the first bytes of each later request.
    """

    _head_timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the head of the first request."""
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request; wait on if they do not complete its head."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._head_timeout is None:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        self._head_timeout = self.loop.call_later(HEAD_S, self.timeout_keep_alive_handler)

    def _stop_waiting(self) -> None:
        if self._head_timeout is not None:
            self._head_timeout.cancel()
            self._head_timeout = None
