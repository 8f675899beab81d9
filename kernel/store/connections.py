"""A cache of connections, on which a client runs scripts faster than through redis-py's pool."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import hiredis
from redis import ConnectionPool, exceptions

# Fewer than the connections that a client may have beyond one for each of its threads, so that no
# thread waits for a connection that is kept here.
KEPT_MAX = 32


class ConnectionCache:
    """Keeps connections out of redis-py's pool, whose lock, probe and metrics double the cost.

    A connection that fails is given up; the caller then runs its command through the pool.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self.pool = pool
        self._idle: list[Any] = []

    def exchange(self, *arguments: Any) -> Any:
        """Send one command and return its reply. Raises what redis-py raises."""
        command = hiredis.pack_command(arguments)
        connection = self._take()
        in_step = False
        try:
            connection.send_packed_command((command,), check_health=False)
            reply = connection.read_response()
            in_step = True
        except exceptions.ResponseError:
            in_step = True
            raise
        finally:
            # After anything else the next reply might be the answer to this command.
            self._put_back(connection, in_step=in_step)
        return reply

    def _take(self) -> Any:
        with suppress(IndexError):
            while (connection := self._idle.pop()).pid != os.getpid():
                pass  # a fork's child leaves its parent's connections alone
            return connection
        return self.pool.get_connection()

    def _put_back(self, connection: Any, *, in_step: bool) -> None:
        if in_step and len(self._idle) < KEPT_MAX and not connection.should_reconnect():
            self._idle.append(connection)
            return
        if not in_step:
            connection.disconnect()
        self.pool.release(connection)
