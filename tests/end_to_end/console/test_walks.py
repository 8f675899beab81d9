"""People walk through the console in a real browser, with a real store behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import redis
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from interlock.kernel.event import Event
from interlock.workers.access.roles import Role
from interlock.workers.client import Client
from interlock.workers.console.app import create_console
from interlock.workers.gateways.server import EmbeddedServer
from tests.end_to_end.browser import CHROMIUM, WITHIN_MS, chromium_browser
from tests.waiting import until
from tests.workers.access.tokens import new_token
from tests.workers.api.serving import served
from tests.workers.runs.workspaces import StoredWorkspace, make_checkpointed_folder
from tests.workers.supervision.published import Published
from tests.workers.tasks.claims import claimed
from tests.workers.tasks.test_failed import given_up
from tests.workers.threads.threads import bring, client_of

PHONE = {"width": 360, "height": 740}
THUMB_PX = 44
LIVE_MS = 2_000  # less than until the page is renewed without being told
PAGES = (
    "/",
    "/inbox",
    "/inbox/paper",
    "/records",
    "/records/paper",
    "/fleet",
    "/systems",
    "/systems/threads",
    "/systems/tasks",
    "/systems/jobs",
    "/systems/loops",
    "/systems/runs",
    "/acts",
    "/tokens",
    "/bulk?q=paper&verb=pause",
)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with chromium_browser() as browser:
        yield browser


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


@pytest.fixture
def address(interlock: Client) -> Iterator[str]:
    with served(interlock, create_console) as url:
        yield url


def open_page(
    chromium: Browser, interlock: Client, address: str, role: Role = Role.ADMIN, **options: Any
) -> Page:
    """Open a page in a browser of its own, whose person has signed in."""
    page = chromium.new_context(base_url=address, **options).new_page()
    page.set_default_timeout(WITHIN_MS)
    page.goto("/")
    page.get_by_label("Access token").fill(new_token(interlock, role))
    page.get_by_role("button", name="Sign in", exact=True).click()
    return page


@pytest.mark.parametrize("scripts", [True, False])
def test_the_oldest_card_is_answered_in_three_clicks_from_the_start_page(
    chromium: Browser,
    interlock: Client,
    address: str,
    scripts: bool,  # noqa: FBT001
) -> None:
    bring(interlock, "paper", "awaiting_confirmation", title="Buy paper")
    page = open_page(chromium, interlock, address, java_script_enabled=scripts)

    page.get_by_role("link", name="1 record waits for a person").click()
    page.get_by_role("link", name="Buy paper").click()
    page.get_by_role("button", name="Approve").click()

    expect(page.locator("#now")).to_contain_text("executing", timeout=WITHIN_MS)
    assert interlock.show("paper").state == "executing"
    page.context.close()


def test_what_happens_is_seen_without_a_click(
    chromium: Browser, interlock: Client, address: str, tmp_path: Path
) -> None:
    record = bring(interlock, "paper", "awaiting_confirmation", title="Buy paper")
    page = open_page(chromium, interlock, address)
    failures: list[str] = []
    page.on("console", lambda message: failures.append(message.text))
    page.goto("/records/paper")
    expect(page.locator("#now")).to_contain_text("awaiting confirmation", timeout=WITHIN_MS)
    seen = page.locator("input[name=seen]").input_value()
    page.get_by_text("other triggers are not taken").click()
    page.get_by_label("Reason, for the log").fill("half a sentence")
    page.evaluate(
        """() => { window.marked = 0; new MutationObserver(() => {
        window.marked = Math.max(window.marked, document.querySelectorAll(".moved").length);
        }).observe(document.body, {attributes: true, subtree: true}); }"""
    )

    interlock.pause("paper")
    expect(page.get_by_role("button", name="Resume")).to_be_visible(timeout=WITHIN_MS)

    # The page was sent the new line of the log, and did not only ask again.
    expect(page.locator("input[name=seen]")).not_to_have_value(seen, timeout=WITHIN_MS)
    expect(page.locator("details#not-here")).to_have_attribute("open", "", timeout=WITHIN_MS)
    expect(page.get_by_label("Reason, for the log")).to_have_value("half a sentence")
    page.wait_for_function("window.marked > 0")
    interlock.decide("paper", "reject", {}, proposal=record.proposal)
    expect(page.locator("#now")).not_to_contain_text(
        "It is awaiting confirmation", timeout=WITHIN_MS
    )

    claimed(interlock, "b/one").alive(host="anvil")
    published = Published(interlock, tmp_path, "anvil")
    page.goto("/records/b/one")
    expect(page.locator("#output")).to_contain_text("has been asked", timeout=WITHIN_MS)
    for text in ("thinking", "thinking it passed"):
        published.prints("supervisors/b/one~1", text)
        until(published.publisher.publish, what="the console asks for the output")
        expect(page.locator("#output")).to_contain_text(text, timeout=LIVE_MS)
    assert failures == []  # nothing is refused by the policy of the page
    page.context.close()


def test_why_a_record_does_not_go_on_is_found_in_three_clicks_from_the_start_page(
    chromium: Browser, interlock: Client, address: str
) -> None:
    bring(interlock, "paper", "executing", title="Buy paper")
    page = open_page(chromium, interlock, address)

    page.get_by_role("link", name="Fleet", exact=True).click()
    page.locator("#thread a", has_text="executing").first.click()
    page.get_by_role("link", name="Buy paper").click()

    expect(page.locator("#now")).to_contain_text("no worker has taken it yet", timeout=WITHIN_MS)
    page.context.close()


def test_no_page_is_wider_than_a_phone_and_no_script_of_an_agent_runs(
    chromium: Browser, interlock: Client, address: str
) -> None:
    title = '<img src=x onerror="document.title=1">' + "W" * 150
    bring(interlock, "paper", "awaiting_confirmation", title=title)
    page = open_page(chromium, interlock, address, viewport=PHONE)

    for path in PAGES:
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
        assert page.locator("img").count() == 0, path
    page.context.close()


def test_an_empty_store_leads_to_a_first_thread_in_one_click(
    chromium: Browser, interlock: Client, address: str
) -> None:
    page = open_page(chromium, interlock, address)

    page.get_by_role("button", name="Create a first thread").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Call the dentist", timeout=WITHIN_MS)
    assert [row.title for row in interlock.list()] == ["Call the dentist"]
    page.context.close()


def test_a_card_is_rejected_with_a_reason_on_a_phone(
    chromium: Browser, interlock: Client, address: str
) -> None:
    bring(interlock, "paper", "awaiting_confirmation", title="Buy paper")
    page = open_page(chromium, interlock, address, viewport=PHONE, has_touch=True)

    page.goto("/inbox")
    page.get_by_role("link", name="Buy paper").tap()
    page.get_by_text("Reject …").tap()
    page.get_by_label("reason").fill("too dear")
    for touched in page.locator("main button:visible, main summary:visible").all():
        box = touched.bounding_box()
        assert box is not None
        assert box["height"] >= THUMB_PX, touched.inner_text()
    page.get_by_role("button", name="Reject").tap()

    expect(page.locator("#now")).to_contain_text("dismissed", timeout=WITHIN_MS)
    last = [line for line in interlock.history("paper") if isinstance(line, Event)][-1]
    assert last.payload["reason"] == "too dear"
    page.context.close()


def test_a_key_asks_once_and_names_what_it_would_do(
    chromium: Browser, interlock: Client, address: str
) -> None:
    bring(interlock, "paper", "awaiting_confirmation", title="Buy paper")
    page = open_page(chromium, interlock, address)
    page.goto("/inbox")

    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible(timeout=WITHIN_MS)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("c")
    expect(page.locator(".claim")).to_contain_text("You are on it", timeout=WITHIN_MS)
    page.keyboard.press("a")
    expect(page.locator("#sure")).to_contain_text("Approve “Buy paper”?", timeout=WITHIN_MS)
    assert interlock.show("paper").state == "awaiting_confirmation"
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    page.keyboard.type("too dear")
    page.keyboard.press("Control+Enter")

    expect(page.locator("#now")).to_contain_text("dismissed", timeout=WITHIN_MS)
    page.context.close()


def test_of_two_who_answer_one_card_the_second_is_told_what_the_first_said(
    chromium: Browser, interlock: Client, address: str
) -> None:
    bring(interlock, "paper", "awaiting_confirmation", title="Buy paper")
    ann, bob = (open_page(chromium, interlock, address) for _ in range(2))
    for page in (ann, bob):
        page.goto("/inbox/paper")
    bob.get_by_text("Reject …").click()
    bob.get_by_label("reason").fill("too dear")

    ann.get_by_role("button", name="Approve").click()
    expect(bob.locator("#news")).to_contain_text("execute", timeout=WITHIN_MS)
    bob.get_by_role("button", name="Reject").click()

    expect(bob.get_by_role("alert")).to_contain_text("somebody answered it", timeout=WITHIN_MS)
    expect(bob.locator("main")).to_contain_text("too dear", timeout=WITHIN_MS)
    assert interlock.show("paper").state == "executing"
    for page in (ann, bob):
        page.context.close()


def test_cards_lists_and_the_buttons_of_systems_are_used_without_scripts(
    chromium: Browser,
    interlock: Client,
    address: str,
    client: redis.Redis,
    server: EmbeddedServer,
    prefix: str,
    tmp_path: Path,
) -> None:
    for name in ("one", "two", "three"):
        bring(interlock, name, "awaiting_confirmation", title=f"Buy {name}")
    page = open_page(chromium, interlock, address, java_script_enabled=False)
    page.goto("/inbox")

    for name in ("one", "two"):
        page.get_by_label(f"Answer with others: Buy {name}").check()
    page.locator("select[name=choice]").select_option("approve")
    page.get_by_role("button", name="Look at them").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Approve these 2?")
    page.get_by_role("button", name="Approve what is ticked").click()

    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text("Approve: 2 answered, 0 refused", timeout=WITHIN_MS)
    assert [interlock.show(name).state for name in ("one", "two", "three")] == [
        "executing",
        "executing",
        "awaiting_confirmation",
    ]

    page.goto("/records?q=machine:thread")
    page.get_by_text("Columns", exact=True).click()
    page.get_by_label("Version").check()
    page.get_by_label("State", exact=True).uncheck()
    page.get_by_role("button", name="Search", exact=True).click()
    heads = [head.inner_text() for head in page.get_by_role("columnheader").all()]
    assert heads == ["Record", "Machine", "Id", "In state for", "Version"]
    page.goto("/fleet")
    page.get_by_role("slider").fill("7")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/fleet?machine=&hours=7")

    failed = given_up(interlock, "two")
    page.goto("/systems/tasks")
    page.get_by_role("button", name="Replay").click()
    expect(page.locator("#now")).to_contain_text("It is open", timeout=WITHIN_MS)
    assert interlock.show(failed).state == "open"

    agent = {"repo": "/r", "command": "true", "host": "other-host", "next": "on_mail"}
    interlock.submit(agent, id="scout/1", machine="loop")
    page.goto("/systems/loops?agent=scout")
    page.get_by_label("Text").fill("look here")
    page.get_by_role("button", name="Send").click()
    page.wait_for_url("**/systems/loops?agent=scout")
    expect(page.locator("main")).to_contain_text("look here", timeout=WITHIN_MS)

    folder = make_checkpointed_folder(tmp_path / "checkpointed")
    run = StoredWorkspace(client, server.url, prefix, tmp_path, folder).completed_run()
    page.goto(f"/systems/runs?run={run}")
    page.get_by_role("link", name="changes since the one before").first.click()
    expect(page.locator("main")).to_contain_text("From checkpoint", timeout=WITHIN_MS)
    page.go_back()
    page.get_by_role("button", name="Go back to it").first.click()
    page.wait_for_url(f"**/systems/runs?run={quote(run.replace('/1', '/2'), safe='')}")
    page.context.close()


def test_axe_finds_nothing_serious_on_any_page_light_or_dark(
    chromium: Browser, interlock: Client, address: str
) -> None:
    bring(interlock, "paper", "awaiting_confirmation", title="Buy paper", tags=["home", "eu"])
    # A colour that is still on its way to its new value has a contrast of its own.
    page = open_page(chromium, interlock, address, color_scheme="light", reduced_motion="reduce")
    for path in ("/login", *PAGES):
        page.goto(path)
        assert serious(page) == {}, path
        page.emulate_media(color_scheme="dark")
        assert serious(page, runOnly=["color-contrast"]) == {}, path
        page.emulate_media(color_scheme="light")
    page.context.close()


def serious(page: Page, **options: Any) -> dict[str, list[str]]:
    """Return the serious findings of axe on a page, each with the elements that it is about."""
    found = Axe().run(page, options={"resultTypes": ["violations"], **options}).response
    return {
        each["id"]: [node["html"] for node in each["nodes"]]
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    }


def test_the_keyboard_reaches_every_page_and_says_how(
    chromium: Browser, interlock: Client, address: str
) -> None:
    bring(interlock, "paper", "awaiting_confirmation", title="Buy paper")
    page = open_page(chromium, interlock, address, viewport={"width": 1280, "height": 800})

    expect(page.get_by_role("link", name="Fleet", exact=True)).to_be_visible(timeout=WITHIN_MS)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Go to the search", timeout=WITHIN_MS)
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("i")
    page.wait_for_url("**/inbox")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/inbox/paper")
    page.keyboard.press("/")
    page.keyboard.type("paper")
    page.keyboard.press("Enter")
    page.wait_for_url("**/records/paper")
    copy = page.get_by_role("button", name="Copy paper")
    expect(copy).to_be_visible()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    copy.click()
    assert page.evaluate("navigator.clipboard.readText()") == "paper"
    page.get_by_role("button", name="Copy this line").first.focus()
    page.evaluate("window.reached = document.activeElement; htmx.trigger('#renew', 'changed')")
    page.wait_for_function(
        "() => !window.reached.isConnected && 'copy' in document.activeElement.dataset"
    )
    page.add_init_script("delete Navigator.prototype.clipboard")  # as at addresses without https
    page.reload()
    expect(copy).to_be_hidden()
    page.goto("/systems/threads")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/records/paper")
    page.context.close()


def test_a_choice_of_light_or_dark_is_kept(
    chromium: Browser, interlock: Client, address: str
) -> None:
    page = open_page(chromium, interlock, address, color_scheme="light")
    page.locator("details.more summary").click()

    page.get_by_role("button", name="Light or dark").click()
    page.goto("/records")

    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.context.close()
