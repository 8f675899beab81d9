"""The API of `interlock up` lets in the user who runs it, by a token that only this user reads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2 as httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from interlock.kernel.errors import TokenRefusedError
from interlock.kernel.event import Note
from interlock.workers.access.roles import Role
from interlock.workers.cli import app
from interlock.workers.client import Client
from interlock.workers.config import SettingsError
from interlock.workers.console import sessions
from interlock.workers.console.app import create_console
from interlock.workers.console.sessions import COOKIE
from interlock.workers.engine.sessions import new_link, sessions_of
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.home import lock_home
from interlock.workers.remote.client import HttpClient
from interlock.workers.up_file import TOKEN_FILE, new_token, telling
from tests.systems.threads.threads import bring, client_of
from tests.workers.access.tokens import new_token as new_access_token
from tests.workers.api.serving import served

HERE = "http://127.0.0.1"
OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def token(tmp_path: Path) -> str:
    return new_token(tmp_path)


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str, tmp_path: Path, token: str) -> Client:
    del token
    return client_of(server.url, prefix, home=tmp_path, auth="owner")


@pytest.fixture
def console(interlock: Client) -> FastAPI:
    return create_console(interlock)


@pytest.fixture
def http(console: FastAPI) -> Iterator[TestClient]:
    with TestClient(console, base_url=HERE, follow_redirects=False) as opened:
        yield opened


def bearer(token: str) -> dict[str, str]:
    """Return the header that shows a token."""
    return {"Authorization": f"Bearer {token}"}


def test_nobody_calls_without_the_token_and_who_has_it_acts_under_any_name(
    http: TestClient, interlock: Client, token: str
) -> None:
    bring(interlock, "paper", "awaiting_confirmation")
    for headers in ({}, bearer(token[:-1]), {"Cookie": f"{COOKIE}={token}"}):
        for method, path in (("GET", "/v1/records"), ("POST", "/mcp"), ("GET", "/metrics")):
            assert http.request(method, path, headers=headers).status_code == 401, path
    assert TOKEN_FILE in http.get("/v1/me").json()["detail"]

    claims = bearer(token) | {"X-Interlock-Actor": "ann"}
    me = http.get("/v1/me", headers=claims).json()
    assert (me["name"], me["proved"], me["roles"]) == ("ann", False, ["admin"])
    assert http.get("/v1/me", headers=bearer(token)).json()["name"] == "producer"
    assert http.post("/v1/records/paper:pause", json={}, headers=claims).status_code == 200
    # The names in the log of others are proved, as everywhere.
    of_bob = bearer(new_access_token(interlock, Role.VIEWER, holder="bob"))
    assert http.get("/v1/me", headers=of_bob).json()["proved"] is True
    refused = http.post("/v1/records/paper:resume", json={}, headers=of_bob)
    assert refused.status_code == 403


def test_a_page_of_another_site_that_gives_its_name_this_address_cannot_call(
    console: FastAPI, token: str
) -> None:
    with TestClient(console, base_url="http://evil.example") as rebound:
        assert rebound.get("/v1/me", headers=bearer(token)).status_code == 421


def test_where_access_tokens_are_asked_for_the_token_of_up_opens_nothing(
    server: EmbeddedServer, prefix: str, tmp_path: Path, token: str
) -> None:
    interlock = client_of(server.url, prefix, home=tmp_path, auth="tokens")
    link = new_link(sessions_of(interlock.dispatch), HERE, token)
    with TestClient(create_console(interlock), base_url=HERE) as http:
        assert http.get("/v1/me", headers=bearer(token)).status_code == 401
        assert http.get(link).status_code == 401
        assert http.post("/login", data={"token": token}, headers=OWN_PAGE).status_code == 401


def test_without_the_file_of_up_its_api_does_not_start(
    server: EmbeddedServer, prefix: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match=r"there is no .*api\.token of yours"):
        create_console(client_of(server.url, prefix, home=tmp_path, auth="owner"))


def test_a_link_signs_one_browser_in_and_says_where_another_is(
    http: TestClient, console: FastAPI, interlock: Client, token: str
) -> None:
    link = new_link(sessions_of(interlock.dispatch), HERE, token)

    there = http.get(link)
    assert (there.status_code, there.headers["Location"]) == (303, "/")
    assert {"HttpOnly", "SameSite=strict"} <= set(there.headers["Set-Cookie"].split("; "))
    assert token not in there.headers["Set-Cookie"]
    page = http.get("/tokens")
    assert page.status_code == 200, "the user of `up` may do all"
    assert "You signed in as the user of" in page.text
    assert http.get(link).headers["Location"] == "/", "this browser is signed in already"
    with TestClient(console, base_url=HERE, follow_redirects=False) as other:
        used = other.get(link)
        assert used.status_code == 401
        assert "This link was used before" in used.text
        assert other.get("/").headers["Location"].startswith("/login")
    stolen = dict(http.cookies)
    assert http.post("/logout", headers=OWN_PAGE).headers["Location"] == "/login"
    http.cookies.update(stolen)
    assert http.get("/").headers["Location"].startswith("/login")


@pytest.mark.parametrize(
    ("user", "name"), [("mia", "mia"), ("inference", "person"), ("EXAMPLE\\mia", "person")]
)
def test_the_log_has_the_name_of_the_user_of_up_on_this_computer(
    monkeypatch: pytest.MonkeyPatch, interlock: Client, token: str, user: str, name: str
) -> None:
    monkeypatch.setattr(sessions, "user_name", lambda _: user)
    bring(interlock, "paper", "awaiting_confirmation")

    with TestClient(create_console(interlock), base_url=HERE) as http:
        http.post("/login", data={"token": token}, headers=OWN_PAGE)
        http.post("/act/pause/paper", headers=OWN_PAGE)

    paused = interlock.history("paper")[-1]
    assert isinstance(paused, Note)
    assert (paused.kind, paused.detail["actor"]) == ("pause", name)


def test_a_browser_that_comes_from_another_site_brings_its_cookie_at_the_second_try(
    http: TestClient, token: str
) -> None:
    asked = http.get("/login", params={"then": "/inbox"}, headers={"Sec-Fetch-Site": "cross-site"})
    assert 'content="0; url=/login?then=%2Finbox"' in asked.text or (
        'content="0; url=/login?then=/inbox"' in asked.text
    )
    again = http.get("/login", params={"then": "/inbox"}, headers=OWN_PAGE)
    assert 'http-equiv="refresh"' not in again.text, "it does not ask for ever"

    http.post("/login", data={"token": token}, headers=OWN_PAGE)
    there = http.get("/login", params={"then": "/inbox"}, headers=OWN_PAGE)
    assert (there.status_code, there.headers["Location"]) == (303, "/inbox")


def test_two_consoles_on_one_computer_have_cookies_of_their_own(
    console: FastAPI, token: str
) -> None:
    names = []
    for port in (1, 2):
        with TestClient(console, base_url=f"{HERE}:{port}", follow_redirects=False) as browser:
            signed = browser.post("/login", data={"token": token}, headers=OWN_PAGE)
            names.append(signed.headers["Set-Cookie"].partition("=")[0])

    assert names == [f"{COOKIE}_1", f"{COOKIE}_2"]


@pytest.fixture
def up(interlock: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run an API as `up` does, with this home for commands; give its address."""
    monkeypatch.setenv("INTERLOCK_HOME", str(tmp_path))
    lock = lock_home(tmp_path)
    with (
        served(interlock, create_console) as address,
        telling(interlock.settings, tmp_path, address),
    ):
        yield address
    os.close(lock)


def test_the_client_over_http_of_the_same_user_finds_address_and_token_by_itself(
    up: str, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        clients = [HttpClient(actor="ann"), HttpClient(up)]
        for client in clients:
            stack.enter_context(client.api.http)
        names = [client.me()["name"] for client in clients]
        kept = (tmp_path / TOKEN_FILE).read_text()
        (tmp_path / TOKEN_FILE).write_text("of another run")
        with pytest.raises(TokenRefusedError):
            clients[0].me()
        (tmp_path / TOKEN_FILE).write_text(kept)

        assert names == ["ann", "producer"]
        assert clients[0].me()["roles"] == ["admin"], "the token is read for each call"


def test_no_proxy_reads_the_token_of_up(up: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with HttpClient(up).api.http as http:
        assert http.get(f"{up}/v1/me").status_code == 401


def test_the_token_is_shown_to_the_api_of_up_alone_and_only_while_it_runs(
    up: str, tmp_path: Path
) -> None:
    elsewhere = HttpClient(f"{up[:-1]}{(int(up[-1]) + 1) % 10}")
    assert "Authorization" not in elsewhere.api.headers
    for host in ("localhost", "[::1]", "127.0.0.2", "ann@127.0.0.1"):  # of another user, perhaps
        assert "Authorization" not in HttpClient(up.replace("127.0.0.1", host)).api.headers
    assert "Authorization" not in HttpClient(up.replace("http", "https")).api.headers
    assert "Authorization" not in HttpClient("https://interlock.example").api.headers
    here = HttpClient(up)
    assert "Authorization" in here.api.headers
    (tmp_path / "up.json").unlink()
    assert "Authorization" not in here.api.headers
    with pytest.raises(SettingsError, match="no API runs here"):
        HttpClient()


def test_a_command_prints_a_link_that_opens_the_console(up: str) -> None:
    answered = CliRunner().invoke(app, ["console"], env={"COLUMNS": "200"})
    assert answered.exit_code == 0, answered.output
    link = answered.stdout.splitlines()[0]

    assert link.startswith(f"{up}/login/link?code=")
    answer = httpx.get(link, timeout=180)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    assert httpx.get(link, timeout=180).status_code == 401


def test_where_nothing_runs_the_command_says_how_to_start_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_HOME", str(tmp_path))

    answered = CliRunner().invoke(app, ["console"])

    assert answered.exit_code == 1
    assert "no console runs here: start it with" in answered.stderr
