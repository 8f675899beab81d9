"""The form of an answer: its fields come from a schema, and their texts become typed values."""

from __future__ import annotations

import json
from contextlib import suppress
from random import Random
from typing import Any
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from interlock.kernel.errors import InvalidPayloadError
from interlock.workers.console.app import create_console
from interlock.workers.console.forms import answer_of, fields_of
from interlock.workers.console.sessions import COOKIE
from interlock.workers.gateways.server import EmbeddedServer
from tests.any_text import any_text
from tests.damage import chances, torn
from tests.workers.threads.threads import bring, client_of

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["text", "count"],
    "properties": {
        "text": {"type": "string", "maxLength": 40},
        "count": {"type": "integer"},
        "share": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "really": {"type": "boolean", "default": False},
        "tier": {"enum": ["low", "high"]},
        "tags": {"type": "array"},
        "to": {"$ref": "#/$defs/Person"},
    },
    "$defs": {"Person": {"type": "object", "properties": {"name": {"type": "string"}}}},
}


def test_each_type_has_its_field_and_what_is_proposed_is_filled_in() -> None:
    fields = {one.name: one for one in fields_of(SCHEMA, {"count": 25, "to": {"name": "Ann"}})}

    assert {name: one.kind for name, one in fields.items()} == {
        "text": "text",
        "count": "integer",
        "share": "number",
        "really": "boolean",
        "tier": "choice",
        "tags": "json",
        "to.name": "long",
    }
    assert (fields["count"].value, fields["to.name"].value) == ("25", "Ann")
    assert fields["really"].value == "false"
    assert fields["count"].required
    assert not fields["share"].required


def test_texts_become_values_of_their_type_and_what_is_left_empty_is_not_sent() -> None:
    texts = {"text": "25", "count": "25", "share": "0.5", "really": "true", "tier": "high"}
    texts |= {"tags": '["a"]', "to.name": "Ann"}

    whole = answer_of(fields_of(SCHEMA, {}), texts)
    short = answer_of(fields_of(SCHEMA, {}), {"text": "x", "count": "1"})

    expected: dict[str, Any] = {"text": "25", "count": 25, "share": 0.5, "really": True}
    assert whole == {**expected, "tier": "high", "tags": ["a"], "to": {"name": "Ann"}}
    assert short == {"text": "x", "count": 1}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("count", "'25'"),
        ("count", "true"),
        ("count", "2.5"),
        ("count", ""),
        ("tier", "middle"),
        ("tags", "[1,"),
        ("really", "1"),
        ("share", "much"),
        pytest.param("tags", "[" * 100_000, id="deep"),
    ],
)
def test_a_text_that_is_no_such_value_is_refused_by_the_name_of_its_field(
    name: str, text: str
) -> None:
    texts = {"text": "x", "count": "1", name: text}

    with pytest.raises(InvalidPayloadError, match=name):
        answer_of(fields_of(SCHEMA, {}), texts)


@pytest.mark.fuzz
@given(texts=st.dictionaries(st.sampled_from(list(SCHEMA["properties"])), any_text(max_size=9)))
def test_any_texts_are_an_answer_or_refused(texts: dict[str, str]) -> None:
    with suppress(InvalidPayloadError):
        json.dumps(answer_of(fields_of(SCHEMA, {}), texts))


FORMS: dict[str, dict[str, str]] = {
    "/login": {"token": "x", "then": "/inbox"},
    "/act/pause/one": {"reason": "x", "version": "8", "then": "/records"},
    "/inbox/one": {"proposal": "one:8", "choice": "reject", "reason": "x", "version": "8"},
    "/claim/one": {"proposal": "one:8", "holder": "ann"},
    "/answers": {"proposal": "one:8", "choice": "approve"},
    "/bulk": {"verb": "pause", "machine": "thread", "state": "executing", "reason": "x"},
    "/views": {"name": "mine", "path": "/records?state=executing"},
    "/tokens": {"holder": "ann", "roles": "viewer", "days": "3"},
    "/threads": {"title": "x", "text": "y"},
}
TEXTS = any_text(max_size=20) | st.sampled_from(["\ufffd", "9" * 30, "-1", "//x", "[", "one:8"])


@pytest.fixture
def browser(server: EmbeddedServer, prefix: str) -> TestClient:
    interlock = client_of(server.url, prefix, auth="none")
    bring(interlock, "one", "awaiting_confirmation")
    return TestClient(create_console(interlock), base_url="http://127.0.0.1")


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(list(FORMS)),
    texts=st.lists(TEXTS, min_size=2, max_size=2),
    cookie=st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=20),
    chance=st.none() | chances,
)
@example(path="/login", texts=["\ufffd", "/"], cookie="", chance=None)
def test_no_form_and_no_cookie_is_a_fault_of_the_server(
    browser: TestClient, path: str, texts: list[str], cookie: str, chance: Random | None
) -> None:
    names = list(FORMS[path])
    body = urlencode({**FORMS[path], names[0]: texts[0], names[-1]: texts[1]}).encode()
    sent = torn(body, chance) if chance else body
    headers = {
        b"Origin": b"http://127.0.0.1",
        b"Content-Type": b"application/x-www-form-urlencoded",
        b"Cookie": f"{COOKIE}={cookie}".encode("latin-1"),
    }

    answer = browser.post(path, content=sent, headers=headers, follow_redirects=False)

    assert answer.status_code < 500, answer.text
