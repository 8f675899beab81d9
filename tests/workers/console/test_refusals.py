"""What a browser is told where it asks for no page, and where nobody has to sign in."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from interlock.workers.console.app import create_console
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.threads.threads import client_of

SITE = "http://127.0.0.1"


@pytest.fixture
def browser(server: EmbeddedServer, prefix: str) -> TestClient:
    return TestClient(create_console(client_of(server.url, prefix, auth="none")), base_url=SITE)


def test_what_is_no_page_is_a_page_to_a_browser_and_a_problem_to_a_program(
    browser: TestClient,
) -> None:
    shown = browser.get("/systems/tasks/replay", headers={"Accept": "text/html"})
    told = browser.get("/systems/tasks/replay", headers={"Accept": "application/json"})

    assert (shown.status_code, told.status_code) == (405, 405)
    assert "it takes what a form of the console sends" in shown.text
    assert told.json()["status"] == 405


def test_where_nobody_signs_in_a_token_is_said_to_change_nothing(browser: TestClient) -> None:
    answer = browser.post("/login", data={"token": "any"}, headers={"Origin": SITE})

    assert "so a token changes nothing" in answer.text
    assert "Nobody has to sign in here" in browser.get("/acts").text
    assert "use the command line" in browser.get("/tokens").text
