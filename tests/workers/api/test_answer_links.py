"""A link answers one card, once, as one person, for a day; opening it changes nothing."""

from __future__ import annotations

import logging
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from httpx2 import Response
from hypothesis import HealthCheck, given, settings
from starlette.testclient import TestClient

from interlock.kernel.event import Event
from interlock.workers.api.app import create_app
from interlock.workers.client import Client
from interlock.workers.engine.answer_links import (
    LIFETIME_S,
    PATH,
    AnswerLink,
    LinkRefusedError,
    link_of,
)
from interlock.workers.gateways.server import EmbeddedServer
from tests.any_text import any_text
from tests.damage import chances, torn
from tests.systems.threads.threads import bring, client_of


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


@pytest.fixture
def api(interlock: Client) -> TestClient:
    return TestClient(create_app(interlock))


@pytest.fixture
def link(interlock: Client) -> AnswerLink:
    """Return a link that approves the action of a thread."""
    record = bring(interlock, "one", "awaiting_confirmation", title="<b>Paper</b>")
    expires_s = interlock.dispatch.views.now_ms() // 1_000 + LIFETIME_S
    return AnswerLink("one", record.proposal, "approve", "ann", expires_s)


def path_of(interlock: Client, link: AnswerLink) -> str:
    return f"{PATH}/{link.token(interlock.dispatch.link_key)}"


def test_opening_a_link_shows_the_question_and_changes_nothing(
    api: TestClient, interlock: Client, link: AnswerLink
) -> None:
    before = interlock.show("one")

    found = api.get(path_of(interlock, link))

    assert found.status_code == 200
    assert "<form method=" in found.text
    assert ">approve</button>" in found.text
    assert "You answer as ann." in found.text
    assert "<b>Paper" not in found.text, "a text of a record is no part of the page"
    assert "default-src 'none'" in found.headers["content-security-policy"]
    assert (found.headers["cache-control"], found.headers["referrer-policy"]) == (
        "no-store",
        "no-referrer",
    )
    assert interlock.show("one") == before


def test_the_button_answers_once_as_the_person_of_the_link(
    api: TestClient, interlock: Client, link: AnswerLink
) -> None:
    path = path_of(interlock, link)
    first, again, opened = api.post(path), api.post(path), api.get(path)

    assert (first.status_code, "ann answered approve" in first.text) == (200, True)
    assert again.text == first.text
    assert (opened.status_code, "answered already" in opened.text) == (410, True)
    last = interlock.history("one")[-1]
    assert isinstance(last, Event)
    assert (last.trigger, last.cause.actor, last.cause.codes) == ("execute", "ann", ("link",))


@pytest.mark.parametrize(
    ("choice", "answer"),
    [("reject", {}), ("edit", {"capability": "jot", "parameters": {"text": "else"}})],
)
def test_a_link_to_a_card_that_was_answered_or_asks_something_else_is_refused(
    api: TestClient, interlock: Client, link: AnswerLink, choice: str, answer: dict[str, Any]
) -> None:
    path = path_of(interlock, link)
    interlock.decide("one", choice, answer, proposal=link.proposal)
    before = interlock.show("one")

    found: list[Response] = [api.get(path), api.post(path)]

    assert [each.status_code for each in found] == [410, 410]
    assert interlock.show("one") == before


@pytest.mark.parametrize("wrong", ["expired", "cut", "forged", "another key", "nothing"])
def test_a_link_that_is_not_valid_answers_nothing(
    api: TestClient, interlock: Client, link: AnswerLink, wrong: str
) -> None:
    key = interlock.dispatch.link_key
    now_s = interlock.dispatch.views.now_ms() // 1_000
    token = link.token(key)
    digest = token.partition(".")[2]
    tokens = {
        "expired": replace(link, expires_s=now_s).token(key),
        "cut": token[:-4],
        "forged": f"{replace(link, person='bob').token(key).partition('.')[0]}.{digest}",
        "another key": link.token(b"another"),
        "nothing": "x",
    }

    found = [getattr(api, verb)(f"{PATH}/{tokens[wrong]}") for verb in ("get", "post")]

    assert [each.status_code for each in found] == [410, 410]
    assert interlock.show("one").state == "awaiting_confirmation"


def test_a_choice_that_the_card_does_not_offer_is_refused(
    api: TestClient, interlock: Client, link: AnswerLink
) -> None:
    found = api.post(path_of(interlock, replace(link, choice="<i>explode")))

    assert found.status_code == 400
    assert "&lt;i&gt;explode" in found.text


@pytest.mark.usefixtures("api")
def test_the_access_log_has_no_link(interlock: Client, link: AnswerLink) -> None:
    path = path_of(interlock, link)
    line = '%s - "%s %s HTTP/%s" %d'
    words = ("127.0.0.1:1", "GET", path, "1.1", 200)
    logger = logging.getLogger("uvicorn.access")
    record = logger.makeRecord(logger.name, logging.INFO, "", 0, line, words, None)

    assert logger.filter(record)
    assert record.getMessage() == '127.0.0.1:1 - "GET /answers/... HTTP/1.1" 200'


def test_every_process_of_a_deployment_has_one_key(interlock: Client) -> None:
    other = Client(interlock.settings)

    assert interlock.dispatch.link_key == other.dispatch.link_key
    assert len(other.dispatch.link_key) == 32


def test_a_link_has_one_text(link: AnswerLink) -> None:
    token = link.token(b"key")
    fields, digest = token.split(".")
    for wrong in (f"{token}=", f"!{token}", f"{token}é", f"{fields}=.{digest}", f"{token}."):
        with pytest.raises(LinkRefusedError):
            link_of(wrong, b"key", 0)


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chance=chances, text=any_text(max_size=40))
def test_no_other_text_is_a_link(link: AnswerLink, chance: Random, text: str) -> None:
    token = link.token(b"key")
    assert link_of(token, b"key", 0) == link
    for wrong in (text, f"{text}.{token}", torn(token.encode(), chance).decode("latin-1")):
        if wrong != token:
            with pytest.raises(LinkRefusedError):
                link_of(wrong, b"key", 0)
