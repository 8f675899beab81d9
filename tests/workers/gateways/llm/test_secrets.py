"""What a provider repeats of a key is in no error, so in no card, log, record or trace."""

from __future__ import annotations

import json
import traceback

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent
from pydantic_ai.models.instrumented import InstrumentationSettings

from interlock.workers.redaction import hide_secrets, without_secrets
from interlock.workers.threads.inference.model import model_named
from tests.fakes.openai_server import OpenAIServer, Reply
from tests.workers.threads.inference.questions import ask, failed, question

KEY = "sk-supersecret-0123456789"


@pytest.mark.parametrize("named", ["setting", "environment"])
def test_a_key_that_a_provider_repeats_is_in_no_failure_and_no_span(
    monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    body = {"error": {"message": f"Incorrect API key provided: Bearer {KEY}", "type": "x"}}
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    traced = InstrumentationSettings(tracer_provider=provider, include_content=False)
    monkeypatch.setattr(Agent, "_instrument_default", traced)
    if named == "environment":
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
    key = KEY if named == "setting" else None

    with OpenAIServer([Reply(json.dumps(body).encode(), status=401)]) as server:
        model = model_named("openai:gpt-4o-mini", base_url=server.url, api_key=key)
        outcome = ask(model, question())

    detail = failed(outcome).detail
    assert "status 401 (Incorrect API key provided: Bearer *****" in detail
    assert KEY not in repr(outcome)
    sent = spans.get_finished_spans()
    assert not any(span.status.is_ok for span in sent)
    assert KEY not in "".join(span.to_json() for span in sent)


def test_an_error_and_its_causes_show_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", KEY)
    cause, error = ValueError(f"refused {KEY}"), RuntimeError("it failed", 3, f"with {KEY}")
    cause.__dict__["body"] = {"said": [f"no {KEY}"]}
    error.__cause__ = cause

    hide_secrets(error)

    assert KEY not in "".join(traceback.format_exception(error)) + repr(vars(cause))
    assert error.args[:2] == ("it failed", 3)


def test_the_password_of_an_address_is_hidden_wherever_it_comes_from() -> None:
    said = without_secrets("fatal: unable to access 'https://ann:hunter2hunter2@git.example/a.git'")

    assert said == "fatal: unable to access 'https://ann:**************@git.example/a.git'"
