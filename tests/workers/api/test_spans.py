"""The spans of the API: one for each call, none of the framework, and none that holds a secret."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from interlock.kernel.event import Event
from interlock.workers.api.app import create_app
from interlock.workers.client import Client
from interlock.workers.engine.answer_links import PATH
from interlock.workers.engine.trace_context import Tracing
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.threads.threads import client_of, thread_payload
from tests.workers.access.tokens import new_token

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    provider, kept = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(Tracing, "tracer", provider.get_tracer("test"))
    yield kept
    provider.shutdown()


@pytest.fixture
def http(interlock: Client, spans: InMemorySpanExporter) -> Iterator[TestClient]:
    assert spans is not None
    with TestClient(create_app(interlock), base_url="http://127.0.0.1:8470") as opened:
        yield opened


@pytest.mark.parametrize("headers", [{}, {"traceparent": PARENT}])
def test_a_call_is_one_span_and_a_record_is_below_the_call_that_created_it(
    http: TestClient, interlock: Client, spans: InMemorySpanExporter, headers: dict[str, str]
) -> None:
    token = {"Authorization": f"Bearer {new_token(interlock, 'producer')}"}
    body = {"machine": "thread", "payload": thread_payload()}
    created = http.post(
        "/v1/records", json=body, headers=headers | token | {"Idempotency-Key": "a"}
    )
    assert created.status_code == 201
    assert http.get("/v1/records").status_code == 401
    assert http.get("/v1/records/nobody", headers=token).status_code == 404

    named = {span.name: span for span in spans.get_finished_spans()}
    assert set(named) == {"POST /v1/records", "GET /v1/records", "GET /v1/records/{record_id}"}
    assert not any(span.status.description or span.events for span in named.values())
    assert all(span.status.status_code is trace.StatusCode.UNSET for span in named.values())
    context = named["POST /v1/records"].get_span_context()
    first = interlock.history("a")[0]
    assert context is not None
    assert isinstance(first, Event)
    assert first.cause.codes[-1].split("-")[1:3] == [
        f"{context.trace_id:032x}",
        f"{context.span_id:016x}",
    ]
    assert (f"{context.trace_id:032x}" in PARENT) is bool(headers)


@pytest.mark.parametrize(
    "path", [f"{PATH}/{{}}", "/login/link?code={}", "/login/provider/back?code={}"]
)
def test_no_link_that_lets_its_reader_act_is_in_a_trace(
    http: TestClient, spans: InMemorySpanExporter, path: str
) -> None:
    secret = "s3cret-of-a-link"
    referrer = {"Referer": f"http://127.0.0.1:8470{path.format(secret)}"}
    http.get(path.format(secret))
    http.post(path.format(secret))
    http.get("/healthz", headers=referrer)

    assert [span.name for span in spans.get_finished_spans()] == ["GET /healthz"]
    assert secret not in "".join(span.to_json() for span in spans.get_finished_spans())
