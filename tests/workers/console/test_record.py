"""The page of a record says who may move it on and why not, and shows its family, budget and way.

And the fleet shows where all records are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import pytest
from fastapi.testclient import TestClient

from interlock.kernel.machines import MACHINES
from interlock.systems.jobs.client import Graphs
from interlock.workers.access.roles import Act, Role
from interlock.workers.client import Client
from interlock.workers.console.app import create_console
from interlock.workers.console.fleet import width_of
from interlock.workers.console.record_look import signs, verbs_of
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.tasks.claims import noted
from tests.systems.threads.threads import FAILED, STARTED, bring, client_of, consent, step
from tests.waiting import until
from tests.workers.access.tokens import new_token

SITE = "http://interlock.example"
JOB = {"phases": [{"worker": {"command": "true"}}]}


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


@pytest.fixture
def browser(interlock: Client) -> Iterator[TestClient]:
    app = create_console(interlock)
    with TestClient(app, base_url=SITE, follow_redirects=False) as opened:
        token = new_token(interlock, Role.VIEWER)
        opened.post("/login", data={"token": token}, headers={"Origin": SITE})
        yield opened


def words_in(html: str) -> str:
    """Return the text of a page, without its tags, on one line."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def test_the_page_tells_what_was_asked_what_came_of_it_and_policy_last(
    browser: TestClient, interlock: Client
) -> None:
    asked = {"source": "test", "title": "Paper", "text": "Two packs, please."}
    bring(interlock, "paper", "awaiting_confirmation", inciting=asked)
    page = browser.get("/records/paper").text

    headings = ["What was asked", "What came of it", "Timeline", "Policy"]
    places = [page.index(f"<h2>{heading}</h2>") for heading in headings]
    assert places == sorted(places)
    assert "Two packs, please." in page[places[0] : places[1]]
    assert "Nothing yet: it has not ended." in page[places[1] : places[2]]
    assert 'data-means="asks"' in page


def test_the_timeline_tells_what_was_proposed_what_a_person_changed_and_said_and_what_failed(
    browser: TestClient, interlock: Client
) -> None:
    consent(interlock, "dentist", parameters={"text": "2026-12-11"})
    changed = {"parameters": {"text": "2026-12-10"}}
    interlock.decide("dentist", "edit", changed, proposal=interlock.show("dentist").proposal)
    interlock.decide("dentist", "approve", proposal=interlock.show("dentist").proposal)
    step(interlock, "dentist", "execution_failed", {"detail": "the calendar is full"})
    page = browser.get("/records/dentist").text
    told = words_in(page.partition("<h2>Timeline</h2>")[2].partition("<h2>Policy</h2>")[0])

    assert "what to do jot text Friday 11 December 2026" in told
    assert "A person changed the proposal by tester" in told
    assert "Before After text Friday 11 December 2026 Thursday 10 December 2026" in told
    assert "the calendar is full" in told
    assert "text=" not in page
    failures = words_in(browser.get("/records/dentist?kind=failures").text)
    assert "the calendar is full" in failures


def test_each_trigger_has_who_may_fire_it_and_why_it_is_not_taken(
    browser: TestClient, interlock: Client
) -> None:
    graphs = Graphs(interlock)
    graphs.open("nightly", {"stewards": ["ben"]})
    graphs.create("nightly/fetch", JOB, held=False)
    graphs.create("nightly/load", {**JOB, "depends_on": ["nightly/fetch"]}, held=False)

    text = words_in(browser.get("/records/nightly/load").text)

    assert "cancel → canceled by a producer, a person" in text
    assert "scheduled → running by the worker of scheduling Not now: job: scheduled" in text
    assert "Not now: job: dependency_waived is refused in pending: ann is no steward" in text
    assert (
        "force success → success by a person Needs an answer: reason: this field is missing, add it"
        in text
    )
    assert "approve only in approval required" in text
    assert signs(MACHINES["job"])
    assert not signs(MACHINES["turn"])


def test_the_family_is_a_tree_in_order_and_leads_up_and_down(
    browser: TestClient, interlock: Client
) -> None:
    graphs = Graphs(interlock)
    for name in ("build", "build-2"):
        graphs.create(f"nightly/{name}", JOB)

    below = browser.get("/records/nightly").text
    above = browser.get("/records/nightly/build").text

    indented = re.findall(r'data-row="([^"]+)" data-at="\d+"><svg width="(\d+)"', below)
    assert indented == [("nightly/build", "16"), ("nightly/build-2", "16")]
    assert '<a href="/records/nightly">' in above


def test_the_page_shows_what_was_used_of_the_budget(browser: TestClient, interlock: Client) -> None:
    bring(interlock, "paper", "awaiting_confirmation")
    cap = interlock.show("paper").counters["cap.spent"]

    text = words_in(browser.get("/records/paper").text)

    assert f"$0.00 of ${cap / 1_000_000:.2f} are spent" in text


def test_the_page_shows_what_was_used_of_a_budget_of_any_name(
    browser: TestClient, interlock: Client
) -> None:
    bring(interlock, "paper", "awaiting_confirmation")
    dispatch = interlock.dispatch
    used = {"cap.tokens": 2_000, "tokens": 1_200, "tree.tokens": 1_200, "residue.tokens": 7}
    for name, amount in used.items():
        dispatch.client.hset(dispatch.keys.counters("paper"), name, amount)

    text = words_in(browser.get("/records/paper").text)

    assert "1,200 of 2,000 tokens are used" in text
    assert "tokens that lost work may have used 7" in text
    assert "at most" not in text, "a cap is nothing that was used"


def test_times_that_come_show_the_time_itself_to_a_pointer_and_the_id_can_be_copied(
    browser: TestClient, interlock: Client
) -> None:
    bring(interlock, "paper", "awaiting_confirmation", expires_s=3_600)

    html = browser.get("/records/paper").text

    assert re.search(r'in <time datetime="\S+Z" title="[-0-9]+ [:0-9]+ UTC">5\d min</time>', html)
    assert 'data-copy="paper"' in html


def test_a_button_to_cancel_is_shown_only_where_the_table_has_it(interlock: Client) -> None:
    acts = frozenset(Act)
    found = {"state": "", "paused": False, "failures": {}}

    for machine, state, may in (("thread", "proposed", True), ("workspace", "open", False)):
        shown = list(verbs_of({**found, "state": state}, interlock.machines[machine], acts))
        assert ("cancel" in shown) == may, machine


def test_the_log_can_be_filtered_and_says_what_failed(
    browser: TestClient, interlock: Client
) -> None:
    bring(interlock, "paper", "awaiting_confirmation")

    log = browser.get("/records/paper").text.partition("<h2>Timeline</h2>")[2]
    moves = browser.get("/records/paper?kind=moves").text.partition("<h2>Timeline</h2>")[2]

    interlock.codes = ("as:operator", f"trace:00-{'4bf9' * 8}-00f067aa0ba902b7-01")
    interlock.pause("paper", reason="too early")
    for detail in ({"codes": [404]}, {"codes": 404, "actor": "ann"}):
        noted(interlock, "paper", "asked", **detail)
    paused = words_in(browser.get("/records/paper").text.partition("<h2>Timeline</h2>")[2])

    assert f"pause by tester , operator · reason too early in trace {'4bf9' * 8}" in paused
    assert "asked · codes [404]" in paused, "a note of a handler"
    assert "asked by ann (404)" in paused
    assert "How it was carried out" in log
    assert "of workers and cards" not in moves
    assert "inference done" in moves
    assert browser.get("/records/paper?kind=others").status_code == 422


def test_the_diagram_has_the_way_of_the_record_and_where_it_is(
    browser: TestClient, interlock: Client
) -> None:
    bring(interlock, "paper", "awaiting_intent_clarification")

    html = browser.get("/records/paper").text

    here = re.findall(r'class="node \w+ here".*?<title>([^:]+):', html, re.DOTALL)
    passed = re.findall(r'class="node \w+ passed".*?<title>([^:]+):', html, re.DOTALL)
    assert here == ["awaiting intent clarification"]
    assert set(passed) == {"proposed", "awaiting inference", "inferring intent"}
    assert html.count('class="arrow taken"') == 3


def test_the_fleet_has_exact_counts_what_moved_since_and_how_long_it_stayed(
    browser: TestClient, interlock: Client
) -> None:
    app = browser.app
    bring(interlock, "paper", "awaiting_confirmation")
    samples = app.state.samples  # type: ignore[attr-defined]
    until(lambda: samples.kept, what="the console has taken its own sample of this minute")
    samples.kept = []
    samples.look()
    bring(interlock, "pen", "awaiting_inference")
    step(interlock, "pen", *STARTED)
    step(interlock, "pen", *FAILED)

    html = browser.get("/fleet").text
    text = words_in(html)

    assert "2 live · 4 transitions since then" in text
    assert "awaiting intent clarification: 1 record; it was 0" in text
    assert "awaiting confirmation: 1 record Awaiting" not in text
    assert "inferring intent: 0 records; 1 left since then: half" in text
    assert html.count('class="arrow taken"') == 3
    assert html.count('stroke-width="1.6"') == 3
    assert [width_of(number) for number in (1, 10, 1_000, 10**9)] == [1.6, 3.1, 6.1, 6.1]
    assert 'href="/records?q=machine:thread%20state:awaiting_confirmation"' in html
    assert "No records yet: " in text
    assert "No records yet" in words_in(browser.get("/fleet?machine=job&hours=24").text)
    unknown = browser.get("/fleet?machine=jobs")
    assert unknown.status_code == 404
    assert "there is no machine &#39;jobs&#39;" in unknown.text
