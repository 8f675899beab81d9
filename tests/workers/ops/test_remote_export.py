"""Events are exported over HTTP, and those that follow come after them, each once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, cast

import pytest
from fastapi.testclient import TestClient

from interlock.kernel.exported_event import LifecycleEvent
from interlock.workers.api.app import create_app
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.event_export import RemoteExport
from interlock.workers.remote.client import HttpClient
from tests.systems.threads.threads import client_of
from tests.workers.api.serving import end_streams_soon


class CancelsMeanwhile(HttpClient):
    """A client during whose export a record is cancelled."""

    def __init__(self, on_store: Client) -> None:
        http = TestClient(create_app(on_store), base_url="http://127.0.0.1")
        super().__init__("", http=cast("Any", http))
        self.on_store, self.served = on_store, http

    def past_events(self, *scopes: Any, **since: Any) -> Iterator[LifecycleEvent]:
        self.on_store.cancel("one/x")
        return super().past_events(*scopes, **since)


def test_what_is_committed_during_an_export_is_exported_once(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_streams_soon(monkeypatch)
    interlock = client_of(server.url, prefix, auth="none")
    for record_id in ("one/x", "two/x"):
        interlock.submit({"title": "x"}, id=record_id, machine="task")
    client = CancelsMeanwhile(interlock)
    export = RemoteExport(client, ["one", "nobody"])

    with client.served:
        exported = list(export.all())
        interlock.submit({"title": "x"}, id="two/y", machine="task")
        interlock.submit({"title": "y"}, id="one/y", machine="task")
        ((followed,),) = islice(export.following(lambda _: True), 1)

    assert [(event.entity_id, event.trigger) for event in exported] == [
        ("one/x", "created"),
        ("one/x", "cancelled"),
    ]
    assert (followed.entity_id, followed.trigger) == ("one/y", "created")
    assert (export.count, export.scopes.without_records) == (3, ["nobody"])
