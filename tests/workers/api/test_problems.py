"""The answers of the API to calls that it cannot serve."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from interlock.workers.api.app import create_app
from interlock.workers.gateways.server import EmbeddedServer
from tests.workers.threads.threads import bring, client_of


def test_a_record_that_cannot_be_read_is_named_to_the_caller_and_logged(
    server: EmbeddedServer, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    interlock = client_of(server.url, prefix, auth="none")
    bring(interlock, "one", "awaiting_confirmation")
    interlock.dispatch.client.hset(interlock.dispatch.keys.record("one"), "data", "{")

    with TestClient(create_app(interlock), base_url="http://127.0.0.1") as http:
        answered = http.get("/v1/records/one")

    assert answered.status_code == 500
    assert answered.json()["type"] == "urn:interlock:unreadable-record"
    assert "the record 'one' cannot be read" in answered.json()["detail"]
    assert [line.getMessage() for line in caplog.records] == ["a request failed"]
