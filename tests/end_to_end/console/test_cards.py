"""People answer cards in a real browser: by clicks and keys, on a phone, and several at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, ViewportSize, expect

from interlock.kernel.event import Event
from interlock.kernel.machines import MACHINES
from interlock.kernel.shown_stage import shown_state
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from tests.end_to_end.browser import CHROMIUM
from tests.end_to_end.console.opened import ONLY_WHAT_IS_SENT, PHONE, console_of, open_page, ready
from tests.systems.threads.threads import bring, client_of, consent
from tests.waiting import until

THUMB_PX = 44
DESK = ViewportSize(width=1280, height=700)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")


def test_a_card_is_rejected_with_a_reason_on_a_phone(
    chromium: Browser, interlock: Client, address: str
) -> None:
    bring(interlock, "paper", "awaiting_confirmation", title="Buy paper")
    page = open_page(chromium, interlock, address, "/inbox", viewport=PHONE, has_touch=True)

    page.locator(".cards a.asks").tap()
    page.get_by_text("Say why not").tap()
    page.get_by_role("textbox", name="Why not").fill("too dear")
    for touched in page.locator("main button:visible, main summary:visible").all():
        box = touched.bounding_box()
        assert box is not None
        assert box["height"] >= THUMB_PX, touched.inner_text()
    page.get_by_role("button", name="No, drop it").tap()

    expect(page.locator("p.told")).to_contain_text("dropped")
    last = [line for line in interlock.history("paper") if isinstance(line, Event)][-1]
    assert last.payload["reason"] == "too dear"


def test_a_key_does_what_its_click_does_and_what_cannot_be_undone_asks_once_more(
    chromium: Browser, interlock: Client, address: str
) -> None:
    for name in ("paper", "pen", "ink"):
        bring(interlock, name, "awaiting_confirmation", title=f"Buy {name}")
    consent(interlock, "rm", parameters={"text": "rm -rf build"}, irreversibility="high")
    page = open_page(chromium, interlock, address, "/inbox")

    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    ready(page)
    page.keyboard.press("a")
    expect(page.locator("p.told")).to_contain_text("Buy paper is being worked on")
    page.keyboard.press("j")
    page.keyboard.press("o")
    page.wait_for_url("**/inbox/pen")
    page.keyboard.press("a")  # as a double press would: the card has just been opened
    assert interlock.show("pen").state == "awaiting_confirmation"
    ready(page)
    page.keyboard.press("c")
    expect(page.locator(".claim")).to_contain_text("You are on it")
    # The claim loads the page anew, which hears keys only once its scripts have run.
    page.wait_for_load_state()
    page.get_by_text("Say why not").click()
    page.get_by_role("textbox", name="Why not").fill("too dear")
    ready(page)
    page.keyboard.press("Control+Enter")
    page.wait_for_url("**/inbox/ink?*")
    page.keyboard.press("e")
    expect(page.get_by_role("textbox", name="text")).to_be_focused()
    expect(page.get_by_role("button", name="Yes, do it")).to_be_hidden()
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("j")
    page.wait_for_url("**/inbox/rm*")
    page.keyboard.press("j")
    expect(page.locator(".hint-of-key")).to_have_text("This is the last card.")
    ready(page)
    page.keyboard.press("a")
    expect(page.locator("main")).to_contain_text("This cannot be undone: jot(text='rm -rf build')")
    assert interlock.show("rm").state == "awaiting_confirmation"
    page.keyboard.press("Enter")  # of what is in sight, the first is to leave it
    page.wait_for_url("**/inbox/rm")
    page.get_by_role("button", name="Yes, do it …").click()
    page.get_by_role("button", name="Yes, do it").click()
    expect(page.locator("p.told")).to_be_visible()

    states = {name: interlock.show(name).state for name in ("paper", "pen", "ink", "rm")}
    assert states == {
        "paper": "executing",
        "pen": "dismissed",
        "ink": "awaiting_confirmation",
        "rm": "executing",
    }


def test_a_card_that_somebody_else_has_answered_says_so_and_takes_no_answer(
    chromium: Browser, interlock: Client, address: str
) -> None:
    proposal = bring(interlock, "paper", "awaiting_confirmation", title="Buy paper").proposal
    page = open_page(chromium, interlock, address)
    page.clock.install()
    page.goto("/inbox/paper")
    page.get_by_text("Say why not").click()
    page.get_by_role("textbox", name="Why not").fill("too dear")
    expect(page.get_by_text("1 of 1", exact=True)).to_be_visible()
    expect(page.get_by_text("no deadline")).to_be_visible()

    Client(interlock.settings, actor="bob").decide(
        "paper", "reject", {"reason": "we have some"}, proposal=proposal
    )
    for _ in range(2):  # what is told stays when the page is renewed once more
        with page.expect_response("**/inbox/paper?seen=*"):
            page.clock.run_for(5_000)
        expect(page.locator("#news")).to_contain_text("rejected")
        expect(page.locator("#news")).to_contain_text("by bob")
        expect(page.locator("#news")).to_contain_text("we have some")
    expect(page.locator("#state")).to_have_text(shown_state(MACHINES["thread"], "dismissed").words)
    expect(page.get_by_role("link", name="see what has happened")).to_be_visible()
    expect(page.get_by_text("1 of 1", exact=True)).to_be_hidden()
    expect(page.get_by_text("no deadline")).to_be_hidden()
    expect(page.get_by_role("button", name="Yes, do it")).to_have_count(0)
    expect(page.get_by_role("button", name="No, drop it")).to_have_count(0)
    expect(page.get_by_role("textbox", name="Why not")).to_have_value("too dear")
    page.get_by_role("textbox", name="Why not").press("Control+Enter")
    expect(page.get_by_role("textbox", name="Why not")).to_have_value("too dear")
    expect(page.get_by_role("alert")).to_have_count(0)  # nothing was sent, so nothing was refused
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("a")
    expect(page.locator(".hint-of-key")).to_have_text("This question is not open any more.")

    page.get_by_role("link", name="Show it as it is now").click()
    expect(page.locator("main")).to_contain_text("No question about this record is open now")
    plain = open_page(chromium, interlock, address, "/inbox/paper", java_script_enabled=False)
    expect(plain.locator("main")).to_contain_text("No question about this record is open now")
    expect(plain.locator("main")).to_contain_text("by bob")


def test_of_two_who_answer_one_card_the_second_is_told_what_the_first_said(
    chromium: Browser, interlock: Client, address: str
) -> None:
    bring(interlock, "paper", "awaiting_confirmation", title="Buy paper")
    ann, bob = (open_page(chromium, interlock, address) for _ in range(2))
    bob.add_init_script(ONLY_WHAT_IS_SENT)  # he has not seen yet what she said
    for page in (ann, bob):
        page.goto("/inbox/paper")
    bob.get_by_text("Say why not").click()
    bob.get_by_role("textbox", name="Why not").fill("too dear")

    ann.get_by_role("button", name="Yes, do it").click()
    until(lambda: interlock.show("paper").state == "executing", what="the first answer has come")
    bob.get_by_role("button", name="No, drop it").click()

    expect(bob.get_by_role("alert")).to_contain_text("somebody answered it")
    expect(bob.locator("#news")).to_contain_text("execute")
    expect(bob.locator("main")).to_contain_text("too dear")
    assert interlock.show("paper").state == "executing"


def test_the_key_to_change_an_action_leads_to_its_first_field_and_each_time_is_said_in_full(
    chromium: Browser, server: EmbeddedServer, prefix: str, tmp_path: Path
) -> None:
    interlock = client_of(server.url, prefix, home=tmp_path, capabilities="examples.capabilities")
    values = {"title": "Dentist", "start": "2026-12-02T10:00:00"}
    consent(interlock, "dentist", capability="add_appointment", parameters=values)
    with console_of(interlock, chromium) as address:
        page = open_page(chromium, interlock, address, "/inbox/dentist", viewport=DESK)
        ready(page)

        page.keyboard.press("e")

        expect(page.get_by_label("title")).to_be_focused()
        assert page.evaluate("scrollY") == 0
        expect(page.get_by_text("Wednesday 2 December 2026, 10:00", exact=True)).to_be_visible()
        page.get_by_label("start").fill("2026-12-03T10:00:00")
        expect(page.get_by_text("Thursday 3 December 2026, 10:00", exact=True)).to_be_visible()
