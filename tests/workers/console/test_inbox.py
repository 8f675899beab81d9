"""The inbox and the pages of cards: order, claims, consequences, evidence, several at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from interlock.kernel.errors import CallError
from interlock.kernel.event import Event
from interlock.kernel.record import Record
from interlock.systems.jobs.client import Graphs
from interlock.workers.access.roles import Role
from interlock.workers.client import Client
from interlock.workers.console import card_page
from interlock.workers.console.app import create_console
from interlock.workers.console.sessions import COOKIE
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.terminal.page import Section
from tests.races.in_process_worker import InProcessWorker
from tests.systems.jobs.test_graphs import brought
from tests.systems.tasks.claims import claimed, fire, taken
from tests.systems.threads.threads import bring, client_of, consent, step, thread_payload
from tests.waiting import until
from tests.workers.access.tokens import new_session
from tests.workers.supervision.published import Published

SITE = "http://interlock.example"
OWN = {"Origin": SITE}
MARKUP = '<img src=x onerror="alert(1)">\u202e'
HIDDEN_FIELD = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)">')
DIFF = {"files": 1, "added": 2, "removed": 0, "binary": 0}


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str, tmp_path: Path) -> Client:
    return client_of(server.url, prefix, home=tmp_path)


@pytest.fixture
def browser(interlock: Client) -> Iterator[TestClient]:
    console = create_console(interlock)
    with TestClient(console, base_url=SITE, follow_redirects=False) as opened:
        opened.cookies.set(COOKIE, new_session(interlock, Role.APPROVER))
        yield opened


def text_of(browser: TestClient, path: str, **query: Any) -> str:
    """Return what a page says, without its tags."""
    page = browser.get(path, params=query or None)
    assert page.status_code == 200, page.text
    shown = re.sub(r"<[^>]+>", " ", page.text)
    return " ".join(unescape(shown).split())


def titles(browser: TestClient, **query: Any) -> list[str]:
    page = browser.get("/inbox", params=query).text
    return re.findall(r'<a href="/inbox/([^"?]+)[^"]*" class="asks">', page)


def post(browser: TestClient, path: str, **form: Any) -> Any:
    return browser.post(path, data=form, headers=OWN)


def test_a_deadline_that_comes_is_first_then_priority_then_age(
    browser: TestClient, interlock: Client
) -> None:
    bring(interlock, "old", "awaiting_confirmation")
    bring(interlock, "young", "awaiting_confirmation")
    bring(interlock, "in-an-hour", "awaiting_confirmation", expires_s=3_600)
    bring(interlock, "in-a-minute", "awaiting_confirmation", expires_s=60)
    bring(interlock, "in-a-week", "awaiting_confirmation", expires_s=604_800)
    interlock.submit({**thread_payload(), "hold": True}, machine="thread", id="vip", priority=0)

    expected = ["in-a-minute", "in-an-hour", "vip", "old", "young", "in-a-week"]
    assert titles(browser) == titles(browser, order="cards") == expected
    text = text_of(browser, "/inbox", order="cards")
    assert text.index("A deadline comes within a day") < text.index("The others")
    assert "then timeout → dropped" in text
    assert text.count("then timeout → dropped") == 3


def test_the_inbox_comes_page_by_page_and_is_filtered_by_its_address(
    browser: TestClient, interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.workers.console.inbox_order.CARDS", 2)
    long_id = f"two-{'o' * 190}"
    for record_id, name in (("one", "one"), (long_id, "two"), ("three", "three")):
        bring(interlock, record_id, "awaiting_confirmation", title=f"Buy {name}")
    bring(interlock, "four", "awaiting_intent_clarification")

    first = browser.get("/inbox", params={"kind": "consent"}).text
    following = re.search(r'<a href="(/inbox\?[^"]+cursor=[^"]+)">', first)
    assert following
    second = browser.get(unescape(following[1])).text

    assert re.findall(r'class="request">Buy (\w+)', first) == ["one", "two"]
    assert re.findall(r'class="request">Buy (\w+)', second) == ["three"]
    assert titles(browser, text="buy three") == ["three"]
    assert titles(browser, tree="four") == ["four"]
    assert "No such question is open" in text_of(browser, "/inbox", machine="task")
    assert "2 of 4 questions" in text_of(browser, "/inbox")
    browser.cookies.set(COOKIE, new_session(interlock, Role.APPROVER, machines=("thread",)))
    assert "2 questions, and there are more" in text_of(browser, "/inbox")


def test_the_cards_of_a_family_stand_together_under_the_title_of_their_root(
    browser: TestClient, interlock: Client
) -> None:
    Graphs(interlock).open("nightly")
    job = {"hold": True, "phases": [{"worker": {"command": "true"}}]}
    interlock.submit(job, id="nightly/tidy", machine="job")
    bring(interlock, "paper", "awaiting_intent_clarification")
    asked_ms = interlock.show("paper").since_ms
    # Cards of the same millisecond are in the order of their names.
    until(lambda: interlock.now_ms() > asked_ms, what="the next millisecond")
    interlock.submit(job, id="nightly/sweep", machine="job")

    assert titles(browser) == ["nightly/tidy", "nightly/sweep", "paper"]
    assert "nightly 2 questions" in text_of(browser, "/inbox")
    assert '<h2><a href="/records/nightly">nightly</a>' in browser.get("/inbox").text
    assert titles(browser, order="cards") == ["nightly/tidy", "paper", "nightly/sweep"]
    assert "nightly 2 questions" not in text_of(browser, "/inbox", order="cards")
    browser.cookies.set(COOKIE, new_session(interlock, Role.APPROVER, machines=("job",)))
    assert "<h2>nightly" in browser.get("/inbox").text, "who may not see the root has no link to it"
    browser.cookies.set(COOKIE, new_session(interlock, Role.APPROVER))
    interlock.dispatch.client.hset(interlock.dispatch.keys.record("nightly"), "data", "{")
    for path in ("/inbox", "/inbox/nightly/tidy", "/records/nightly/tidy"):
        assert browser.get(path).status_code == 200, "a damaged root"


def test_a_card_that_is_escalated_is_marked_and_found_by_whom_it_is_escalated_to(
    server: EmbeddedServer, prefix: str
) -> None:
    rows = {"consent": (0.001, "approver"), "*": (3_600, "bob")}
    interlock = client_of(server.url, prefix, escalations=rows)
    bring(interlock, "paper", "awaiting_confirmation")
    bring(interlock, "dentist", "awaiting_intent_clarification")
    with TestClient(create_console(interlock), base_url=SITE) as browser:
        browser.cookies.set(COOKIE, new_session(interlock, Role.APPROVER))
        page = browser.get("/inbox").text
        mine = re.search(
            r'<a href="(/inbox\?escalated=[^"]+)">Cards that are escalated to me', page
        )
        assert mine

        assert "escalated to approver" in text_of(browser, "/inbox/paper")
        assert re.search(r"escalated to bob in 5\d min", text_of(browser, "/inbox/dentist"))
        assert "escalated to approver" in browser.get(mine[1]).text
        assert titles(browser, escalated="ann,approver") == titles(browser, escalated="*")
        assert titles(browser, escalated="*") == ["paper"]


def test_a_tag_leads_to_the_cards_that_have_it_and_is_escaped(
    browser: TestClient, interlock: Client
) -> None:
    bring(interlock, "paper", "awaiting_confirmation", tags=['<img/src="x">&', "eu"])
    bring(interlock, "dentist", "awaiting_confirmation", tags=["eu"])
    pages = [browser.get(path).text for path in ("/inbox", "/inbox/paper", "/records/paper")]

    links = {re.findall(r'<a href="(/inbox\?tag=[^"]+)"', page)[0] for page in pages}
    assert len(links) == 1, "all three pages have the same link"
    filtered = browser.get(unescape(links.pop())).text

    assert not any("<img" in page for page in (*pages, filtered))
    assert re.findall(r'<a href="/inbox/([^"?]+)[^"]*" class="asks">', filtered) == ["paper"]
    assert 'name="tag" value="&lt;img/src=&#34;x&#34;&gt;&amp;"' in filtered
    assert titles(browser, tag="eu") == ["paper", "dentist"]


def test_a_claim_is_shown_to_others_and_handed_over_by_name(
    browser: TestClient, interlock: Client
) -> None:
    proposal = bring(interlock, "paper", "awaiting_confirmation").proposal

    post(browser, "/claim/paper", proposal=proposal, do="claim")
    mine = text_of(browser, "/inbox")
    unnamed = post(browser, "/claim/paper", proposal=proposal, do="hand over", holder=" ")
    post(browser, "/claim/paper", proposal=proposal, do="hand over", holder="bob")
    bobs = text_of(browser, "/inbox/paper")
    post(browser, "/claim/paper", proposal=proposal, do="release")

    assert "you are on it" in mine
    assert unnamed.status_code == 422
    assert "bob is on it for" in bobs
    assert "says ann" in bobs
    assert "is on it" not in text_of(browser, "/inbox")
    interlock.decide("paper", "reject", {}, proposal=proposal)
    assert post(browser, "/claim/paper", proposal=proposal, do="claim").status_code == 409


def test_a_card_shows_the_call_as_it_will_be_made_and_what_cannot_be_undone(
    browser: TestClient, interlock: Client
) -> None:
    consent(interlock, "paper", parameters={"text": "25"}, irreversibility="high")
    consent(interlock, "other", capability="jot_once")

    text = text_of(browser, "/inbox/paper")
    other = text_of(browser, "/inbox/other")

    assert "May this be done: “jot”? Write one line. text 25" in text
    assert "⚠ cannot be undone" in text
    left = "$0.20 of $0.20 of the budget are left"
    assert f"It would cost about $0.12; {left}." in text
    assert "cost" not in other, "it is not known"
    assert "It can be undone" not in other
    assert "Yes, do it … a" in text, "it asks once more"
    assert "No, drop it: nothing is done" in text
    assert "What it has cost so far" not in text, "a budget is no cost"
    assert "What to do about it (the model is only guessing)" in text


def test_what_cannot_be_undone_is_asked_once_more_with_the_call_as_it_is_made(
    browser: TestClient, interlock: Client
) -> None:
    consent(interlock, "rm", parameters={"text": "rm -rf build"}, irreversibility="high")
    bring(interlock, "paper", "awaiting_confirmation")
    given = {name: interlock.show(name).proposal for name in ("rm", "paper")}

    asked = post(browser, "/inbox/rm", proposal=given["rm"], choice="approve", **{"from": "list"})

    assert asked.status_code == 200
    assert "This cannot be undone: jot(text=&#39;rm -rf build&#39;)." in asked.text
    assert interlock.show("rm").state == "awaiting_confirmation"
    sent = dict(HIDDEN_FIELD.findall(asked.text))
    assert post(browser, "/inbox/rm", **sent).status_code == 303
    assert interlock.show("rm").state == "executing"
    at_once = post(browser, "/inbox/paper", proposal=given["paper"], choice="approve")
    assert at_once.status_code == 303, "what can be undone is not asked about again"


def test_exact_values_that_have_a_call_made_at_once_are_asked_about_if_it_cannot_be_undone(
    server: EmbeddedServer, prefix: str, tmp_path: Path
) -> None:
    interlock = client_of(server.url, prefix, home=tmp_path, capabilities="examples.capabilities")
    given = {"choice": "provide", "part": "exact", "capability": "run_command"}
    given["parameters.command"] = "rm -rf build"
    with TestClient(create_console(interlock), base_url=SITE, follow_redirects=False) as browser:
        browser.cookies.set(COOKIE, new_session(interlock, Role.APPROVER))
        proposal = bring(interlock, "paper", "awaiting_redirect").proposal
        asked = post(browser, "/inbox/paper", proposal=proposal, **given)
        assert interlock.show("paper").state == "awaiting_redirect"
        done = post(browser, "/inbox/paper", proposal=proposal, sure="yes", **given)

    assert "run_command(command=&#39;rm -rf build&#39;)" in asked.text
    assert done.status_code == 303
    assert interlock.show("paper").state == "executing"


def test_after_an_answer_comes_the_next_card_of_the_same_list_and_then_the_list(
    browser: TestClient, interlock: Client
) -> None:
    for name in ("one", "two", "three"):
        bring(interlock, name, "awaiting_confirmation", title=f"Buy {name}")
    bring(interlock, "other", "awaiting_confirmation", title="Sell it")

    def answered(name: str) -> str:
        sent = {"proposal": interlock.show(name).proposal, "choice": "reject"}
        done = post(browser, f"/inbox/{name}", list="text=buy", **sent)
        return str(done.headers["location"])

    second = answered("two")
    assert second == "/inbox/three?answered=two&list=text%3Dbuy"
    assert "Buy two is dropped." in text_of(browser, second)
    assert "2 of 3" in text_of(browser, "/inbox/three")
    assert answered("three").startswith("/inbox/one?"), "the one before, after the last"
    assert answered("one") == "/inbox?text=buy&answered=one"
    assert titles(browser) == ["other"]


def test_words_are_sent_without_values_that_nobody_looked_at(
    browser: TestClient, interlock: Client
) -> None:
    bring(interlock, "paper", "awaiting_redirect")
    page = browser.get("/inbox/paper").text
    assert page.count('name="part" value="exact"') == 1, "values have a form of their own"
    proposal = interlock.show("paper").proposal
    words = {"choice": "provide", "part": "words", "text": "the thick kind"}
    untouched = {"capability": "jot", "parameters.text": "as proposed"}

    done = post(browser, "/inbox/paper", proposal=proposal, **words, **untouched)

    assert done.status_code == 303
    last = [line for line in interlock.history("paper") if isinstance(line, Event)][-1]
    assert last.target == "awaiting_inference"
    assert last.payload == {"text": "the thick kind", "values": {}}


def test_an_edit_has_the_fields_of_the_capability_that_is_chosen(
    browser: TestClient, interlock: Client
) -> None:
    bring(interlock, "paper", "awaiting_confirmation")
    page = browser.get("/inbox/paper").text
    assert re.search(r'<textarea name="parameters.text"[^>]*>\s+as proposed</textarea>', page)
    names = set(re.findall(r"<option[^>]*>(\w+)</option>", page)) - {"jot", "true"}
    other = min(names)

    asked = {"choice": "edit", "capability": other}
    another = browser.get("/inbox/paper", params=asked).text
    assert f"<option selected>{other}</option>" in another
    filled = {"choice": "edit", "capability": "jot", "parameters.text": "from a link"}
    assert "from a link" not in browser.get("/inbox/paper", params=filled).text

    form = {"proposal": interlock.show("paper").proposal, "choice": "edit"}
    wrong = {"capability": "press", "parameters.copies": "many", "parameters.text": "a\r\n\tb"}
    refused = post(browser, "/inbox/paper", **form, **wrong)
    assert refused.status_code == 422
    said = re.search(r'id="wrong-parameters.copies">(.+?)</b>', refused.text)
    assert said, "the problem is beside its field"
    assert unescape(said[1]) == "'many' is no whole number"
    assert re.search(r'<textarea name="parameters.text"[^>]*>\na\n\tb</textarea>', refused.text)

    form |= {"capability": "jot", "parameters.text": "by hand"}
    changed = post(browser, "/inbox/paper", **form)
    assert changed.headers["location"] == "/inbox/paper?answered=paper", "it asks again"
    action = interlock.show("paper").data["proposals"]["action"]["payload"]
    assert action["parameters"] == {"text": "by hand"}


def test_who_changes_an_action_has_it_done_in_one_step_unless_it_cannot_be_undone(
    browser: TestClient, interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("paper", "ink"):
        bring(interlock, name, "awaiting_confirmation")
    consent(interlock, "rm", parameters={"text": "25"}, irreversibility="high")

    def changed(name: str) -> Any:
        page = browser.get(f"/inbox/{name}").text
        form = dict(HIDDEN_FIELD.findall(page.split("answer change")[1].split("</form>")[0]))
        return post(browser, f"/inbox/{name}", **form, **{"parameters.text": "26"})

    done, asked = changed("paper"), changed("rm")
    assert done.status_code == 303
    last = [line for line in interlock.history("paper") if isinstance(line, Event)][-2:]
    assert [(one.trigger, one.cause.actor) for one in last] == [
        ("edited", "ann"),
        ("execute", "ann"),
    ]
    assert "This cannot be undone: jot(text=&#39;26&#39;)." in asked.text
    assert "text = 26" in asked.text
    assert interlock.show("rm").state == "awaiting_confirmation"
    sent = dict(HIDDEN_FIELD.findall(asked.text))
    assert post(browser, "/inbox/rm", **sent).status_code == 303
    assert interlock.show("rm").data["proposals"]["action"]["payload"]["parameters"]["text"] == "26"
    assert interlock.show("rm").state == "executing"

    decide = Client.decide

    def refused(client: Client, record_id: str, choice: str, *given: Any, **named: Any) -> Record:
        if choice == "approve":
            raise CallError("the shop is closed")
        return decide(client, record_id, choice, *given, **named)

    monkeypatch.setattr(Client, "decide", refused)
    late = changed("ink")
    assert late.status_code == 409
    assert "Your change was made, but the action is not done: the shop is closed." in late.text
    assert "26" in text_of(browser, "/inbox/ink")


def test_what_failed_is_tried_again_with_the_same_values_by_one_answer(
    browser: TestClient, interlock: Client
) -> None:
    for name in ("paper", "pen"):
        bring(interlock, name, "awaiting_redirect", title=f"Buy {name}")
    page, text = browser.get("/inbox/paper").text, text_of(browser, "/inbox/paper")
    in_sight = re.sub(r"<details.*?</details>", "", page.split('class="asks')[1], flags=re.DOTALL)
    before = interlock.show("paper").data["proposals"]["action"]["payload"]
    again = {"proposal": interlock.show("paper").proposal, "suggested": "0"}

    assert 'class="asks bad"' in page
    assert text.index("Try it again, the same") < text.index("Do something else")
    assert text.index("Do something else") < text.index("Drop it")
    assert "capability" not in in_sight
    done = post(browser, "/inbox/paper", **again)
    assert done.status_code == 303
    assert interlock.show("paper").state == "executing"
    assert interlock.show("paper").data["proposals"]["action"]["payload"] == before
    step(interlock, "paper", "execution_failed", {"detail": "the shop is closed"})
    told = browser.get(done.headers["location"]).text
    assert re.search(
        r'class="told bad"><a href="/inbox/paper">Buy paper</a> failed: the shop', told
    )


def test_nobody_needs_you_only_if_nothing_that_you_answered_is_still_at_work(
    browser: TestClient, interlock: Client
) -> None:
    bring(interlock, "paper", "awaiting_confirmation", title="Buy paper")
    form = {"proposal": interlock.show("paper").proposal, "choice": "approve"}
    done = post(browser, "/inbox/paper", **form)

    assert "Buy paper is being worked on." in text_of(browser, done.headers["location"])
    assert "1 answer is still being worked on: Buy paper" in text_of(browser, "/inbox")
    step(interlock, "paper", "execution_done", {"result": None})
    assert "Buy paper asks: It was done" in text_of(browser, done.headers["location"])
    interlock.decide("paper", "done", proposal=interlock.show("paper").proposal)
    assert "Nobody needs you" in text_of(browser, "/inbox")
    assert "Buy paper is done: jot with text as proposed." in text_of(
        browser, done.headers["location"]
    )


def test_a_value_from_the_words_of_a_person_says_so(browser: TestClient, interlock: Client) -> None:
    consent(interlock, "paper", parameters={"text": "25"})
    words = {"feedback": "the thick kind please"}
    interlock.decide("paper", "redirect", words, proposal=interlock.show("paper").proposal)
    step(interlock, "paper", "inference_started", {})
    action = {"kind": "standard", "capability": "jot", "parameters": {"text": "the thick kind"}}
    said = {"proposal": {"payload": {**action, "summary": "jot it"}, "confidence": 0.95}}
    step(interlock, "paper", "inference_done", said)

    text = text_of(browser, "/inbox/paper")
    assert re.search(r"text the thick kind from \S+ words", text)
    assert "the model is sure" not in text.split("What seems to be wanted")[0]


def test_who_answers_second_is_told_what_the_first_said_and_keeps_what_was_written(
    browser: TestClient, interlock: Client
) -> None:
    record = bring(interlock, "paper", "awaiting_confirmation")
    form = {"proposal": record.proposal, "choice": "reject", "reason": "too dear"}
    interlock.claim_card("paper", proposal=record.proposal, holder="bob")
    interlock.decide("paper", "redirect", {"feedback": "thick"}, proposal=record.proposal)

    late = post(browser, "/inbox/paper", seen=f"{record.version}-0", **form)

    said = late.text[late.text.index("Since you looked") :]
    said = said[: said.index("What you wrote")]
    assert late.status_code == 409
    assert "card claimed" in said
    assert "redirected" in said
    assert "thick" in said
    assert "created" not in said  # that was seen
    assert "too dear" in late.text
    seen = {"seen": f"{record.version}-0"}
    assert "Since you looked" in browser.get("/inbox/paper", params=seen).text


def test_after_an_answer_the_counts_are_those_without_it(
    browser: TestClient, interlock: Client
) -> None:
    for name in ("one", "two", "three"):
        bring(interlock, name, "awaiting_confirmation")
    assert "1 of 3" in text_of(browser, "/inbox/one")
    form = {"proposal": interlock.show("one").proposal, "choice": "reject"}

    after = post(browser, "/inbox/one", **form).headers["location"]

    said = text_of(browser, after)
    assert "1 of 2" in said
    assert "open questions: 2" in said


def test_several_cards_get_one_answer_each_with_its_result(
    browser: TestClient, interlock: Client
) -> None:
    shown = [bring(interlock, name, "awaiting_confirmation").proposal for name in ("one", "two")]
    other = bring(interlock, "three", "awaiting_intent_clarification").proposal
    ticked = [*shown, other]

    asked = browser.get("/answers", params={"choice": "reject", "proposal": ticked}).text
    assert {interlock.show(one).state for one in ("one", "two")} == {"awaiting_confirmation"}
    interlock.decide("two", "approve", {}, proposal=shown[1])
    done = post(browser, "/answers", choice="reject", proposal=ticked, reason="not today").text

    assert "Reject these 2?" in asked
    assert "&#39;reject&#39; is no answer to this card" in asked
    assert "Reject: 1 answered, 2 refused" in done
    assert "somebody answered it" in done
    assert interlock.show("one").state == "dismissed"
    last = [line for line in interlock.history("one") if isinstance(line, Event)][-1]
    assert (last.cause.actor, last.payload["reason"]) == ("ann", "not today")
    assert interlock.show("two").state == "executing"
    assert interlock.show("three").state == "awaiting_intent_clarification"


def test_who_may_not_decide_about_a_job_gets_no_form_that_would_be_refused(
    server: EmbeddedServer, prefix: str, tmp_path: Path
) -> None:
    worker = InProcessWorker(server.url, prefix, tmp_path)
    signed = brought(worker, "g/signed", "approval_required", stewards=["ben"])
    brought(worker, "g/held", "suspended", stewards=["ben"])
    with TestClient(create_console(worker.client), base_url=SITE) as browser:

        def choices(holder: str, path: str) -> set[str]:
            session = new_session(worker.client, Role.APPROVER, holder=holder)
            browser.cookies.set(COOKIE, session)
            page = browser.get(path).text
            return set(re.findall(r'name="choice" value="([^"]+)"', page))

        bens, anns = (choices(holder, "/inbox/g/signed") for holder in ("ben", "ann"))
        page = text_of(browser, "/inbox/g/signed")
        several = {"choice": "approve", "proposal": [signed.proposal]}
        assert (bens, anns) == ({"approve", "reject", "cancel"}, {"cancel"})
        assert "You are ann: only ben may approve, reject." in page
        assert "I am on it" not in page
        assert "runs 1" in page
        assert "only ben may approve" in text_of(browser, "/answers", **several)
        assert "resume" in choices("ann", "/inbox/g/held"), "everybody may resume a job"
        browser.cookies.set(COOKIE, new_session(worker.client, Role.VIEWER))
        assert ">Answer</a>" not in browser.get("/records/g/signed").text


def test_an_answer_to_several_is_counted_and_asks_for_the_role(
    browser: TestClient, interlock: Client
) -> None:
    proposal = bring(interlock, "paper", "awaiting_confirmation").proposal
    form = {"choice": "approve", "proposal": [proposal]}
    assert browser.get("/answers", params={"choice": "approve"}).status_code == 400
    evil = {"Origin": "http://evil.example"}
    for path in ("/answers", "/claim/paper"):
        refused = browser.post(path, data={**form, "do": "claim"}, headers=evil)
        assert refused.status_code == 403
    browser.cookies.set(COOKIE, new_session(interlock, Role.VIEWER))
    assert post(browser, "/answers", **form).status_code == 403
    assert post(browser, "/claim/paper", proposal=proposal, do="claim").status_code == 403
    assert 'type="checkbox"' not in browser.get("/inbox").text
    browser.cookies.set(COOKIE, new_session(interlock, Role.APPROVER, machines=("task",)))
    assert "1 refused" in post(browser, "/answers", **form).text
    assert interlock.show("paper").state == "awaiting_confirmation"


def test_the_work_of_an_agent_is_beside_its_card_or_the_card_says_where_it_is(
    browser: TestClient, interlock: Client, tmp_path: Path
) -> None:
    here, there = interlock.settings.host, "anvil"
    for name, host in (("b/here", here), ("b/there", there)):
        claim = claimed(interlock, name, needs_approval=True, text=MARKUP).alive(host=host)
        folder = f"supervisors/b/{claim.names.name}"
        Published(interlock, tmp_path, host).printed(folder, f"{MARKUP} 2 passed")
        claim.delivered()
        verified = {"commit": "0" * 40, "branch": claim.names.branch, "changes": DIFF}
        fire(interlock, taken(interlock, name), "verified", verified)

    local, remote = browser.get("/inbox/b/here").text, browser.get("/inbox/b/there").text

    assert "What a merge changes: 1 file, +2 -0" in local
    assert 'data-copy="interlock/b/here@1"' in local
    assert "It cannot be shown: its repository /nowhere is not on this computer." in local
    assert "The worker on anvil, where the files are, has been asked for it just now" in remote
    assert "The branch is on the computer anvil." in remote
    assert 'data-copy="git -C /nowhere diff' in unescape(remote)
    for page in (local, remote):
        assert "2 passed" in page
    for page in (local, remote, browser.get("/inbox").text):
        assert "<img" not in page
        assert "\u202e" not in page


def test_evidence_that_fails_leaves_the_question_and_its_answers(
    browser: TestClient, interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_client: Client, _record: Record) -> list[Section]:
        raise ZeroDivisionError

    bring(interlock, "paper", "awaiting_confirmation")
    monkeypatch.setattr(card_page, "evidence", broken)

    shown = browser.get("/inbox/paper").text

    assert "This part cannot be shown. The log of this server has the error." in shown
    assert 'name="choice"' in shown
    news = browser.get("/inbox/paper?seen=1-0", headers={"HX-Request": "true"}).text
    assert "This part cannot be shown" not in news, "no evidence is read to look for news"


def test_what_an_agent_writes_is_harmless_in_every_new_place(
    browser: TestClient, interlock: Client
) -> None:
    consent(interlock, "paper", parameters={"text": MARKUP, MARKUP: 1}, summary=MARKUP)
    proposal = interlock.show("paper").proposal
    step(interlock, "paper", "edited", {"parameters": {"text": MARKUP}})
    form = {"proposal": proposal, "choice": "reject", "reason": MARKUP, "seen": "1-0"}
    wrong = {"choice": MARKUP, "proposal": [interlock.show("paper").proposal, MARKUP]}

    pages = [
        browser.get("/inbox/paper"),
        browser.get("/inbox", params={"text": MARKUP, "kind": MARKUP, "holder": MARKUP}),
        browser.get("/answers", params=wrong),
        post(browser, "/inbox/paper", **form),
        post(browser, "/answers", **wrong),
        post(browser, "/claim/paper", proposal=MARKUP, do="hand over", holder=MARKUP),
    ]

    for page in pages:
        assert "<img" not in page.text, page.request.url
        assert "\u202e" not in page.text, page.request.url
        assert page.status_code < 500
