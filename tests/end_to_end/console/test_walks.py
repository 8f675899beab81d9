"""People walk through the console in a real browser, with a real store behind it.

Where it matters what workers do meanwhile, a worker and beat run as well.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import redis
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize, expect

from interlock.kernel.machines import MACHINES
from interlock.kernel.shown_stage import shown_state
from interlock.workers.access.roles import Role
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from scripts.screenshots import IMAGES, PICTURES, draw
from tests.end_to_end.browser import CHROMIUM
from tests.end_to_end.console.opened import ONLY_WHAT_IS_SENT, PHONE, new_page, open_page
from tests.end_to_end.deployment import Deployment, thread
from tests.systems.runs.workspaces import StoredWorkspace, make_checkpointed_folder
from tests.systems.tasks.claims import claimed
from tests.systems.tasks.test_failed import given_up
from tests.systems.threads.threads import bring
from tests.waiting import until
from tests.workers.access.tokens import new_token
from tests.workers.console.sample_pages import sample_pages
from tests.workers.supervision.published import Published

# The wall is not as high as it is: to paint all of it takes much processor time.
WALL = ViewportSize(width=3840, height=200)
AXE = Axe()
LINE_LENGTH_MAX = 110
GATES = (
    "awaiting_intent_confirmation",
    "awaiting_context_confirmation",
    "awaiting_confirmation",
)
# Notes which lines of the log appear on a page, and how many parts are marked at most.
NOTE_WHAT_APPEARS = """() => {
  window.shown = new Set();
  window.mostMarked = 0;
  new MutationObserver(() => {
    for (const row of document.querySelectorAll(".timeline [data-row]")) {
      window.shown.add(row.dataset.row);
    }
    window.mostMarked = Math.max(window.mostMarked, document.querySelectorAll(".moved").length);
  }).observe(document.body, { attributes: true, childList: true, subtree: true });
}"""
# Returns the texts of a page that have a line with more letters than the argument says, or that
# begin left of the page. In tables and in code a line may be as long as there is room.
FIND_LONG_LINES = """(longest) => {
  const letters = new Map(), found = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const length = text.data.replace(/\\s+/g, " ").trim().length, range = new Range();
    let block = text.parentElement;
    if (!length || block.closest("td, th, pre, svg, .unseen, .skip")) continue;
    while (getComputedStyle(block).display.startsWith("inline")) block = block.parentElement;
    range.selectNodeContents(text);
    const boxes = [...range.getClientRects()];
    const width = boxes.reduce((sum, box) => sum + box.width, 0);
    for (const box of boxes) {
      const lines = letters.get(block) ?? letters.set(block, new Map()).get(block);
      const line = Math.round(box.bottom / 8);
      lines.set(line, (lines.get(line) ?? 0) + length * box.width / width);
      if (box.left < 0 || lines.get(line) > longest) found.add(block.innerText.slice(0, 200));
    }
  }
  return [...found];
}"""
# Shows the page at an address without a navigation, after which axe would be compiled again. The
# head stays: it differs only in the title, and in a script of the inbox that draws nothing.
SHOW = """async (address) => {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address} is answered with the status ${answer.status}`);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  document.title = page.title;
  document.body.replaceWith(page.body);
}"""
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
# Of the sample pages, by name: those that look like no other page, and those with most texts.
LOOKED_AT = ("several cards", "diff", "graph", "job", "agent", "run")
FULL_OF_TEXT = (*LOOKED_AT, "link that answers", "task", "card of a task", "card of a job", "codon")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")


@pytest.mark.parametrize("scripts", [True, False])
def test_a_card_is_answered_in_three_clicks_from_the_start_page_and_a_worker_acts(
    chromium: Browser,
    joint_deployment: Deployment,
    deployed: str,
    scripts: bool,  # noqa: FBT001
) -> None:
    interlock, paper = joint_deployment.client, f"{joint_deployment.scope}-paper"
    interlock.submit(
        thread(title="Buy paper", policy="plan_then_review"), machine="thread", id=paper
    )
    joint_deployment.reaches(paper, "awaiting_confirmation")
    page = open_page(chromium, interlock, deployed, java_script_enabled=scripts)

    page.get_by_role("link", name=re.compile("records? waits? for a person")).click()
    page.locator(".cards li", has_text="Buy paper").locator("a.asks").click()
    page.get_by_role("button", name="Yes, do it").click()

    page.locator(".told a").click()
    if not scripts:
        joint_deployment.ends(paper)
        page.reload()
    expect(page.locator("#now")).to_contain_text("It is done")
    assert joint_deployment.saw(paper, "end")


def test_why_a_record_does_not_go_on_is_found_in_three_clicks_from_the_start_page(
    chromium: Browser, joint_deployment: Deployment, deployed: str
) -> None:
    interlock, ink = joint_deployment.client, f"{joint_deployment.scope}-ink"
    payload = thread("broken", title="Buy ink", why="the shop is closed")
    interlock.submit(payload, machine="thread", id=ink)
    joint_deployment.reaches(ink, "awaiting_redirect")
    page = open_page(chromium, interlock, deployed)

    page.get_by_role("link", name="Fleet", exact=True).click()
    page.locator("#thread a", has_text="awaiting redirect").first.click()
    page.get_by_role("link", name="Buy ink").click()

    expect(page.locator("#now .lead")).to_contain_text("waiting to be told what now")
    expect(page.locator("#now .ask-box")).to_contain_text("the shop is closed")


def test_what_a_worker_does_is_sent_to_the_page_and_seen_without_a_click(
    chromium: Browser, joint_deployment: Deployment, deployed: str
) -> None:
    interlock, paper = joint_deployment.client, f"{joint_deployment.scope}-paper"
    payload = thread(title="Buy paper", policy="ask_every_step")
    interlock.submit(payload, machine="thread", id=paper)
    opened = joint_deployment.reaches(paper, GATES[0])
    page = open_page(chromium, interlock, deployed)
    failures: list[str] = []
    page.on("console", lambda message: failures.append(message.text))
    page.add_init_script(ONLY_WHAT_IS_SENT)
    page.goto(f"/records/{paper}")
    seen = page.locator("input[name=seen]").input_value()
    page.get_by_text("what does not apply now").click()
    page.get_by_label("Reason, for the log").fill("half a sentence")
    page.evaluate(NOTE_WHAT_APPEARS)

    for gate in GATES:
        joint_deployment.reaches(paper, gate)
        words = shown_state(MACHINES["thread"], gate).words
        expect(page.locator("#now .lead .state")).to_have_text(words)
        expect(page.locator("details#not-here")).to_have_attribute("open", "")
        expect(page.get_by_label("Reason, for the log")).to_have_value("half a sentence")
        card = interlock.card(paper)
        assert card is not None
        interlock.decide(paper, card.affordances[0].name, proposal=card.proposal)
    expect(page.locator("#now .lead")).to_contain_text("It is done")

    # The page was sent the new lines of the log, and did not only ask again.
    expect(page.locator("input[name=seen]")).not_to_have_value(seen)
    shown, most_marked = page.evaluate("[[...window.shown], window.mostMarked]")
    assert most_marked > 0
    events = [one for one in joint_deployment.events(paper) if one.version > opened.version]
    assert {f"{one.version}-0" for one in events} <= {*shown}
    assert failures == []  # nothing is refused by the policy of the page


def test_what_is_on_another_computer_is_seen_as_its_worker_publishes_it(
    chromium: Browser, interlock: Client, address: str, tmp_path: Path
) -> None:
    claimed(interlock, "b/one").alive(host="anvil")
    published = Published(interlock, tmp_path, "anvil")
    page = open_page(chromium, interlock, address)
    failures: list[str] = []
    page.on("console", lambda message: failures.append(message.text))
    page.add_init_script(ONLY_WHAT_IS_SENT)
    # A page that is refused as one of too many tries again.
    page.route("**/follow-output/**", lambda route: route.fulfill(status=503), times=1)
    page.goto("/records/b/one")

    expect(page.locator("#output")).to_contain_text("has been asked")
    for text in ("thinking", "thinking it passed"):
        published.prints("supervisors/b/one~1", text)
        until(published.publisher.publish, what="the console asks for the output")
        expect(page.locator("#output")).to_contain_text(text)
    page.goto("/systems/tasks?diff=b/one")
    expect(page.locator("#diff")).to_contain_text("has been asked")
    until(published.publisher.publish, what="the console asks for the diff")
    expect(page.locator("#diff")).to_contain_text("is not on this computer")
    expect(page.locator("#diff form")).to_have_count(0)
    [refusal] = failures  # nothing is refused by the policy of the page
    assert "503" in refusal


def test_pages_fit_a_phone_and_a_wall_and_no_script_of_an_agent_runs(
    chromium: Browser, interlock: Client, address: str, client: redis.Redis, tmp_path: Path
) -> None:
    written = '<img src=x onerror="document.title=1">' + "W" * 60 + " and so on" * 10
    pages = sample_pages(client, interlock, tmp_path, lambda _: written)
    page = open_page(chromium, interlock, address, viewport=PHONE)
    too_long = {}

    for path in (*PAGES, *(pages[name] for name in FULL_OF_TEXT)):
        page.set_viewport_size(PHONE)
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
        assert page.locator("img").count() == 0, path
        page.set_viewport_size(WALL)
        assert page.evaluate("document.documentElement.scrollWidth") <= WALL["width"], path
        too_long[path] = page.evaluate(FIND_LONG_LINES, LINE_LENGTH_MAX)
    assert {path: lines for path, lines in too_long.items() if lines} == {}


def test_a_person_signs_in_and_an_empty_store_leads_to_a_first_thread_in_one_click(
    chromium: Browser, interlock: Client, address: str
) -> None:
    page = new_page(chromium.new_context(base_url=address))
    page.goto("/")
    page.get_by_label("Access token").fill(new_token(interlock, Role.ADMIN))
    page.get_by_role("button", name="Sign in", exact=True).click()

    page.get_by_role("button", name="Create a first thread").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Call the dentist")
    assert [row.title for row in interlock.list()] == ["Call the dentist"]


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
    page = open_page(chromium, interlock, address, "/inbox", java_script_enabled=False)

    for name in ("one", "two"):
        page.get_by_label(f"Answer with others: Buy {name}").check()
    page.locator("select[name=choice]").select_option("approve")
    page.get_by_role("button", name="Show what it would do").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Approve these 2?")
    page.get_by_role("button", name="Approve what is ticked").click()

    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text("Approve: 2 answered, 0 refused")
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
    heads = page.get_by_role("columnheader")
    expect(heads).to_have_text(
        ["Record", "Machine", "Id", "Who", "Created (UTC)", "Took", "Version"]
    )
    page.goto("/fleet")
    page.get_by_role("slider").fill("7")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/fleet?machine=&hours=7")

    failed = given_up(interlock, "two")
    page.goto("/systems/tasks")
    page.get_by_role("button", name="Replay").click()
    expect(page.locator("#now")).to_contain_text("It is waiting for an agent")
    assert interlock.show(failed).state == "open"

    agent = {"repo": "/r", "command": "true", "host": "other-host", "next": "on_mail"}
    interlock.submit(agent, id="scout/1", machine="loop")
    page.goto("/systems/loops?agent=scout")
    page.get_by_label("Text").fill("look here")
    page.get_by_role("button", name="Send").click()
    page.wait_for_url("**/systems/loops?agent=scout")
    expect(page.locator("main")).to_contain_text("look here")

    folder = make_checkpointed_folder(tmp_path / "checkpointed")
    run = StoredWorkspace(client, server.url, prefix, tmp_path, folder).completed_run()
    page.goto(f"/systems/runs?run={run}")
    page.get_by_role("link", name="changes since the one before").first.click()
    expect(page.locator("main")).to_contain_text("From checkpoint")
    page.go_back()
    page.get_by_role("button", name="Go back to it").first.click()
    page.wait_for_url(f"**/systems/runs?run={quote(run.replace('/1', '/2'), safe='')}")


def test_axe_finds_nothing_serious_on_any_page_light_or_dark(
    chromium: Browser, interlock: Client, address: str, client: redis.Redis, tmp_path: Path
) -> None:
    pages = sample_pages(client, interlock, tmp_path, lambda field: f"Look at {field}")
    # A colour that is still on its way to its new value has a contrast of its own.
    first = pages["link that answers"]
    options = {"color_scheme": "light", "reduced_motion": "reduce"}
    page = open_page(chromium, interlock, address, first, **options)
    page.evaluate(AXE.axe_script)
    assert_nothing_serious(page, first)
    page.goto("/")
    page.evaluate(AXE.axe_script)
    for path in ("/login", *PAGES, *(pages[name] for name in LOOKED_AT)):
        page.evaluate(SHOW, path)
        assert_nothing_serious(page, path)
    page.set_viewport_size(PHONE)
    for path in ("/fleet", "/inbox", "/records"):
        page.evaluate(SHOW, path)
        assert_nothing_serious(page, f"{path} on a phone")


def assert_nothing_serious(page: Page, path: str) -> None:
    """Let axe look at the page of a path in light colours and then in dark ones."""
    assert serious(page) == {}, f"{path} in light colours"
    page.emulate_media(color_scheme="dark")
    assert serious(page, runOnly=["color-contrast"]) == {}, f"{path} in dark colours"
    page.emulate_media(color_scheme="light")


def serious(page: Page, **options: Any) -> dict[str, list[str]]:
    """Return the serious findings of axe on a page, each with the elements that it is about."""
    command = "async (options) => (await axe.run(document, options)).violations"
    found = page.evaluate(command, {"resultTypes": ["violations"], **options})
    return {
        each["id"]: [node["html"] for node in each["nodes"]]
        for each in found
        if each["impact"] in ("serious", "critical")
    }


def test_the_keyboard_reaches_every_page_and_says_how(
    chromium: Browser, interlock: Client, address: str
) -> None:
    bring(interlock, "paper", "awaiting_confirmation", title="Buy paper")
    page = open_page(chromium, interlock, address, viewport={"width": 1280, "height": 800})

    expect(page.get_by_role("link", name="Fleet", exact=True)).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Go to the search")
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


def test_a_choice_of_light_or_dark_is_kept(
    chromium: Browser, interlock: Client, address: str
) -> None:
    page = open_page(chromium, interlock, address, color_scheme="light")
    page.locator("details.more summary").click()

    page.get_by_role("button", name="Light or dark").click()
    page.goto("/records")

    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_each_page_has_a_picture_in_the_documents() -> None:
    texts = "".join(page.read_text("utf-8") for page in IMAGES.parent.glob("*.md"))

    drawn = {file.stem for file in IMAGES.iterdir()}
    assert drawn == {*PICTURES} == set(re.findall(r"images/(\w+)\.png", texts))


@pytest.mark.proof
def test_the_pictures_are_drawn_from_a_deployment(chromium: Browser, tmp_path: Path) -> None:
    draw(chromium, PICTURES, tmp_path, is_review=False)

    assert {file.stem for file in tmp_path.iterdir()} == {*PICTURES}
