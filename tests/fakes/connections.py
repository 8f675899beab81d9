"""Ends a server of asyncio with all its connections, also those that are just being accepted."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any


async def end_connections(server: asyncio.Server, begun: Collection[asyncio.Task[Any]]) -> None:
    """Accept no more, and cancel the handlers in `begun` until no task of the loop is left.

    A handler adds itself to `begun` as its first step. Before that step its connection belongs to
    a task of asyncio, which leaves the socket open if it is canceled or if the server is closed.
    So that task is awaited, until the handler has begun.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening)
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in begun:
            task.cancel()
        await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
    server.close()
