"""The kernel with the server's own clock, so that races are real."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from interlock.kernel.store import scripts
from interlock.kernel.store.connect import open_store
from interlock.workers.gateways.server import EmbeddedServer
from tests.conftest import NewProxy
from tests.fakes.proxy import FaultProxy
from tests.kernel.store.kernel_at_a_fixed_time import Text, World


@pytest.fixture
def text(monkeypatch: pytest.MonkeyPatch) -> Text:
    """Return the scripts' text, with the server's clock unless a test stops it."""
    made = Text(now_us=None)
    monkeypatch.setattr(scripts, "source_of", made.source_of)
    monkeypatch.setattr(scripts, "sha_of", made.sha_of)
    return made


@pytest.fixture
def world(client: redis.Redis, prefix: str, text: Text) -> World:
    """Return the kernel on the shared server."""
    return World(client, prefix, text)


@pytest.fixture
def proxy(server: EmbeddedServer, new_proxy: NewProxy) -> FaultProxy:
    """Return a proxy in front of the shared server."""
    return new_proxy(server.port)


@pytest.fixture
def remote(proxy: FaultProxy, prefix: str, text: Text) -> Iterator[World]:
    """Return the kernel on the same records, through the proxy and with the workers' client."""
    client = open_store(proxy.url)
    yield World(client, prefix, text)
    client.close()
