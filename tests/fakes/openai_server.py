"""A local server with the OpenAI chat protocol that answers, or misbehaves, by a script.

`OpenAIServer` listens on a free loopback port in a thread of its own. Every request takes the next
reply of the script; when the script is used up, `otherwise` replies. By default it gives simple
answers with which threads run to their end: the intent is the title, no item belongs to it, and the
capability is the one that the front matter of the request names.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Self

from tests.fakes.connections import end_connections

HEAD_BYTES_MAX = 64 * 1024
BODY_BYTES_MAX = 8 * 1024 * 1024
START_S_MAX = 60.0
USAGE = {"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150}
_DATA = re.compile(r'<data name="([a-z ]+)">\n(.*?)\n</data>', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as the server saw it."""

    body: Mapping[str, Any]
    headers: Mapping[str, str]

    @property
    def model(self) -> str:
        """Return the name of the model that was asked."""
        return str(self.body["model"])

    @property
    def tool(self) -> str:
        """Return the name of the function that the answer must call."""
        return str(self.body["tools"][0]["function"]["name"])

    @property
    def fields(self) -> frozenset[str]:
        """Return the names of the fields that the answer must have."""
        return frozenset(self.body["tools"][0]["function"]["parameters"]["properties"])

    @property
    def prompt(self) -> str:
        """Return every message of the conversation, in order."""
        return "\n".join(str(message.get("content")) for message in self.body["messages"])

    def data(self, name: str) -> Any:
        """Return the block of data with this name, or None."""
        return {key: json.loads(text) for key, text in _DATA.findall(self.prompt)}.get(name)


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply of the server, with its faults."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    # Counted in Content-Length but not sent, so that the body ends too early.
    missing_bytes: int = 0
    # The pause after each byte; shorter than a client's timeout for one read.
    drip_s: float = 0.0
    delay_s: float = 0.0
    hangs: bool = False


Script = Reply | Callable[[Asked], Reply]


def says(
    arguments: Mapping[str, Any] | str,
    *,
    usage: Mapping[str, Any] | None = USAGE,
    drip_s: float = 0.0,
    delay_s: float = 0.0,
) -> Script:
    """Answer with these arguments; a string is sent as it is, however broken."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)

    def reply(asked: Asked) -> Reply:
        call = {
            "id": "call_1",
            "type": "function",
            "function": {"name": asked.tool, "arguments": text},
        }
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        body = completion(asked, message, finish="tool_calls", usage=usage)
        return Reply(body, drip_s=drip_s, delay_s=delay_s)

    return reply


def writes(words: str, *, usage: Mapping[str, Any] | None = USAGE, delay_s: float = 0.0) -> Script:
    """Answer in plain words, without a call."""
    message = {"role": "assistant", "content": words}
    return lambda asked: Reply(completion(asked, message, usage=usage), delay_s=delay_s)


def completion(
    asked: Asked,
    message: Mapping[str, Any],
    *,
    finish: str = "stop",
    usage: Mapping[str, Any] | None = USAGE,
) -> bytes:
    """Return a chat completion with this one message."""
    document: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_770_000_000,
        "model": asked.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    if usage is not None:
        document["usage"] = dict(usage)
    return json.dumps(document).encode()


def refuses(status: int, *, retry_after: str | None = None, **headers: str) -> Reply:
    """Answer with an error status and the protocol's error document."""
    error = {"error": {"message": f"scripted {status}", "type": "scripted", "code": None}}
    if retry_after is not None:
        headers["Retry-After"] = retry_after
    return Reply(json.dumps(error).encode(), status=status, headers=headers)


def hangs() -> Reply:
    """Take the request and never answer it."""
    return Reply(hangs=True)


def breaks_off() -> Script:
    """Announce a whole answer, and close the connection in the middle of it."""

    def reply(asked: Asked) -> Reply:
        whole = completion(asked, {"role": "assistant", "content": "x" * 200})
        return Reply(whole[: len(whole) // 2], missing_bytes=len(whole))

    return reply


def truncated_json() -> Script:
    """Send a document that ends in the middle of itself, with a correct length."""

    def reply(asked: Asked) -> Reply:
        whole = completion(asked, {"role": "assistant", "content": "x"})
        return Reply(whole[: len(whole) // 2])

    return reply


def empty() -> Reply:
    """Send a success with an empty body."""
    return Reply()


def silent() -> Script:
    """Send a correct document whose message says nothing and calls nothing."""
    return lambda asked: Reply(completion(asked, {"role": "assistant", "content": ""}))


def thinks(asked: Asked) -> Reply:
    """Answer every phase in the simplest way that can be right."""
    inciting = asked.data("inciting event") or {}
    title = str(inciting.get("title") or "nothing")
    wanted = inciting.get("fields", {})
    intent = {"intent": title, "confidence": 0.9}
    context = {"item_ids": [], "reasoning": "nothing belongs to it", "confidence": 0.9}
    known = {choice["name"] for choice in asked.data("catalog") or []}
    capability = wanted.get("capability")
    action = {
        "kind": "standard" if capability in known else "clarification",
        "capability": capability if capability in known else None,
        "parameters": wanted.get("parameters", {}),
        "summary": title,
        "blocked_on": None if capability in known else "which capability is meant",
        "irreversibility": "low",
        "regret_potential": "low",
        "risk_amplifier": False,
        "confidence": 0.9,
    }
    parts = {"intent": intent, "context": context, "action": action}
    if parts.keys() <= asked.fields:
        return _reply(says(parts), asked)
    phase = "action" if "kind" in asked.fields else "context"
    return _reply(says(intent if "intent" in asked.fields else parts[phase]), asked)


def _reply(script: Script, asked: Asked) -> Reply:
    return script if isinstance(script, Reply) else script(asked)


class OpenAIServer:
    """The server: `with OpenAIServer([refuses(429), says({...})]) as server: server.url`."""

    def __init__(self, script: Sequence[Script] = (), *, otherwise: Script = thinks) -> None:
        self.asked: list[Asked] = []
        self.was_asked = threading.Event()
        self.url = ""
        self._script = list(script)
        self._otherwise = otherwise
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="openai-server", daemon=True)
        self._closing: asyncio.Event | None = None
        self._connections: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._started.wait(START_S_MAX):
            raise RuntimeError("the scripted server did not start")
        return self

    def __exit__(self, *_: object) -> None:
        if self._closing is not None:
            self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(START_S_MAX)

    def then(self, *replies: Script) -> None:
        """Append replies to the script; call it while no request is under way."""
        self._script.extend(replies)

    def reset(self) -> None:
        """Forget the script and all requests; call it while no request is under way."""
        self._script.clear()
        self.asked.clear()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._closing = asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"
        self._started.set()
        await self._closing.wait()
        await end_connections(server, self._connections)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            if task.cancelling():
                # What is not sent yet would keep the connection open.
                writer.transport.abort()
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        lines = head.split("\r\n")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:] if line)
        }
        body = await reader.readexactly(
            min(int(headers.get("content-length", "0")), BODY_BYTES_MAX)
        )
        if not lines[0].startswith("POST /v1/chat/completions "):
            await self._send(writer, refuses(404))
            return True
        asked = Asked(json.loads(body), headers)
        self.asked.append(asked)
        self.was_asked.set()
        reply = _reply(self._script.pop(0) if self._script else self._otherwise, asked)
        if reply.hangs:
            # Ends when the client gives up, or with the server.
            return bool(await reader.read(1))
        await asyncio.sleep(reply.delay_s)
        await self._send(writer, reply)
        return not reply.missing_bytes

    async def _send(self, writer: asyncio.StreamWriter, reply: Reply) -> None:
        reason = HTTPStatus(reply.status).phrase if reply.status in list(HTTPStatus) else "Scripted"
        head = {
            "Content-Type": "application/json",
            "Content-Length": str(len(reply.body) + reply.missing_bytes),
            **reply.headers,
        }
        lines = [f"HTTP/1.1 {reply.status} {reason}", *(f"{k}: {v}" for k, v in head.items())]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        if reply.drip_s:
            for byte in reply.body:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(reply.drip_s)
        else:
            writer.write(reply.body)
        await writer.drain()
