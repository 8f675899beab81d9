"""Connects to an MCP server at an address, over streamable HTTP; it limits each answer's size."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

ANSWER_BYTES_MAX = 4 * 1024 * 1024
TIMEOUT_S = 300.0  # a tool's own deadline ends its call earlier


class RemoteTransport:
    """One connection to one server. `token_variable` names the variable that has its token."""

    def __init__(self, url: str, token_variable: str) -> None:
        self._url, self._token_variable = url, token_variable

    def explain(self, error: BaseException) -> str:
        """Return why the connection failed."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return f"{type(error).__name__}: {error}"

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Any]:
        """Yield the streams of a session with the server. Raises ValueError without its token."""
        headers = {}
        if self._token_variable:
            token = os.environ.get(self._token_variable)
            if not token:
                raise ValueError(f"the variable {self._token_variable} has no token for it")
            headers["Authorization"] = f"Bearer {token}"
        async with (
            httpx2.AsyncClient(
                headers=headers, timeout=TIMEOUT_S, event_hooks={"response": [_limit]}
            ) as http,
            streamable_http_client(self._url, http_client=http) as streams,
        ):
            yield streams


async def _limit(answer: httpx2.Response) -> None:
    """Let an answer fail that has more than ANSWER_BYTES_MAX, whatever length it declares."""
    assert isinstance(answer.stream, httpx2.AsyncByteStream)
    answer.stream = _Limited(answer.stream)


class _Limited(httpx2.AsyncByteStream):
    """A stream of bytes that ends with an error where it is too long."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the bytes."""
        size = 0
        async for part in self._stream:
            size += len(part)
            if size > ANSWER_BYTES_MAX:
                raise httpx2.ReadError("it sent more than 4 MiB")
            yield part

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()
