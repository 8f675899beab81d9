"""Removing a request from its source: only a worker of the computer that has it does it."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.systems.threads.requests import read_request
from interlock.workers.gateways import sources
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.threads.threads import bring
from tests.workers.engine.running import Running, settings_for


def machine_named(name: str, server: EmbeddedServer, prefix: str, folder: Path) -> Running:
    """Return a worker of a computer, which may change the files of the folder."""
    root = {"INTERLOCK_SOURCES_ROOT": str(folder)}
    return Running(settings_for(server.url, prefix, INTERLOCK_HOST=name, **root))


def test_only_a_worker_of_the_submitting_computer_removes_the_file(
    server: EmbeddedServer, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "DEADLINE_S", 60)
    north, south = (machine_named(name, server, prefix, tmp_path) for name in ("north", "south"))
    file = tmp_path / "milk.md"
    file.write_text("# Buy milk\n")
    inciting = read_request(file, host="north")["inciting"]
    bring(north.client, "one", "awaiting_intent_confirmation", inciting=inciting)
    north.client.fire("one", "cleanup_requested")

    sent = south.perform("one", name="cleanup")
    kept = file.exists()
    done = north.perform("one", name="cleanup")

    assert (sent, kept) == ("retry: sent on to north, where its files are", True)
    assert done == "cleanup_succeeded -> done_cleanup_successful"
    assert not file.exists()
