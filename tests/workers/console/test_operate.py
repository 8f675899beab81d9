"""What operators do beside records: saved views, lists as files, the acts of people, tokens."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from html import unescape
from random import Random
from typing import Any, cast

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, example, given, settings

from interlock.kernel.errors import CallError
from interlock.kernel.store import people
from interlock.kernel.store.people import SavedView
from interlock.systems.jobs.client import Graphs
from interlock.workers.access.roles import Role
from interlock.workers.client import Client
from interlock.workers.console import operate
from interlock.workers.console.app import create_console
from interlock.workers.gateways.server import EmbeddedServer
from tests.damage import chances, torn
from tests.systems.threads.threads import bring, client_of
from tests.workers.access.tokens import new_token
from tests.workers.console.test_console import OWN, SITE, proposal_in, sign_in

SEARCH = "/records?q=state%3Aawaiting_confirmation&order=oldest&column=id&column=version"


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


@pytest.fixture
def browser(interlock: Client) -> Iterator[TestClient]:
    with TestClient(create_console(interlock), base_url=SITE, follow_redirects=False) as opened:
        yield opened


def test_an_operator_saves_a_view_for_everybody_and_drops_it(
    browser: TestClient, interlock: Client
) -> None:
    sign_in(browser, new_token(interlock, Role.OPERATOR))
    form = {"name": " Oldest  <b>first</b> ", "path": SEARCH}
    saved = browser.post("/views", data=form, headers=OWN)
    mine = browser.get(SEARCH).text
    sign_in(browser, new_token(interlock, Role.VIEWER, holder="bob"))
    theirs = browser.get(SEARCH).text

    assert saved.headers["Location"] == SEARCH
    for text in (mine, theirs):
        assert f'<a href="{SEARCH.replace("&", "&amp;")}" title="Saved by ann"' in text
        assert "Oldest &lt;b&gt;first&lt;/b&gt;" in text
    assert 'action="/views/drop"' in mine
    assert 'action="/views' not in theirs
    for path in ("/views", "/views/drop"):
        assert browser.post(path, data=form, headers=OWN).status_code == 403
    sign_in(browser, new_token(interlock, Role.OPERATOR))
    browser.post("/views/drop", data={"name": "Oldest <b>first</b>"}, headers=OWN)
    assert interlock.dispatch.saved_views.all() == []


def test_a_saved_view_leads_to_no_other_site_and_there_are_not_too_many(
    browser: TestClient, interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "VIEWS_MAX", 1)
    sign_in(browser, new_token(interlock, Role.OPERATOR))
    views = interlock.dispatch.saved_views

    browser.post("/views", data={"name": "a", "path": "//evil.example"}, headers=OWN)
    again = browser.post("/views", data={"name": "a", "path": "/inbox"}, headers=OWN)
    more = browser.post("/views", data={"name": "b", "path": "/inbox"}, headers=OWN)
    wrong = browser.post("/views", data={"name": "\x1b", "path": "/inbox"}, headers=OWN)

    assert again.status_code == 303
    assert (more.status_code, wrong.status_code) == (400, 400)
    assert "drop one that nobody needs" in more.text
    assert views.all() == [SavedView("a", "/inbox", "ann")]
    with pytest.raises(CallError, match="no saved view 'c'"):
        views.drop("c")


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chance=chances)
@example(chance=b"[]")
def test_a_damaged_view_hides_no_other(interlock: Client, chance: Random | bytes) -> None:
    views, key = interlock.dispatch.saved_views, interlock.dispatch.keys.saved_views()
    kept = SavedView("good", "/inbox", "ann")
    views.keep(kept)
    name, text = b"bad", b'["/inbox", "bob"]'
    if isinstance(chance, bytes):
        text = chance
    else:
        name, text = torn(name, chance), torn(text, chance)
    cast("Any", interlock.dispatch.client).hset(key, name, text)

    assert kept in views.all()
    cast("Any", interlock.dispatch.client).delete(key)


def test_a_list_as_a_file_has_what_the_viewer_may_see_and_no_formula(
    browser: TestClient, interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(interlock, "paper", "awaiting_confirmation", title='=HYPERLINK("http://evil")')
    bring(interlock, "towels", "awaiting_confirmation", title="Towels, two")
    Graphs(interlock).open("nightly")
    sign_in(browser, new_token(interlock, Role.VIEWER, machines=("thread",)))

    rows = list(csv.DictReader(browser.get("/records.csv").text.splitlines()))
    found = browser.get("/records.json", params={"q": "towels"}).json()
    columns = {"q": "two", "column": ["version", "state"]}
    page, chosen = browser.get("/records", params=columns), "column=state&amp;column=version"
    narrow = browser.get("/records.csv", params=columns).text
    monkeypatch.setattr(operate, "FILE_MAX", 1)
    cut = browser.get("/records.json").json()

    titles = {row["id"]: row["title"] for row in rows}
    assert titles == {"paper": '\'=HYPERLINK("http://evil")', "towels": "Towels, two"}
    assert [row["id"] for row in found["records"]] == ["towels"]
    assert (found["is_cut"], cut["is_cut"], len(cut["records"])) == (False, True, 1)
    assert browser.get("/records.json", params={"q": "older:soon"}).status_code == 400
    assert f"/records.csv?q=two&amp;order=newest&amp;{chosen}" in page.text
    assert re.findall(r'<th scope="col">(.+?)</th>', page.text) == ["Record", "State", "Version"]
    assert narrow.split()[0] == "id,state,version,title,paused,waits_for_person"
    assert browser.get("/records", params={"column": "colour"}).status_code == 422


def test_acts_of_people_are_listed_with_name_role_and_reason_and_found_by_name(
    browser: TestClient, interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("paper", "towels"):
        bring(interlock, name, "awaiting_confirmation", title=f"Buy {name}")
    interlock.pause("towels", reason="a component did it")
    sign_in(browser, new_token(interlock, Role.OPERATOR))
    form = {"proposal": proposal_in(browser.get("/inbox/paper")), "choice": "approve"}
    browser.post("/inbox/paper", data=form, headers=OWN)
    browser.post("/inbox/paper", data=form, headers=OWN)  # it is refused, and is no act
    browser.post("/act/cancel/towels", data={"reason": "not needed"}, headers=OWN)

    listed = interlock.dispatch.acts.latest(10)
    text = browser.get("/acts").text
    earlier = browser.get("/acts", params={"before": listed[0].position}).text
    searched = browser.get("/records", params={"q": "actor:bob"})
    assert searched.headers["Location"] == "/acts?by=bob"
    assert "No act of bob is listed" in browser.get(searched.headers["Location"]).text
    assert "Buy paper" in browser.get("/acts?by=ann").text
    monkeypatch.setattr(people, "ACTS_READ_MAX", 1)
    assert interlock.dispatch.acts.latest(9, by="ann") == listed
    assert interlock.dispatch.acts.latest(9, by="ann", before=listed[0].position) == listed[1:]
    interlock.dispatch.client.hset(interlock.dispatch.keys.record("paper"), "data", "{")
    beside = browser.get("/acts").text
    sign_in(browser, new_token(interlock, Role.VIEWER, machines=("task",)))
    limited = browser.get("/acts").text

    assert [(act.record_id, act.by, act.roles) for act in listed] == [
        ("towels", "ann", "operator"),
        ("paper", "ann", "operator"),
    ]
    assert "not needed" in text
    assert "a component did it" not in text
    assert "Buy paper" in earlier
    assert "Buy towels" not in earlier
    assert "Buy towels" in beside
    assert "paper, pruned or damaged" in beside
    assert "Buy" not in limited


def test_an_admin_makes_a_token_that_is_shown_once_and_revokes_it(
    browser: TestClient, interlock: Client
) -> None:
    sign_in(browser, new_token(interlock, Role.ADMIN))
    form = {"holder": "bob", "roles": ["viewer"], "machines": ["thread"], "days": "7"}

    made = browser.post("/tokens", data=form, headers=OWN)
    refused = browser.post("/tokens", data={"holder": "b ob", "roles": "viewer"}, headers=OWN)

    found = re.search(r'<code class="token">([^<]+)</code>', made.text)
    assert found, made.text
    text = unescape(found[1])
    assert text not in browser.get("/tokens").text
    assert refused.status_code == 422
    with TestClient(create_console(interlock), base_url=SITE, follow_redirects=False) as bob:
        sign_in(bob, text)
        assert bob.get("/records").status_code == 200
        assert bob.get("/tokens").status_code == 403
        assert 'href="/tokens"' not in bob.get("/records").text
        form = {"token_id": text.split("_")[1]}
        assert bob.post("/tokens/revoke", data=form, headers=OWN).status_code == 403
        assert browser.post("/tokens/revoke", data=form).status_code == 403  # from another site
        browser.post("/tokens/revoke", data=form, headers=OWN)
        assert bob.get("/records").headers["Location"].startswith("/login")
