"""A service at the world's edge, such as a model: it counts what it is asked, and may take long."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[Any], Any]


class CountingService:
    """What it was asked, by the key of the request, and the requests themselves."""

    def __init__(self, answer: Answer, takes_s: float) -> None:
        self.answer, self.takes_s = answer, takes_s
        self.asked: Counter[str] = Counter()
        self.requests: list[Any] = []
        self.url = ""
        self._lock = threading.Lock()

    def take(self, request: Any) -> Any:
        """Count a request and answer it."""
        with self._lock:
            self.asked[request["key"]] += 1
            self.requests.append(request)
        time.sleep(self.takes_s)
        return self.answer(request)


class _Server(ThreadingHTTPServer):
    request_queue_size = 256

    def handle_error(self, *_: object) -> None:
        """Print nothing: whoever asked was killed."""


@contextmanager
def counting_service(answer: Answer, *, takes_s: float = 0) -> Iterator[CountingService]:
    """Serve until the end of the block; each answer takes `takes_s` at least."""
    service = CountingService(answer, takes_s)

    class Desk(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = json.dumps(service.take(request)).encode()
            with suppress(OSError):  # who asked has gone
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        def log_message(self, *words: Any) -> None:
            """Print nothing."""

    server = _Server(("127.0.0.1", 0), Desk)
    service.url = "http://{}:{}".format(*server.server_address[:2])
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
