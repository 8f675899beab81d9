"""The page of a card: what it shows of an action, and the order of what is filled in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from interlock.kernel.choice_words import ChoiceWords
from interlock.kernel.event import Event
from interlock.workers.access.roles import Role
from interlock.workers.client import Client
from interlock.workers.console.app import create_console
from interlock.workers.console.card_page import without_repeats
from interlock.workers.console.sessions import COOKIE
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.terminal.cards import cards
from interlock.workers.terminal.page import Section, Sentence, Verbatim
from tests.systems.threads.threads import (
    ACTION,
    CONFIRMED,
    CONTEXT,
    DECLARED,
    STARTED,
    bring,
    client_of,
    consent,
    proposed,
    step,
    thread_payload,
)
from tests.workers.access.tokens import new_session
from tests.workers.console.test_inbox import OWN, SITE, text_of
from tests.workers.engine.payments import Payments, payment
from tests.workers.engine.running import settings_for

MILK_DUE = {"title": "Buy milk", "due": "2026-12-03"}
MILK = {"capability": "add_task", "parameters": {"title": "Buy milk"}}


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str, tmp_path: Path) -> Client:
    return client_of(server.url, prefix, home=tmp_path, capabilities="examples.capabilities")


@pytest.fixture
def browser(interlock: Client) -> Iterator[TestClient]:
    with TestClient(create_console(interlock), base_url=SITE, follow_redirects=False) as opened:
        opened.cookies.set(COOKIE, new_session(interlock, Role.OPERATOR))
        yield opened


def test_a_section_to_be_shown_once_is_left_out_where_another_place_has_its_text() -> None:
    asked = Section("Asked", [Sentence("Buy milk, and bread")], place="first")
    printed = Section("Output", [Verbatim("I am done:\nall is bought")], place="wide")
    known = Section("Known", [Sentence("a shop")])
    said = [Section(text, [Sentence(text)], is_once=True) for text in ("Buy milk", "all is bought")]
    new = Section("New", [Sentence("a shop")], is_once=True)

    assert without_repeats([asked, *said, known, new, printed]) == [asked, known, new, printed]


def answer(browser: TestClient, interlock: Client, record_id: str, **form: str) -> Any:
    given = {"proposal": interlock.show(record_id).proposal, **form}
    return browser.post(f"/inbox/{record_id}", data=given, headers=OWN)


def changed_milk(**fields: str) -> Mapping[str, str]:
    """Return the form that changes the title of the task and has it done."""
    form = {"choice": "edit", "part": "words", "at_once": "yes", "capability": "add_task"}
    return {**form, "parameters.title": "Buy oat milk", **fields}


def test_what_an_action_leaves_out_is_said_on_its_card_and_not_in_the_list(
    browser: TestClient, interlock: Client
) -> None:
    consent(interlock, "milk", **MILK)

    said = text_of(browser, "/inbox/milk")

    assert "title Buy milk due not set details not set" in said
    assert "not set" not in text_of(browser, "/inbox")


def test_the_reason_stands_before_the_button_that_sends_it(
    browser: TestClient, interlock: Client
) -> None:
    consent(interlock, "milk", **MILK)
    page = browser.get("/inbox/milk").text

    for choice in ("edit", "reject"):
        at = page.index(f'name="choice" value="{choice}"')
        form = page[at : page.index("</form>", at)]
        assert form.index('name="reason"') < form.index("<button class"), choice


def test_why_a_person_changed_an_action_is_in_the_log_and_on_the_page_of_the_record(
    browser: TestClient, interlock: Client
) -> None:
    consent(interlock, "milk", **MILK)

    done = answer(browser, interlock, "milk", **changed_milk(reason="she drinks no cow's milk"))

    assert done.status_code == 303
    assert interlock.show("milk").state == "executing"
    events = [line for line in interlock.history("milk") if isinstance(line, Event)]
    edited = next(line for line in events if line.trigger == "edited")
    assert edited.because.endswith("she drinks no cow's milk")
    said = text_of(browser, "/records/milk")
    assert re.search("A person changed the proposal.*she drinks no cow's milk", said)
    step(interlock, "milk", "execution_done", {"result": {}})
    assert "Decided by ann: approve, with changes." in text_of(browser, "/records/milk")


def test_a_change_of_an_earlier_proposal_is_none_of_the_one_that_was_approved(
    browser: TestClient, interlock: Client
) -> None:
    consent(interlock, "milk", **MILK)
    answer(browser, interlock, "milk", **changed_milk())
    step(interlock, "milk", "execution_failed", {"detail": "no list"})
    answer(browser, interlock, "milk", choice="redirect", feedback="try once more")
    declared = {**DECLARED, "requires_post_review": False}
    for trigger, payload in [STARTED, proposed({**ACTION, **MILK}, declared=declared)]:
        step(interlock, "milk", trigger, payload)

    answer(browser, interlock, "milk", choice="approve")

    step(interlock, "milk", "execution_done", {"result": {}})
    assert "Decided by ann: approve." in text_of(browser, "/records/milk")


def test_a_reason_alone_changes_nothing(browser: TestClient, interlock: Client) -> None:
    consent(interlock, "milk", **MILK)
    form = {"choice": "edit", "part": "words", "reason": "I do not like it"}

    refused = answer(browser, interlock, "milk", **form)

    assert refused.status_code == 422
    assert interlock.show("milk").state == "awaiting_confirmation"


def test_a_request_without_a_source_is_from_who_handed_it_in(
    browser: TestClient, interlock: Client
) -> None:
    bring(interlock, "paper", "awaiting_confirmation", inciting={"title": "Paper"})
    bring(interlock, "ink", "awaiting_confirmation", inciting={"title": "Ink", "source": "mail"})

    assert "The request, from tester" in text_of(browser, "/inbox/paper")
    assert "The request, from mail" in text_of(browser, "/inbox/ink")


def test_what_was_done_is_told_with_its_values_and_who_decided_it(
    browser: TestClient, interlock: Client
) -> None:
    interlock.submit(thread_payload("Milk"), machine="thread", id="milk")
    declared = {**DECLARED, "requires_post_review": False}
    action = proposed({**ACTION, **MILK, "parameters": MILK_DUE}, declared=declared)
    for trigger, payload in [*CONTEXT, CONFIRMED, STARTED, action]:
        step(interlock, "milk", trigger, payload)
    Client(interlock.settings, actor="root").decide(
        "milk", "approve", proposal=interlock.show("milk").proposal
    )
    result = {"at": "2026-12-03T10:00:00", "uid": "7f561b52-9d1f-4e8d-8d0c-0a1b2c3d4e5f"}
    step(interlock, "milk", "execution_done", {"result": result})

    told = text_of(browser, "/inbox?answered=milk")
    page = text_of(browser, "/records/milk")

    assert "is done: add task with title Buy milk, due Thursday 3 December 2026" in told
    assert re.search(r"It is done : it ended \d+ s ago", page)
    came = page.partition("What came of it")[2].partition("Timeline")[0]
    assert came.startswith(" at Thursday 3 December 2026, 10:00 Technical values uid 7f561b52")
    assert "Decided by root: approve." in came


def test_a_thread_that_a_person_ended_is_dropped(browser: TestClient, interlock: Client) -> None:
    consent(interlock, "milk", **MILK)

    answer(browser, interlock, "milk", choice="reject", reason="We have some.")

    page = text_of(browser, "/records/milk")
    assert "It is dropped : it ended" in page
    came = page.partition("What came of it")[2].partition("Timeline")[0]
    assert came.strip() == "We have some. It ended: a person rejected the action, by ann."
    assert "dismissed" not in text_of(browser, "/inbox/milk")
    assert "Paper is dropped: We have some. " in text_of(browser, "/inbox?answered=milk")


def test_a_reason_is_named_for_the_answer_that_it_belongs_to(
    browser: TestClient, interlock: Client
) -> None:
    consent(interlock, "milk", **MILK)

    said = text_of(browser, "/inbox/milk")

    assert "Say why not Why not, for the log (optional) No, drop it" in said
    assert said.count("Why, for the log") == 1
    assert said.index("Why, for the log") < said.index("Change and do it")


def test_a_suggested_refusal_stands_with_its_choice_below_the_agreement(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {
        "approve": ChoiceWords("Yes, it is"),
        "reject": ChoiceWords("No, refuse it", suggests={"Ask the bank": {"reason": "the bank"}}),
    }
    payments = Payments(settings_for(server.url, prefix, INTERLOCK_AUTH="none"), monkeypatch)
    payments.use(payment(words=words))
    payments.submit()
    payments.work()

    with TestClient(create_console(payments.client), base_url="http://127.0.0.1") as opened:
        page = text_of(opened, "/inbox/one")
    printed = str([*cards([asdict(one) for one in payments.client.cards()])])

    assert page.index("Yes, it is") < page.index("No, refuse it: Ask the bank")
    assert printed.index("Yes, it is") < printed.index("Ask the bank")
