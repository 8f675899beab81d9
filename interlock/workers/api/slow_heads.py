"""Closes a connection whose client sends no head of a request in time, or takes no answer.

uvicorn has no such bounds: it waits without end for the rest of a head that was begun, and a
connection that it closes stays open until its client has taken all that was sent.
"""

from __future__ import annotations

import asyncio
import logging
import socket

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from interlock.workers.api.event_stream import ABORT, client_text

log = logging.getLogger(__name__)

HEAD_S = 10.0
TAKE_S = 30.0  # so long a client, or the network to it, may take nothing of what is sent


class HeadTimeoutProtocol(H11Protocol):
    """The HTTP protocol of uvicorn, with bounds on the time that a client takes.

    That for the head of a request begins with the connection, and with the first bytes of each
    later request. That for an answer is kept by the system, where it has such a bound (Linux).
    """

    _head_timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the head of the first request."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, ABORT: transport.abort}
        self._wait_for_head()
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            opened: socket.socket = transport.get_extra_info("socket")
            longest_ms = round(TAKE_S * 1_000)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, longest_ms)

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
        if isinstance(exc, TimeoutError):
            log.warning(
                "%s is cut off: it took nothing of an answer for %g seconds",
                client_text(self.client),
                TAKE_S,
            )
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        self._head_timeout = self.loop.call_later(HEAD_S, self.timeout_keep_alive_handler)

    def _stop_waiting(self) -> None:
        if self._head_timeout is not None:
            self._head_timeout.cancel()
            self._head_timeout = None
