"""The pages of the console: what they show, who may see them, and who may act on them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
import redis
from fastapi import FastAPI
from fastapi.testclient import TestClient
from httpx2 import Response

from interlock.kernel.errors import CallError
from interlock.kernel.event import Event
from interlock.systems.jobs.client import Graphs
from interlock.systems.tasks import starved
from interlock.systems.tasks.starved import count_starved
from interlock.workers.access.roles import Role
from interlock.workers.client import Client
from interlock.workers.console import bulk, flow
from interlock.workers.console.app import create_console
from interlock.workers.console.entrance import own_path
from interlock.workers.console.flow import FlowWatch
from interlock.workers.console.sessions import COOKIE
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.top.snapshot import SnapshotReader
from tests.conftest import NewProxy
from tests.systems.tasks.test_reassignment import submitted
from tests.systems.threads.threads import bring, client_of, hold_canary
from tests.workers.access.tokens import new_token
from tests.workers.console.links import broken_links
from tests.workers.console.sample_pages import sample_pages
from tests.workers.test_client import give_up

SITE = "http://interlock.example"
OWN = {"Origin": SITE}
MARKUP = '<img src=x onerror="alert(1)">\u202e'
PAGES = ("/", "/inbox", "/inbox/paper", "/records", "/records/paper", "/fleet", "/systems/threads")


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str, tmp_path: Path) -> Client:
    return client_of(server.url, prefix, home=tmp_path / "home")


@pytest.fixture
def console(interlock: Client) -> FastAPI:
    return create_console(interlock)


@pytest.fixture
def browser(console: FastAPI) -> Iterator[TestClient]:
    with TestClient(console, base_url=SITE, follow_redirects=False) as opened:
        yield opened


def sign_in(browser: TestClient, text: str) -> Response:
    return browser.post("/login", data={"token": text}, headers=OWN)


def proposal_in(page: Response) -> str:
    found = re.search(r'name="proposal" value="([^"]+)"', page.text)
    assert found, page.text
    return unescape(found[1])


@pytest.mark.parametrize("path", PAGES)
def test_who_has_not_signed_in_is_asked_to_and_then_led_back(
    browser: TestClient, interlock: Client, path: str
) -> None:
    bring(interlock, "paper", "awaiting_confirmation")

    sent = browser.get(path)
    there = browser.post(
        "/login", data={"token": new_token(interlock, Role.VIEWER), "then": path}, headers=OWN
    )

    assert (sent.status_code, sent.headers["Location"]) == (303, f"/login?then={path}")
    assert there.headers["Location"] == path
    shown = browser.get(path)
    assert shown.status_code == 200
    assert "script-src 'self'" in shown.headers["Content-Security-Policy"]


def test_the_cookie_of_a_session_is_kept_from_scripts_and_other_sites(
    browser: TestClient, interlock: Client
) -> None:
    cookie = sign_in(browser, new_token(interlock, Role.VIEWER)).headers["Set-Cookie"]

    kept = cookie.partition(";")[0].removeprefix(f"{COOKIE}=")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    for headers in ({}, {"Authorization": f"Bearer {kept}"}):
        assert browser.get("/v1/records", headers=headers).status_code == 401, "it is no token"


def test_behind_a_proxy_with_https_the_cookie_is_sent_over_https_only(
    server: EmbeddedServer, prefix: str
) -> None:
    interlock = client_of(server.url, prefix, public_url="https://interlock.example")
    with TestClient(create_console(interlock), base_url=SITE, follow_redirects=False) as browser:
        cookie = sign_in(browser, new_token(interlock, Role.VIEWER)).headers["Set-Cookie"]

    assert "Secure" in cookie.split("; ")


def test_a_wrong_or_revoked_token_opens_nothing(browser: TestClient, interlock: Client) -> None:
    text = new_token(interlock, Role.VIEWER)
    wrong = sign_in(browser, "il_000000000000_" + "x" * 43)
    sign_in(browser, text)
    interlock.dispatch.access_tokens.revoke(text.split("_")[1], "root")

    assert wrong.status_code == 401
    assert "this access token is unknown" in wrong.text
    assert browser.get("/").headers["Location"].startswith("/login")


def test_a_person_answers_a_card_and_the_log_has_who_it_was(
    browser: TestClient, interlock: Client
) -> None:
    bring(interlock, "paper", "awaiting_confirmation")
    sign_in(browser, new_token(interlock, Role.APPROVER))

    inbox = browser.get("/inbox")
    page = browser.get("/inbox/paper")
    form = {"proposal": proposal_in(page), "choice": "approve"}
    answered = browser.post("/inbox/paper", data=form, headers=OWN)

    assert 'href="/inbox/paper"' in inbox.text
    assert "<td>as proposed" in page.text
    assert answered.headers["Location"] == "/inbox?answered=paper", "no other card is open"
    last = [line for line in interlock.history("paper") if isinstance(line, Event)][-1]
    assert (last.cause.actor, last.cause.codes) == ("ann", ("as:approver",))


def test_a_late_answer_changes_nothing_and_says_what_has_happened(
    browser: TestClient, interlock: Client
) -> None:
    bring(interlock, "paper", "awaiting_confirmation")
    sign_in(browser, new_token(interlock, Role.APPROVER))
    proposal = proposal_in(browser.get("/inbox/paper"))
    interlock.decide("paper", "reject", {}, proposal=proposal)
    version = interlock.show("paper").version

    form = {"proposal": proposal, "choice": "approve"}
    late = browser.post("/inbox/paper", data=form, headers=OWN)

    assert late.status_code == 409
    assert "somebody answered it" in late.text
    assert "reject" in late.text
    assert interlock.show("paper").version == version


def test_a_wrong_answer_is_refused_and_what_was_written_stays(
    browser: TestClient, interlock: Client
) -> None:
    bring(interlock, "paper", "awaiting_intent_clarification")
    sign_in(browser, new_token(interlock, Role.APPROVER))
    form = {"proposal": proposal_in(browser.get("/inbox/paper")), "choice": "provide"}

    renewed = {"HX-Request": "true"}
    written = form | {"values": "{wrong"}
    refused = browser.post("/inbox/paper", data=written, headers=OWN | renewed)

    assert "{wrong" not in browser.get("/inbox/paper", headers=renewed).text, "that others see"
    assert refused.status_code == 422
    assert 'id="wrong-values"' in refused.text
    assert "{wrong" in refused.text
    assert interlock.show("paper").state == "awaiting_intent_clarification"


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/inbox/paper", {}),
        ("/inbox/paper", {"Origin": "http://evil.example"}),
        ("/inbox/paper", {"Origin": "null"}),
        ("/inbox/paper", {"Origin": SITE, "Sec-Fetch-Site": "cross-site"}),
        ("/inbox/paper", {"Sec-Fetch-Site": "same-site"}),
        ("/act/cancel/paper", {"Origin": "http://evil.example"}),
        ("/act/pause/paper", {"Origin": "http://evil.example"}),
        ("/login", {"Origin": "http://evil.example"}),
    ],
)
def test_a_form_that_another_site_sends_is_refused(
    browser: TestClient, interlock: Client, path: str, headers: dict[str, str]
) -> None:
    bring(interlock, "paper", "awaiting_confirmation")
    text = new_token(interlock, Role.OPERATOR)
    sign_in(browser, text)
    proposal = proposal_in(browser.get("/inbox/paper"))

    form = {"proposal": proposal, "choice": "approve", "token": text}
    refused = browser.post(path, data=form, headers=headers)

    assert refused.status_code == 403
    record = interlock.show("paper")
    assert (record.state, record.paused) == ("awaiting_confirmation", False)


def test_a_viewer_sees_no_button_that_would_be_refused(
    browser: TestClient, interlock: Client
) -> None:
    bring(interlock, "paper", "awaiting_confirmation")
    sign_in(browser, new_token(interlock, Role.VIEWER))

    places = (
        "/",
        "/inbox",
        "/inbox/paper",
        "/records/paper",
        "/records?q=state:executing",
        "/acts",
    )
    pages = "".join(browser.get(path).text for path in places)

    assert set(re.findall(r'<form method="post" action="([^"]+)"', pages)) == {"/logout"}
    for path in ("/inbox/paper", "/act/cancel/paper", "/act/pause/paper"):
        assert browser.post(path, headers=OWN).status_code == 403


def test_an_operator_pauses_resumes_and_cancels(browser: TestClient, interlock: Client) -> None:
    bring(interlock, "paper", "awaiting_confirmation")
    sign_in(browser, new_token(interlock, Role.OPERATOR))

    browser.post("/act/pause/paper", headers=OWN)
    assert interlock.show("paper").paused
    assert 'action="/act/resume/paper"' in browser.get("/records/paper").text
    browser.post("/act/resume/paper", headers=OWN)
    assert not interlock.show("paper").paused
    browser.post("/act/cancel/paper", data={"reason": "not needed"}, headers=OWN)

    assert interlock.show("paper").state == "dismissed"


def test_several_records_are_shown_first_and_then_acted_on_each_with_its_answer(
    browser: TestClient, interlock: Client
) -> None:
    for name in ("paper", "towels"):
        bring(interlock, name, "awaiting_confirmation", title="Buy things")
    sign_in(browser, new_token(interlock, Role.OPERATOR))

    found = browser.get("/bulk", params={"q": "things", "verb": "pause"})
    shown = re.findall(r'name="record" value="([^"]+)"', found.text)
    assert not interlock.show("paper").paused
    form = {"verb": "pause", "record": [shown[0], "nothing"]}
    done = browser.post("/bulk", data=form, headers=OWN)

    assert sorted(shown) == ["paper", "towels"]
    assert "Pause: 1 done, 1 not done" in done.text
    assert [interlock.show(one).paused for one in shown] == [True, False]
    assert browser.get("/bulk", params={"verb": "cancel"}).status_code == 400
    assert browser.post("/bulk", data=form).status_code == 403


def test_records_after_the_first_hundred_are_reached_whatever_becomes_of_these(
    browser: TestClient, interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "ITEMS_MAX", 1)
    for name in ("ended", "asks"):
        bring(interlock, name, "awaiting_confirmation", title="Buy things")
    interlock.cancel("ended")
    sign_in(browser, new_token(interlock, Role.OPERATOR))

    first = browser.get("/bulk", params={"q": "machine:thread", "verb": "pause"}).text
    following = re.search(r'<a href="(/bulk\?[^"]+)">See the next ones', first)
    assert following
    second = browser.get(unescape(following[1])).text

    assert "Nothing would change" in first
    assert re.findall(r'name="record" value="([^"]+)"', second) == ["asks"]


def test_what_would_stay_as_it_is_is_said_before_and_not_counted_as_done_after(
    browser: TestClient, interlock: Client
) -> None:
    for name in ("asks", "paused", "ended"):
        bring(interlock, name, "awaiting_confirmation", title="Buy things")
    bring(interlock, "stuck", "done_cleanup_unsuccessful", title="Buy things")
    interlock.pause("paused")
    interlock.cancel("ended")
    give_up(interlock, "stuck", "resolution")
    sign_in(browser, new_token(interlock, Role.OPERATOR))
    every = ["asks", "paused", "ended", "stuck"]
    would, whole = dict[str, set[str]](), ""

    for verb in ("retry", "resume", "pause", "cancel"):
        before = browser.get("/bulk", params={"q": "things", "verb": verb}).text
        would[verb] = set(re.findall(r'name="record" value="([^"]+)"', before))
        after = browser.post("/bulk", data={"verb": verb, "record": every}, headers=OWN).text
        refused = set(re.findall(r'records/(\w+)">\w+</a> <span class="problem"', after))
        assert would[verb] == set(every) - refused, verb
        whole += before

    assert would["retry"] == {"stuck"}
    assert would["resume"] == {"paused"}
    assert would["pause"] == {"asks", "paused", "stuck"}
    assert "3 records would stay as they are" in whole
    for why in ("it is not paused", "it has ended", "nothing is legal here", "none of its effects"):
        assert why in whole
    again = browser.get("/bulk", params={"q": "things", "verb": "resume"}).text
    assert "Nothing would change" in again


def test_what_an_agent_writes_is_shown_and_does_nothing_and_each_link_leads_to_a_page(
    browser: TestClient, interlock: Client, client: redis.Redis, tmp_path: Path
) -> None:
    fields: list[str] = []

    def write(field: str) -> str:
        fields.append(field)
        return MARKUP + field

    pages = sample_pages(client, interlock, tmp_path, write)
    sign_in(browser, new_token(interlock, Role.APPROVER))
    texts = {what: browser.get(path).text for what, path in pages.items()}

    for what, text in texts.items():
        assert "<img" not in text, what
        assert "\u202e" not in text, what
    whole = unescape("".join(texts.values()))
    assert [field for field in fields if rf"\u202e{field}" not in whole] == []
    assert broken_links(browser, "/", "/records", *pages.values()) == {}


def test_a_limited_token_shows_its_machines_only(browser: TestClient, interlock: Client) -> None:
    bring(interlock, "paper", "awaiting_confirmation")
    sign_in(browser, new_token(interlock, Role.OPERATOR, machines=("task",)))

    for path in ("/", "/inbox", "/records", "/fleet"):
        text = browser.get(path).text
        assert "paper" not in text, path
        assert ">thread<" not in text, path
    for path in ("/inbox/paper", "/records/paper"):
        assert browser.get(path).status_code == 404
    refused = browser.post("/bulk", data={"verb": "pause", "record": ["paper"]}, headers=OWN)
    assert "1 not done" in refused.text
    assert not interlock.show("paper").paused


def test_a_limited_token_sees_no_child_of_another_machine(
    browser: TestClient, interlock: Client
) -> None:
    graphs = Graphs(interlock)
    graphs.open("nightly")
    graphs.create("nightly/build", {"phases": [{"worker": {"command": "true"}}]})

    sign_in(browser, new_token(interlock, Role.VIEWER))
    whole = browser.get("/records/nightly").text
    sign_in(browser, new_token(interlock, Role.VIEWER, machines=("graph",)))
    limited = browser.get("/records/nightly").text

    assert 'href="/records/nightly/build"' in whole
    assert "nightly/build" not in limited


def test_the_search_finds_by_words_and_leads_to_an_id(
    browser: TestClient, interlock: Client
) -> None:
    bring(interlock, "paper", "awaiting_confirmation", title="Buy paper towels")
    sign_in(browser, new_token(interlock, Role.VIEWER))

    found = browser.get("/records", params={"q": "machine:thread towels"})
    assert 'href="/records/paper"' in found.text
    assert browser.get("/records", params={"q": "paper"}).headers["Location"] == "/records/paper"
    assert "There is no such record" in browser.get("/records", params={"q": "nothing"}).text
    for part in ("pap", "ape"):
        assert 'href="/records/paper"' in browser.get("/records", params={"q": part}).text
    named = browser.get("/records", params={"q": "state:waiting-for-approval"})
    assert 'href="/records/paper"' in named.text


@pytest.mark.parametrize(
    ("text", "said", "near"),
    [
        ("state:awaiting", "no machine has a state", "state:awaiting_confirmation"),
        ("machne:thread", "there is no machne: to search by", "machine:thread"),
    ],
)
def test_a_wrong_search_keeps_its_box_and_names_what_is_near(
    browser: TestClient, interlock: Client, text: str, said: str, near: str
) -> None:
    sign_in(browser, new_token(interlock, Role.VIEWER))
    wrong = browser.get("/records", params={"q": text})
    assert wrong.status_code == 400
    assert said in wrong.text.replace("There", "there").replace("No m", "no m")
    assert f'value="{text}"' in wrong.text
    assert f">{near}</a>" in wrong.text


def test_the_record_says_why_a_trigger_is_refused_now(
    browser: TestClient, interlock: Client
) -> None:
    bring(interlock, "paper", "awaiting_intent_clarification")
    sign_in(browser, new_token(interlock, Role.VIEWER))

    text = browser.get("/records/paper").text

    assert "Needs an answer: say something" in unescape(text)
    assert "dismissed by user" in text


def test_the_start_page_says_what_to_do_while_no_worker_answers(
    browser: TestClient, interlock: Client
) -> None:
    bring(interlock, "paper", "executing")
    sign_in(browser, new_token(interlock, Role.VIEWER))

    text = browser.get("/").text

    assert "Needs a look" in text
    assert "no worker answers: start one with <code>interlock up</code>" in unescape(text)


def test_a_late_canary_is_a_problem_of_the_start_page_and_in_no_list(
    browser: TestClient, interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold_canary(interlock.dispatch, "canary-1")
    views = interlock.dispatch.views
    late_ms = views.now_ms() + 400_000
    monkeypatch.setattr(views, "now_ms", lambda: late_ms)
    sign_in(browser, new_token(interlock, Role.VIEWER))

    text = unescape(browser.get("/").text)

    assert "<code>interlock history canary-1</code>" in text
    assert "</button> shows how far the newest has come" in text, "behind the one that copies it"
    assert '<a href="/records/canary-1">canary</a> was submitted' in text
    assert "They appear here without a reload." in text, "for people nothing was submitted yet"
    assert browser.get("/records/canary-1").status_code == 200
    assert not [
        path for path in ("/records", "/inbox", "/fleet") if "canary" in browser.get(path).text
    ]
    sign_in(browser, new_token(interlock, Role.VIEWER, machines=("task",)))
    limited = browser.get("/").text
    assert ("canary-1" in limited, "a token for all machines" in limited) == (False, True)


def test_a_queue_says_how_long_its_oldest_message_waits_and_leads_to_the_records_with_its_work(
    browser: TestClient, interlock: Client
) -> None:
    for record_id, state in (("paper", "executing"), ("pen", "awaiting_confirmation")):
        bring(interlock, record_id, state)
    sign_in(browser, new_token(interlock, Role.VIEWER))

    queues = browser.get("/").text.partition("Queues</h2>")[2]
    found = browser.get("/records", params={"q": "effect:execution"})

    assert 'href="/records?q=effect:execution"' in queues
    assert "<time" in queues.partition("<code>execution</code>")[2].partition("</tr>")[0]
    assert 'href="/records/paper"' in found.text
    assert 'href="/records/pen"' not in found.text
    wrong = browser.get("/records", params={"q": "effect:nothing"})
    assert (wrong.status_code, "is the work of no state" in wrong.text) == (400, True)


def test_the_start_page_leads_to_what_a_person_has_to_act_on(
    browser: TestClient, interlock: Client
) -> None:
    bring(interlock, "paper", "done_cleanup_unsuccessful")
    bring(interlock, "pen", "executing")
    give_up(interlock, "paper", "resolution")
    interlock.dispatch.rejected.put("unknown", "nobody knows it", "{}")
    sign_in(browser, new_token(interlock, Role.VIEWER))

    text = unescape(browser.get("/").text)

    assert "1 record has an effect that has failed too often" in text
    assert 'href="/inbox?kind=quarantine"' in text
    assert "Give" in browser.get("/inbox", params={"kind": "quarantine"}).text
    assert "1 message is kept that no worker can act on: <code>interlock rejected list" in text
    for number in (
        '<a href="/inbox?machine=thread">2</a>',
        '<a href="/fleet?machine=thread">1</a>',
        '<a href="#queues"><b>',
        '<a href="#workers"><b>',
        '<a href="#machines"><b>',
    ):
        assert number in text, number
    sign_in(browser, new_token(interlock, Role.VIEWER, machines=("task",)))
    assert "failed too often" not in browser.get("/").text


def test_the_start_page_says_how_many_records_are_starved_and_leads_to_why(
    browser: TestClient, interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        submitted(interlock, name, depends_on=["nobody"])
    every = count_starved(interlock.records)
    monkeypatch.setattr(starved, "LOOKED_AT_MAX", 1)
    sign_in(browser, new_token(interlock, Role.VIEWER))

    text, tasks = (browser.get(path).text for path in ("/", "/systems/tasks"))
    sign_in(browser, new_token(interlock, Role.VIEWER, machines=("task",)))
    limited = browser.get("/")
    top = SnapshotReader(interlock).read().parts["tasks"]

    assert every == (2, False)
    assert (len(top.starved), top.starved_partial) == (1, True)
    assert "Not all open tasks were looked at" in tasks
    assert "At least 1 record waits for something that can never come" in text
    assert '<a href="/systems/tasks">See why, in Coding tasks</a>' in text
    assert "it depends on nobody, which does not exist" in tasks
    assert (limited.status_code, "can never come" in limited.text) == (200, False)


def test_the_start_page_says_that_it_has_not_looked_at_all_open_tasks(
    browser: TestClient, interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted(interlock, "one")
    submitted(interlock, "two")
    sign_in(browser, new_token(interlock, Role.VIEWER))
    monkeypatch.setattr(starved, "LOOKED_AT_MAX", 1)

    unsure = "Coding tasks: no starved record was found, but not all could be looked at."
    assert unsure in browser.get("/").text


def test_a_count_that_fails_is_a_problem_on_the_start_page_which_is_shown(
    browser: TestClient, interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> tuple[int, bool]:
        raise ZeroDivisionError

    monkeypatch.setattr(starved, "count_starved", broken)
    sign_in(browser, new_token(interlock, Role.VIEWER))

    text = browser.get("/").text
    assert "ow many records of tasks are starved is unknown: repair" in text


def test_the_store_is_looked_at_once_for_all_who_look(
    interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[FlowWatch] = []
    look = FlowWatch._look

    def counted(watch: FlowWatch) -> flow.Flow:
        looks.append(watch)
        return look(watch)

    monkeypatch.setattr(FlowWatch, "_look", counted)
    monkeypatch.setattr(flow, "KEPT_S", 3_600)
    monkeypatch.setattr(flow, "BEHIND_S", 3_600)
    with TestClient(create_console(interlock), base_url=SITE, follow_redirects=False) as browser:
        sign_in(browser, new_token(interlock, Role.VIEWER))
        for path in ("/", "/fleet", "/"):
            assert browser.get(path).status_code == 200

    assert len(looks) == 1


def test_the_first_page_comes_in_60_kb_and_its_styles_are_20_kb_of_text(
    browser: TestClient, interlock: Client
) -> None:
    sign_in(browser, new_token(interlock, Role.VIEWER))
    page = browser.get("/")
    loaded = re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)

    files = [browser.get(path) for path in loaded]

    assert {"/static/htmx.min.js", "/static/console.css"} <= set(loaded)
    assert len(page.content) + sum(one.num_bytes_downloaded for one in files) < 60_000
    (style,) = (one for one in files if one.url.path.endswith(".css"))
    assert len(style.content) < 20_000


def test_a_page_of_a_store_that_is_away_says_so(
    server: EmbeddedServer, prefix: str, new_proxy: NewProxy
) -> None:
    proxy = new_proxy(server.port)
    interlock = client_of(proxy.url, prefix)
    with TestClient(create_console(interlock), base_url=SITE, follow_redirects=False) as browser:
        sign_in(browser, new_token(interlock, Role.VIEWER))
        proxy.refuse()

        away = browser.get("/records")

    assert away.status_code == 503
    assert "cannot reach its store" in away.text


@pytest.mark.parametrize(
    "then", ["//evil.example", "https://evil.example", "/\\evil.example", "/\n/evil", "evil", ""]
)
def test_signing_in_leads_to_no_other_site(then: str) -> None:
    assert own_path(then) == "/"
    assert own_path("/records?q=a") == "/records?q=a"


def test_a_provider_without_its_other_settings_is_refused(
    server: EmbeddedServer, prefix: str
) -> None:
    with pytest.raises(CallError, match="set INTERLOCK_OIDC_CLIENT_ID"):
        create_console(client_of(server.url, prefix, oidc_issuer="https://login.example"))
    named = {"oidc_issuer": "https://login.example", "oidc_client_id": "console"}
    with pytest.raises(CallError, match="there is no role 'boss'"):
        create_console(client_of(server.url, prefix, **named, oidc_roles={"team": "boss"}))
