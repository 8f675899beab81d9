"""A receiver of spans, as OpenTelemetry's protocol has it over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class SpanReceiver(ThreadingHTTPServer):
    """A receiver of spans, which keeps them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), SpanRequest)
        self.spans: list[Any] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class SpanRequest(BaseHTTPRequestHandler):
    """Takes one message with spans."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        message = ExportTraceServiceRequest.FromString(body)
        receiver: Any = self.server
        for resource in message.resource_spans:
            for scope in resource.scope_spans:
                receiver.spans += scope.spans
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@contextmanager
def span_receiver() -> Iterator[SpanReceiver]:
    """Run a receiver, on a port of its own."""
    with SpanReceiver() as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield serving
        finally:
            serving.shutdown()
            thread.join()
