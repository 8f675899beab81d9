"""A receiver of webhooks that misbehaves as a script says, and keeps what it was sent."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

HANG, CLOSE = "hang", "close"
Answer = int | str | tuple[int, Mapping[str, str]]


@dataclass(frozen=True)
class Request:
    """A request that was received."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        """The body as JSON."""
        found: dict[str, Any] = json.loads(self.body)
        return found


@dataclass
class Receiver:
    """Answers by its script, one answer a request; then with 204."""

    address: str = ""
    script: list[Answer] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    ends: Event = field(default_factory=Event)


@contextmanager
def receiver(*script: Answer, certificate: Path | None = None) -> Iterator[Receiver]:
    """Run a receiver on this computer; with a certificate, over TLS."""
    found = Receiver(script=[*script])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = found.script.pop(0) if found.script else 204
            found.requests.append(Request(self.path, headers, body))
            if answer == HANG:
                found.ends.wait()
            if isinstance(answer, str):
                self.close_connection = True
                return
            status, more = answer if isinstance(answer, tuple) else (answer, {})
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as above
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    found.address = f"http://127.0.0.1:{server.server_port}/hook/private-path"
    try:
        yield found
    finally:
        found.ends.set()
        server.shutdown()
        thread.join()
        server.server_close()
