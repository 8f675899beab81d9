"""Where nobody is asked for a token, a page of another site changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from interlock.workers.api.app import create_app
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.threads.threads import client_of


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix, auth="none")


@pytest.fixture
def http(interlock: Client) -> Iterator[TestClient]:
    with TestClient(create_app(interlock), base_url="http://127.0.0.1") as opened:
        yield opened


def problem(answer: Response, status: int, name: str) -> None:
    assert (answer.status_code, answer.json()["type"]) == (status, f"urn:interlock:{name}")


@pytest.mark.parametrize(
    "shown",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:9999"},
    ],
)
def test_no_call_that_changes_something_comes_from_a_page_of_another_site(
    http: TestClient, interlock: Client, shown: dict[str, str]
) -> None:
    interlock.dispatch.rejected.put("unreadable", "no JSON", "?")
    (message,) = [each.id for each in interlock.dispatch.rejected.newest(10)]
    paths = create_app(interlock).openapi()["paths"]
    unsafe = [path for path, methods in paths.items() if "post" in methods]
    assert len(unsafe) > 10
    for path in (*unsafe, "/mcp"):
        address = path.replace("{message_id}", message).replace("{verb}", "pause")
        problem(http.post(address, headers=shown), 403, "other-site")
        problem(http.post(address, headers=shown, data={"do": "claim"}), 403, "other-site")
    assert interlock.dispatch.rejected.newest(10)
    # What a program sends shows no site, and what a page of the console sends shows its own.
    own = {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}
    assert http.post(f"/v1/rejected/{message}:drop", headers=own).status_code == 200
