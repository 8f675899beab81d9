"""MCP's stdio transport over a process group; it limits each line and explains each failure.

The server ends when the block that uses it is left. The transport keeps at most a few MiB, however
much a server sends; the transport of the client library collects a line without limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from interlock.workers.processes.process_group import Tail, process_group, text_of
from interlock.workers.text import one_line

GOODBYE_S = 0.3
_Incoming = MemoryObjectSendStream[SessionMessage | Exception]
_Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


class McpTransport:
    """One connection to one server, which gets PATH and similar variables of the worker."""

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> None:
        self._command = tuple(command)
        self._folder = folder
        self._environment = environment
        self._problem = ""
        self._stray_line = ""
        self._errors: Tail | None = None

    def explain(self, error: BaseException) -> str:
        """Return why the connection failed, with the last line that the server wrote."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        why = self._problem or f"{type(error).__name__}: {error}"
        errors = self._errors.text() if self._errors else ""
        # Some servers print errors to stdout, where messages belong, so both outputs are used.
        last = errors.strip().rpartition("\n")[2] or self._stray_line
        return f"{why}; it wrote: {last}" if last else why

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[_Streams]:
        """Start the server and yield its streams; end it, with its children, on leaving."""
        to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](0)
        with to_session, incoming, outgoing, from_session:
            async with process_group(
                self._command,
                reads=True,
                folder=self._folder,
                environment={**get_default_environment(), **self._environment},
            ) as group:
                stdin, stdout, stderr = group.pipes
                assert stdin is not None, "started to read it"
                reader = asyncio.create_task(self._read(stdout, to_session))
                writer = asyncio.create_task(self._write(stdin, from_session))
                self._errors = Tail(stderr)
                errors = asyncio.create_task(self._errors.read())
                try:
                    yield incoming, outgoing
                finally:
                    writer.cancel()
                    stdin.close()
                    await asyncio.wait({errors}, timeout=GOODBYE_S)
                    await group.end()
                    await asyncio.wait({reader, writer, errors}, timeout=GOODBYE_S)
                    for task in (reader, errors):
                        task.cancel()

    async def _read(self, output: asyncio.StreamReader, session: _Incoming) -> None:
        try:
            while line := await output.readline():
                message = self._parsed(line)
                if message is not None:
                    await session.send(message)
        except ValueError:
            self._problem = "it sent a line of more than 4 MiB"
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return
        finally:
            session.close()

    def _parsed(self, line: bytes) -> SessionMessage | None:
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            # Some servers print log lines to stdout. Such a line is not a message.
            self._stray_line = self._stray_line or one_line(text_of(line), length_max=80)
            return None

    async def _write(
        self, server: asyncio.StreamWriter, session: MemoryObjectReceiveStream[SessionMessage]
    ) -> None:
        try:
            async for message in session:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                server.write(text.encode() + b"\n")
                await server.drain()
        except (OSError, anyio.ClosedResourceError):
            return
        finally:
            session.close()
