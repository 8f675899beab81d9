"""The answers of the API to calls that it cannot serve."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from fastapi.testclient import TestClient

from interlock.kernel.store import scripts
from interlock.workers.api.app import create_app
from interlock.workers.gateways.server import EmbeddedServer
from tests.conftest import NewProxy
from tests.systems.threads.threads import bring, client_of


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


def test_a_hung_store_is_away(server: EmbeddedServer, prefix: str, new_proxy: NewProxy) -> None:
    # At an address that no other test has, so that this client is its own.
    interlock = client_of(new_proxy(server.port).url, prefix, auth="none")
    with (
        TestClient(create_app(interlock)) as http,
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        store: Any = interlock.dispatch.client
        del scripts._STATES[store]  # the connection over which its format was read
        store.connection_pool.disconnect()
        hung = {"port": silent.getsockname()[1], "socket_timeout": 0.05}
        store.connection_pool.connection_kwargs.update(hung)
        store.connection_pool.reset()
        answered = http.get("/healthz")
        silent.settimeout(0.0)
        silent.accept()[0].close()

        # A store that hangs is tried once.
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert (answered.status_code, answered.json()["type"]) == (503, "urn:interlock:store-away")
