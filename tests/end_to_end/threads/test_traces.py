"""A worker sends the spans of a thread and of its model calls to a receiver of OpenTelemetry."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from interlock.workers.engine.tracing import CODE
from tests.end_to_end.deployment import Deployment
from tests.end_to_end.threads.test_models import model_deployment, thread_payload
from tests.fakes.openai_server import OpenAIServer
from tests.waiting import until

TRACE = "0af7651916cd43dd8448eb211c80319c"


class Receiver(ThreadingHTTPServer):
    """A receiver of spans, which keeps them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiving)
        self.spans: list[Any] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Receiving(BaseHTTPRequestHandler):
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


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


def test_a_thread_and_its_model_calls_are_one_trace(
    new_deployment: Callable[..., Deployment], receiver: Receiver
) -> None:
    variables = {
        "INTERLOCK_TRACES": "otlp",
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }
    with OpenAIServer() as provider:
        deployment = model_deployment(new_deployment, provider, **variables)
        # As the API does with the header `traceparent` of a producer.
        deployment.client.codes = (f"{CODE}00-{TRACE}-b7ad6b7169203331-01",)
        deployment.client.submit(thread_payload(), machine="thread", id="whole")
        assert deployment.ends("whole")[0].state == "done"
        names = {"thread.inference", "thread.execution"}
        until(lambda: names <= {span.name for span in receiver.spans}, what="the spans came")

    by_id = {span.span_id: span for span in receiver.spans}
    calls = [span for span in receiver.spans if span.name.startswith("chat ")]
    assert {span.trace_id.hex() for span in receiver.spans} == {TRACE}
    assert len(calls) == 3
    for call in calls:
        above = call
        while above.parent_span_id in by_id:
            above = by_id[above.parent_span_id]
        assert above.name == "thread.inference"
        about = {each.key: each.value for each in call.attributes}
        assert about["gen_ai.request.model"].string_value == "gpt-4o-mini"
        assert not any("write it down" in str(value) for value in about.values())
