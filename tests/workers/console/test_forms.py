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
from interlock.workers.console.forms import (
    answer_of,
    fields_of,
    problems_by_field,
    without_unchanged,
)
from interlock.workers.console.sessions import COOKIE
from interlock.workers.gateways.capabilities.registry import InvalidParametersError
from interlock.workers.gateways.server import EmbeddedServer
from tests.any_text import any_text
from tests.damage import chances, torn
from tests.systems.threads.threads import bring, client_of

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["text", "count"],
    "properties": {
        "text": {"type": "string", "maxLength": 40},
        "count": {"type": "integer"},
        "share": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "really": {"type": "boolean", "default": False},
        "tier": {"enum": ["low", "high"]},
        "level": {"enum": [1, 2, None]},
        "rows": {"type": "array"},
        "tags": {"type": ["array", "null"], "items": {"type": "string"}},
        "sizes": {"type": "array", "items": {"$ref": "#/$defs/Size"}},
        "day": {"type": "string", "format": "date"},
        "start": {"type": "string", "format": "date-time"},
        "to": {"$ref": "#/$defs/Person"},
    },
    "$defs": {
        "Size": {"type": "integer"},
        "Person": {
            "type": "object",
            "properties": {
                "home": {"type": "object", "properties": {"street": {"type": "string"}}},
                "name": {"type": "string"},
                "boss": {"$ref": "#/$defs/Person"},
            },
        },
    },
}
DEFS = {"$defs": SCHEMA["$defs"]}


def test_each_type_has_its_field_and_what_is_proposed_is_filled_in() -> None:
    fields = {one.name: one for one in fields_of(SCHEMA, {"count": 25, "to": {"name": "Ann"}})}

    assert {name: (one.kind, one.group) for name, one in fields.items()} == {
        "text": ("text", ""),
        "count": ("integer", ""),
        "share": ("number", ""),
        "really": ("boolean", ""),
        "tier": ("choice", ""),
        "level": ("json", ""),
        "rows": ("json", ""),
        "tags": ("lines", ""),
        "sizes": ("lines", ""),
        "day": ("date", ""),
        "start": ("utc", ""),
        "to.name": ("long", "to"),
        "to.home.street": ("long", "to: home"),
        "to.boss.home": ("json", "to: boss"),
        "to.boss.name": ("long", "to: boss"),
        "to.boss.boss": ("json", "to: boss"),
    }
    assert fields["level"].choices == ("1", "2")
    assert (fields["count"].value, fields["to.name"].value) == ("25", "Ann")
    assert fields["really"].value == "false"
    assert fields["count"].required
    assert not fields["share"].required


def test_texts_become_values_of_their_type_and_what_is_left_empty_is_not_sent() -> None:
    texts = {"text": "25", "count": "25", "share": "0.5", "really": "true", "tier": "high"}
    texts |= {
        "rows": '["a"]',
        "tags": "a b\n\nc",
        "sizes": "1\n2",
        "to.name": "Ann",
        "level": "2",
    }
    texts |= {"day": "2026-01-31", "start": "2026-01-31T09:30"}

    whole = answer_of(fields_of(SCHEMA, {}), texts)
    short = answer_of(fields_of(SCHEMA, {}), {"text": "x", "count": "1"})

    expected: dict[str, Any] = {"text": "25", "count": 25, "share": 0.5, "really": True}
    expected |= {"tier": "high", "level": 2, "rows": ["a"], "tags": ["a b", "c"], "sizes": [1, 2]}
    expected |= {"day": "2026-01-31", "start": "2026-01-31T09:30:00Z", "to": {"name": "Ann"}}
    assert whole == expected
    assert short == {"text": "x", "count": 1}


@pytest.mark.parametrize(
    ("name", "proposed", "kind"),
    [
        ("start", "2026-01-31T09:30:00Z", "utc"),
        ("start", "2026-01-31T09:30:00", "local"),
        pytest.param("start", "2026-01-31T09:30:00+02:00", "long", id="another zone"),
        pytest.param("start", "2026-01-31T09:30:00.5Z", "long", id="parts of seconds"),
        ("start", "tomorrow", "long"),
        ("day", "20260131", "long"),
        ("tags", ["a", "b c"], "lines"),
        pytest.param("tags", ["two\nlines"], "json", id="a value of two lines"),
        pytest.param("tags", [" "], "json", id="a value that is no line"),
        pytest.param("tags", ["a\n"], "json", id="a value that ends its line"),
        pytest.param("tags", ["a\u2028b"], "json", id="a value with a hidden end of line"),
        pytest.param("text", "a\tb\nc", "long", id="a short text of two lines"),
        pytest.param("text", "a\r\nb", "json", id="what a browser would change"),
        pytest.param("text", "a\U000e0041b", "json", id="what nobody sees"),
        ("sizes", [1, 2], "lines"),
        pytest.param("sizes", ["1"], "json", id="a text that is to be a number"),
    ],
)
def test_what_is_proposed_is_sent_as_it_was_if_nobody_changes_it(
    name: str, proposed: Any, kind: str
) -> None:
    fields = fields_of({"properties": {name: SCHEMA["properties"][name]}, **DEFS}, {name: proposed})

    assert fields[0].kind == kind
    assert answer_of(fields, {name: fields[0].value}) == {name: proposed}


@pytest.mark.parametrize(
    "part",
    [True, {"anyOf": [True]}, {"type": "array", "items": True}, {"$ref": "#/$defs/Loop"}],
    ids=["true", "true among others", "items", "a reference to itself"],
)
def test_a_schema_that_describes_nothing_takes_json(part: Any) -> None:
    schema = {"properties": {"any": part}, "$defs": {"Loop": {"$ref": "#/$defs/Loop"}}}

    assert [one.kind for one in fields_of(schema, {"any": [1]})] == ["json"]


def test_a_list_that_a_person_empties_is_sent_empty() -> None:
    schema = {"properties": {"tags": SCHEMA["properties"]["tags"]}}

    assert answer_of(fields_of(schema, {"tags": ["a"]}), {"tags": ""}) == {"tags": []}
    assert answer_of(fields_of(schema, {}), {"tags": ""}) == {}


def test_a_problem_is_said_of_the_field_that_has_it() -> None:
    parameters = {"type": "object", "properties": SCHEMA["properties"]}
    fields = fields_of({"properties": {"parameters": parameters, "text": {"type": "string"}}}, {})
    of_capability = ["text: too long", "tags[1]: no text", "nothing: is unknown", "'a' is missing"]

    wrong, others = problems_by_field(fields, InvalidParametersError("jot", of_capability))
    plain, _ = problems_by_field(
        fields, InvalidPayloadError("edited", ["text: this field is missing, add it"])
    )

    assert wrong == {"parameters.text": "too long", "parameters.tags": "no text"}
    assert others == ["nothing: is unknown", "'a' is missing"]
    assert plain == {"text": "this field is missing, add it"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("count", "'25'"),
        ("count", "true"),
        ("count", "2.5"),
        ("count", ""),
        ("tier", "middle"),
        ("rows", "[1,"),
        ("sizes", "1\ntwo"),
        ("day", "31 January"),
        ("start", "2026-01-31T25:00"),
        ("really", "1"),
        ("share", "much"),
        pytest.param("rows", "[" * 100_000, id="deep"),
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
    "/requests": {"title": "x", "text": "y"},
}
TEXTS = any_text(max_size=20) | st.sampled_from(["\ufffd", "9" * 30, "-1", "//x", "[", "one:8"])


@pytest.fixture
def browser(server: EmbeddedServer, prefix: str) -> TestClient:
    interlock = client_of(server.url, prefix, auth="none")
    bring(interlock, "one", "awaiting_confirmation")
    return TestClient(create_console(interlock), base_url="http://127.0.0.1")


def test_words_are_sent_without_the_parameters_that_were_filled_in_for_them(
    server: EmbeddedServer, prefix: str
) -> None:
    interlock = client_of(server.url, prefix, auth="none")
    bring(interlock, "one", "awaiting_redirect")
    browser = TestClient(create_console(interlock), base_url="http://127.0.0.1")
    form = {"proposal": interlock.show("one").proposal, "choice": "provide", "values": ""}
    form |= {"capability": "jot", "parameters.text": "as proposed", "text": "write it larger"}

    browser.post("/inbox/one", data=form, headers={"Origin": "http://127.0.0.1"})

    record = interlock.show("one")
    assert record.state == "awaiting_inference"
    said = record.data["feedback"][-1]
    assert (said["text"], said["values"]) == ("write it larger", {})


@pytest.mark.parametrize(
    ("texts", "sent"),
    [
        ({"text": "larger"}, {"text": "larger"}),
        ({"text": " "}, {"text": " ", "size": "3", "name": "Ann"}),
        (
            {"text": "larger", "size": "4"},
            {"text": "larger", "size": "4", "name": "Ann"},
        ),
    ],
)
def test_what_was_filled_in_is_sent_if_it_was_changed_or_nothing_else_was_said(
    texts: dict[str, str], sent: dict[str, str]
) -> None:
    properties = {"text": {"type": "string"}, "size": {"type": "integer"}, "name": {}}
    fields = fields_of({"properties": properties}, {"size": 3, "name": "Ann"})
    filled = {one.name: one.value for one in fields}

    found = without_unchanged(fields, {**filled, **texts}, "text")

    assert found == {**sent, "name": filled["name"]} if "name" in sent else sent


def test_a_default_that_nobody_proposed_and_nobody_changed_is_not_sent() -> None:
    schema = {"properties": {"copies": {"type": "integer", "default": 1}}}
    (new,), (proposed,) = fields_of(schema, {}), fields_of(schema, {"copies": 1})

    assert answer_of([new], {"copies": "1"}) == {}
    assert answer_of([new], {"copies": "2"}) == {"copies": 2}
    assert answer_of([proposed], {"copies": "1"}) == {"copies": 1}


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
