"""A TCP proxy that misbehaves on request, between a client and a server of this machine.

It never changes a byte: it passes, delays, drops connections, swallows everything, or swallows the
reply to a request that the server has already carried out.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.fakes.connections import end_connections

HOST = "127.0.0.1"
CHUNK = 65_536
T = TypeVar("T")


@dataclass(eq=False)
class _Pair:
    """One client's connection and ours to the server."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    reply_lost: bool = False
    silent: bool = False

    def abort(self) -> None:
        for writer in (self.client, self.server):
            writer.transport.abort()


class FaultProxy:
    """Listens on `port` as long as the block lasts and forwards to the server's port."""

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.port = 0
        self.connections = 0
        self.replies_lost = 0
        self._refusing = False
        self._delay_s = 0.0
        self._losing: list[bytes] = []
        self._pairs: set[_Pair] = set()
        self._serving: set[asyncio.Task[Any]] = set()
        self._open: asyncio.Event
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault proxy")

    @property
    def url(self) -> str:
        """Return the address for Redis clients."""
        return f"redis://{HOST}:{self.port}/0"

    def heal(self) -> None:
        """Pass everything again; connections that hung in a black hole go on."""
        self._call(self._set(refusing=False, delay_s=0.0, holding=False))

    def drop(self) -> None:
        """Reset the existing connections; new ones are passed."""
        self._call(self._reset())

    def refuse(self) -> None:
        """Reset the existing connections and every new one, until `heal`."""
        self._call(self._set(refusing=True, delay_s=0.0, holding=False))
        self._call(self._reset())

    def black_hole(self) -> None:
        """Leave connections open, accept new ones, and let nothing through, until `heal`."""
        self._call(self._set(refusing=False, delay_s=0.0, holding=True))

    def half_open(self) -> None:
        """Leave the existing connections open but forward nothing on them; new ones are passed."""
        self._call(self._silence())

    def delay(self, seconds: float) -> None:
        """Delay every chunk by `seconds`, in both directions, until `heal`."""
        self._call(self._set(refusing=False, delay_s=seconds, holding=False))

    def lose_reply(self, to: bytes = b"") -> None:
        """Forward the next request that contains `to`, swallow its reply, and reset.

        The reset comes only after the reply, when the server has done its work. A further call
        loses one more reply.
        """
        self._call(self._lose(to))

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._listen())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _listen(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._listener = await asyncio.start_server(self._serve, HOST, 0)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        await end_connections(self._listener, self._serving)

    async def _set(self, *, refusing: bool, delay_s: float, holding: bool) -> None:
        self._refusing, self._delay_s = refusing, delay_s
        if holding:
            self._open.clear()
        else:
            self._open.set()

    async def _reset(self) -> None:
        for pair in tuple(self._pairs):
            pair.abort()

    async def _silence(self) -> None:
        for pair in self._pairs:
            pair.silent = True

    async def _lose(self, to: bytes) -> None:
        self._losing.append(to)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        self.connections += 1
        try:
            if not self._refusing:
                await self._forward(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._serving.discard(task)
            writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(HOST, self.server_port)
        pair = _Pair(client=writer, server=server_writer)
        self._pairs.add(pair)
        try:
            await asyncio.gather(
                self._pump(pair, reader, server_writer, partial(self._requested, pair)),
                self._pump(pair, server_reader, writer, partial(self._replied, pair)),
            )
        finally:
            self._pairs.discard(pair)
            pair.abort()

    async def _pump(
        self,
        pair: _Pair,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        passes: Callable[[bytes], bool],
    ) -> None:
        with suppress(OSError):
            while chunk := await reader.read(CHUNK):
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                await self._open.wait()
                if pair.silent:
                    continue
                if not passes(chunk):
                    break
                writer.write(chunk)
                await writer.drain()
        writer.transport.abort()

    def _requested(self, pair: _Pair, chunk: bytes) -> bool:
        for wanted in self._losing:
            if wanted in chunk:
                self._losing.remove(wanted)
                pair.reply_lost = True
                break
        return True

    def _replied(self, pair: _Pair, chunk: bytes) -> bool:
        del chunk
        if pair.reply_lost:
            self.replies_lost += 1
            pair.abort()
        return not pair.reply_lost
