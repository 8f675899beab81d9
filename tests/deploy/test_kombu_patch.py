"""The patch that is offered to kombu applies to the version that we use, and does what it says."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from kombu import Connection, Exchange, Queue
from kombu.transport import TRANSPORT_ALIASES
from kombu.transport import redis as of_kombu

from interlock.workers.gateways.server import EmbeddedServer

PATCH = Path(__file__).parents[2] / "deploy" / "kombu" / "redis-transport.patch"
GIT = shutil.which("git") or "git"
NAME = "kombu.transport.patched"


@pytest.fixture
def patched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return kombu's transport with the patch, as a module beside it."""
    file = tmp_path / "kombu" / "transport" / "redis.py"
    file.parent.mkdir(parents=True)
    file.write_text(Path(str(of_kombu.__file__)).read_text("utf-8"), "utf-8")
    with PATCH.open() as changes:
        subprocess.run([GIT, "apply", "-"], cwd=tmp_path, stdin=changes, check=True)
    spec = importlib.util.spec_from_file_location(NAME, file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, NAME, module)
    spec.loader.exec_module(module)
    monkeypatch.setitem(TRANSPORT_ALIASES, "patched", f"{NAME}:Transport")
    return module


@pytest.mark.parametrize(
    "options", [{}, {"ack_emulation": False, "poll_batch_size": 8}], ids=["default", "batches"]
)
def test_messages_arrive_in_order_by_one_client(
    patched: ModuleType,
    server: EmbeddedServer,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
) -> None:
    clients: list[object] = []

    def make(**given: Any) -> object:
        clients.append(patched.redis.Redis(**given))
        return clients[-1]

    monkeypatch.setattr(patched.Channel, "_get_client", lambda _: make)
    queue = Queue(prefix, Exchange(prefix), routing_key=prefix)
    found: list[int] = []
    address = server.url.replace("redis://", "patched://")
    with Connection(address, transport_options=options) as connection:
        producer = connection.Producer()
        for number in range(20):
            place = {"exchange": queue.exchange, "routing_key": prefix, "declare": [queue]}
            producer.publish(number, priority=number % 2 * 9, **place)
        made = len(clients)
        consumer = connection.Consumer(queue, callbacks=[lambda body, _: found.append(body)])
        consumer.qos(prefetch_count=5)
        with consumer:
            while len(found) < 5:
                connection.drain_events(timeout=60)
            consumer.qos(prefetch_count=0)
            while len(found) < 20:
                connection.drain_events(timeout=60)

    assert found == [*range(0, 20, 2), *range(1, 20, 2)]
    assert made <= 2, "one client that polls and one for all else"
