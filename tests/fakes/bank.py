"""A payment service at the world's edge: it counts what it pays, and may hang or drop the line."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Bank:
    """What was paid, by the id of the refund, and how the next requests are answered."""

    def __init__(self) -> None:
        self.paid: Counter[str] = Counter()
        self.silent: set[str] = set()  # of these it pays and never answers
        self.answers = threading.Event()  # set: those that hang are answered
        self.url = ""


@contextmanager
def open_bank(*, pays_s: float = 0) -> Iterator[Bank]:
    """Serve a bank until the end of the block. Each payment takes `pays_s`."""
    bank = Bank()

    class Desk(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            bank.paid[order["refund"]] += 1
            time.sleep(pays_s)
            if order["refund"] in bank.silent:
                bank.answers.wait()
                self.close_connection = True
                return
            text = json.dumps({"payment": f"p-{order['refund']}"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            with suppress(BrokenPipeError):  # who asked has gone
                self.wfile.write(text)

        def log_message(self, *words: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Desk)
    bank.url = "http://{}:{}".format(*server.server_address[:2])
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield bank
    finally:
        bank.answers.set()
        server.shutdown()
        server.server_close()
        thread.join()
