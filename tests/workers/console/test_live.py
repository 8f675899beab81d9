"""Pages that renew themselves: the store is looked at once for all viewers with the same rights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from urllib.request import Request, urlopen

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from interlock.workers.access.roles import Role
from interlock.workers.api import followers
from interlock.workers.client import Client
from interlock.workers.console import live, record
from interlock.workers.console.app import create_console
from interlock.workers.console.live import LOOKS_MAX, Looks
from interlock.workers.console.record_look import RecordLook, look_at
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.threads.threads import bring, client_of
from tests.workers.access.tokens import new_token
from tests.workers.api.serving import served

SITE = "http://interlock.example"
RENEWED = {"HX-Request": "true"}
SHOWN_WITHIN_S = 2.0


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


@pytest.fixture
def console(interlock: Client) -> FastAPI:
    return create_console(interlock)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keep what is read for an hour, and list each look at a record."""
    seen: list[str] = []

    def seen_at(client: Client, record_id: str, lines: int) -> RecordLook:
        seen.append(record_id)
        return look_at(client, record_id, lines)

    monkeypatch.setattr(record, "look_at", seen_at)
    monkeypatch.setattr(live, "KEPT_S", 3_600)
    return seen


@pytest.fixture
def viewer(console: FastAPI, interlock: Client) -> Iterator[Callable[..., TestClient]]:
    """Return who signs viewers in, each in a browser of their own."""
    with TestClient(console, base_url=SITE, follow_redirects=False) as first:

        def opened(name: str, *machines: str) -> TestClient:
            browser = TestClient(console, base_url=SITE, follow_redirects=False)
            token = new_token(interlock, Role.VIEWER, holder=name, machines=machines)
            browser.post("/login", data={"token": token}, headers={"Origin": SITE})
            return browser

        assert first.get("/login").status_code == 200
        yield opened


def test_a_renewed_record_is_read_once_for_all_with_the_same_rights(
    interlock: Client, looks: list[str], viewer: Callable[..., TestClient]
) -> None:
    bring(interlock, "paper", "awaiting_confirmation")
    ann, ben, limited = viewer("ann"), viewer("ben"), viewer("eve", "thread")

    parts = [one.get("/records/paper?seen=1-0", headers=RENEWED).text for one in (ann, ben, ann)]

    assert len(looks) == 1
    assert parts[0].startswith('<div id="now">')
    limited.get("/records/paper?seen=1-0", headers=RENEWED)
    assert len(looks) == 2  # her machines are others
    ben.get("/records/paper?seen=2-0", headers=RENEWED)
    assert len(looks) == 3  # the log has gone on since
    ben.get("/records/paper")
    assert len(looks) == 4  # who opens the page sees what it is now


def test_a_renewed_inbox_and_page_of_a_system_are_read_once_for_all(
    interlock: Client, viewer: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "KEPT_S", 3_600)
    ann, ben = viewer("ann"), viewer("ben")

    for path, record_id in (("/inbox?machine=thread", "one"), ("/systems/threads", "two")):
        ann.get(path, headers=RENEWED)
        bring(interlock, record_id, "awaiting_confirmation", title=f"Later {record_id}")
        assert f"Later {record_id}" not in ben.get(path, headers=RENEWED).text
        assert f"Later {record_id}" in ben.get(path).text


def test_what_takes_long_to_read_is_kept_for_all_who_open_the_page(
    interlock: Client, viewer: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("SLOW_KEPT_S", "SLOW_BEHIND_S"):
        monkeypatch.setattr(live, limit, 3_600)
    ann, ben, path, why = viewer("ann"), viewer("ben"), "/systems/tasks", "it depends on gone"
    assert why not in ann.get(path).text

    interlock.submit({"title": "t", "depends_on": ["gone"]}, id="b/late", machine="task")

    assert why not in ben.get(path).text
    assert why in ben.get(f"{path}?backlog=b").text


def test_the_news_of_a_card_are_read_once_for_all(
    interlock: Client, viewer: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "KEPT_S", 3_600)
    proposal = bring(interlock, "paper", "awaiting_confirmation").proposal
    ann, ben, path = viewer("ann"), viewer("ben"), "/inbox/paper?seen=1-0"

    ann.get(path, headers=RENEWED)
    interlock.claim_card("paper", proposal=proposal, holder="later")

    assert "later" not in ben.get(path, headers=RENEWED).text
    assert "later" in ben.get(path).text


def test_values_that_nobody_asks_for_are_dropped() -> None:
    looks = Looks[int]()
    for key in range(LOOKS_MAX + 5):
        assert looks.value(key, partial(int, key)) == key

    assert len(looks._kept) == LOOKS_MAX


def test_a_list_is_renewed_without_its_search_field(
    interlock: Client, viewer: Callable[..., TestClient]
) -> None:
    bring(interlock, "paper", "awaiting_confirmation")
    ann = viewer("ann")

    whole = ann.get("/records?q=machine:thread").text
    renewed = ann.get("/records?q=paper", headers=RENEWED)

    assert 'data-row="paper"' in whole.partition('id="found"')[2]
    assert '<input name="q"' not in whole.partition('id="found"')[2]
    assert renewed.status_code == 200  # it leads nowhere else while a person looks


def test_a_page_that_is_open_is_sent_a_commit_and_shows_it_after_two_pauses(
    server: EmbeddedServer, prefix: str
) -> None:
    interlock = client_of(server.url, prefix, auth="none")
    bring(interlock, "paper", "awaiting_confirmation")
    with served(interlock, create_console) as address:
        for verb, button in (("pause", "Resume"), ("resume", "Pause"), ("pause", "Resume")):
            seen = interlock.history("paper")[-1].position
            with urlopen(f"{address}/follow/paper?after={seen}", timeout=180) as stream:  # noqa: S310 - our own
                getattr(interlock, verb)("paper")
                lines = iter(stream.readline, b"")
                assert any(line.startswith(b"event: changed") for line in lines)
            page = Request(f"{address}/records/paper?seen={verb}", headers=RENEWED)  # noqa: S310 - our own
            with urlopen(page, timeout=180) as renewed:  # noqa: S310 - our own
                assert f">{button}</button>" in renewed.read().decode()

    # The pauses are those before the next look at the log and before the next at the record.
    assert followers.POLL_S + live.KEPT_S < SHOWN_WITHIN_S


def test_who_may_not_see_a_record_cannot_follow_it(
    interlock: Client, viewer: Callable[..., TestClient], console: FastAPI
) -> None:
    bring(interlock, "paper", "awaiting_confirmation")

    nobody = TestClient(console, base_url=SITE, follow_redirects=False).get("/follow/paper")

    assert nobody.headers["Location"].startswith("/login")
    assert viewer("eve", "job").get("/follow/paper").status_code == 404
    assert viewer("ann").get("/follow/paper?after=nowhere").status_code == 422
