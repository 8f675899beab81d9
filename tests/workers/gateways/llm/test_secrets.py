"""What a provider repeats of a key is in no error, so in no card, log, record or trace."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.instrumented import InstrumentationSettings

from interlock.workers.engine.effect_ends import EffectRetriedError
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.redaction import hide_secrets, without_secrets
from tests.end_to_end.deployment import thread
from tests.fakes.openai_server import OpenAIServer, Reply
from tests.systems.threads.inference.questions import ask, failed, model_named, question
from tests.workers.engine.running import THREAD, Running, settings_for

KEY = "sk-supersecret-0123456789"


@pytest.mark.parametrize("status", [200, 401])
@pytest.mark.parametrize("named", ["setting", "environment"])
def test_a_key_that_a_provider_repeats_is_in_no_failure_and_no_span(
    monkeypatch: pytest.MonkeyPatch, named: str, status: int
) -> None:
    body: dict[str, Any] = {
        "error": {"message": f"Incorrect API key provided: Bearer {KEY}", "type": "x"}
    }
    if status == HTTPStatus.OK:
        body = {"id": "a", "model": "m", "choices": [], "object": "chat.completion", "created": KEY}
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    traced = InstrumentationSettings(tracer_provider=provider, include_content=False)
    monkeypatch.setattr(Agent, "_instrument_default", traced)
    if named == "environment":
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
    key = KEY if named == "setting" else None

    with OpenAIServer([Reply(json.dumps(body).encode(), status=status)]) as server:
        model = model_named("openai:gpt-4o-mini", base_url=server.url, api_key=key)
        outcome = ask(model, question())

    detail = failed(outcome).detail
    if status == HTTPStatus.UNAUTHORIZED:
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

    assert hide_secrets(error) is error

    assert KEY not in "".join(traceback.format_exception(error)) + repr(vars(cause))
    assert error.args[:2] == ("it failed", 3)


class Numbered(BaseModel):
    number: int


def misread() -> None:
    Numbered.model_validate({"number": f"no {KEY}"})


class ToldError(Exception):
    """An error that computes its text from what is no text."""

    def __init__(self, *told: str) -> None:
        super().__init__()
        self.told = (told,)

    def __str__(self) -> str:
        return str(self.told)


def raising(error: Exception) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


@pytest.mark.parametrize(
    "act",
    [
        misread,
        raising(ToldError("refused", KEY)),
        raising(FileNotFoundError(2, "no such file", f"/x/{KEY}")),
        raising(ImportError(f"no module {KEY}", name="x")),
        raising(ExceptionGroup("two", [ValueError(KEY), ToldError(KEY)])),
        raising(ExceptionGroup("one", [ValueError(KEY)])),
    ],
)
@pytest.mark.parametrize("is_cause", [False, True])
def test_an_error_shows_no_secret_whatever_its_text_is_made_of(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[], None], *, is_cause: bool
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", KEY)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of any class
        act()
    error = caught.value
    if is_cause:
        error = RuntimeError("it failed")
        error.__cause__ = caught.value

    shown = hide_secrets(error)

    assert type(shown).__name__ == type(error).__name__
    text = "".join(traceback.format_exception(shown))
    assert KEY not in text
    assert "in act" in text or "in misread" in text, "it says where it was raised"


def test_a_failure_of_a_handler_shows_no_secret_in_note_and_traceback(
    monkeypatch: pytest.MonkeyPatch, server: EmbeddedServer, prefix: str
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", KEY)
    running = Running(settings_for(server.url, prefix))
    running.client.submit(thread("jot"), machine="thread", id="one")
    entry = running.entry("one")

    with pytest.raises(EffectRetriedError) as caught:
        running.runner.perform(THREAD, entry.name, lambda _: misread(), entry.key("one"))

    text = "".join(traceback.format_exception(caught.value))
    assert "in misread" in text
    assert KEY not in f"{text} {running.client.history('one')}"


def test_a_setting_that_is_shown_is_no_secret_whatever_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = {"INTERLOCK_PASS_VARIABLES": "PYTHONPATH", "PASSENGERS": "seventeen"}
    secrets = ("INTERLOCK_MODEL_API_KEY", "DB_PASS", "PGPASSWORD", "MYSQL_PWD", "MY_PASSPHRASE")
    for name, value in {**shown, **{name: f"{name}-secret" for name in secrets}}.items():
        monkeypatch.setenv(name, value)

    assert without_secrets("PYTHONPATH is not set for seventeen") == (
        "PYTHONPATH is not set for seventeen"
    )
    assert not any(f"{name}-secret" in without_secrets(f"{name}-secret") for name in secrets)


def test_the_password_of_an_address_is_hidden_wherever_it_comes_from() -> None:
    said = without_secrets("fatal: unable to access 'https://ann:hunter2hunter2@git.example/a.git'")

    assert said == "fatal: unable to access 'https://ann:**************@git.example/a.git'"
