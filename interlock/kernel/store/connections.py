"""A cache of connections, on which a client sends commands faster than by redis-py's pool."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import hiredis
from redis import ConnectionPool, exceptions

# Fewer than the connections that a client may have beyond one for each of its threads, so that no
# thread waits for a connection that is kept here.
KEPT_MAX = 32


class ConnectionCache:
    """Keeps connections out of redis-py's pool, whose lock, probe and metrics double the cost.

    A connection that fails is given up; the caller then sends its commands through the pool.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self.pool = pool
        self._idle: list[Any] = []

    def exchange(self, client: Any, commands: Sequence[Sequence[Any]]) -> list[Any] | None:
        """Send commands at once, and return the reply or the refusal of each, in order.

        Returns None if the connection fails. Raises what redis-py raises if none can be opened.
        """
        packed = [hiredis.pack_command(tuple(command)) for command in commands]
        connection = self._take()
        in_step = False
        try:
            connection.send_packed_command((b"".join(packed),), check_health=False)
            replies = [_reply(client, connection, command[0]) for command in commands]
            in_step = True
        except (exceptions.ConnectionError, exceptions.TimeoutError):
            return None
        finally:
            # After an error the next reply might be the answer to one of these commands.
            self._put_back(connection, in_step=in_step)
        return replies

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


def _reply(client: Any, connection: Any, command: str) -> Any:
    try:
        return client.parse_response(connection, command)  # redis-py leaves it untyped
    except exceptions.ResponseError as refusal:
        return refusal.with_traceback(None)  # it would keep the connection open
