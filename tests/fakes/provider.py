"""A provider at the world's edge that counts how many calls of each tenant are at work at once."""

from __future__ import annotations

import json
import select
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

STEP_S = 0.02


class Provider:
    """The calls at work now, the most that ever were, and all, each by tenant."""

    def __init__(self) -> None:
        self.at_work: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.opens = threading.Event()  # calls are answered only once it is set
        self.url = ""
        self._lock = threading.Lock()

    def count(self, tenant: str, change: int) -> None:
        """Count a call that begins or ends."""
        with self._lock:
            self.at_work[tenant] += change
            self.most[tenant] = max(self.most[tenant], self.at_work[tenant])

    def serve(self, tenant: str, caller: socket.socket, takes_s: float) -> bool:
        """Work on a call; return whether its caller is still there at the end."""
        self.count(tenant, 1)
        left_s = takes_s
        try:
            while left_s > 0:
                readable, _, _ = select.select([caller], [], [], STEP_S)
                if readable and not caller.recv(1, socket.MSG_PEEK):
                    return False
                left_s -= STEP_S if self.opens.is_set() else 0
            self.answered[tenant] += 1
            return True
        finally:
            self.count(tenant, -1)


@contextmanager
def open_provider(*, takes_s: float) -> Iterator[Provider]:
    """Serve a provider until the end of the block."""
    provider = Provider()

    class Desk(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with suppress(OSError):  # who called has gone
                if provider.serve(call["tenant"], self.connection, takes_s):
                    self.send_response(204)
                    self.end_headers()
            self.close_connection = True

        def log_message(self, *words: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Desk)
    provider.url = "http://{}:{}".format(*server.server_address[:2])
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.opens.set()
        server.shutdown()
        server.server_close()
        thread.join()
