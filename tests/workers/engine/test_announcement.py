"""A worker announces what its computer has as long as it runs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from interlock.kernel.errors import StoreDownError
from interlock.kernel.store.hosts import Hosts
from interlock.workers.engine.announcement import Announcer
from tests.waiting import until


class RecordingHosts(Hosts):
    """Keeps what is announced in memory. The store is away at the first call."""

    def __init__(self) -> None:
        self.announced: list[tuple[str, Mapping[str, bool]]] = []
        self.calls = 0

    def announce(self, host: str, facts: Mapping[str, bool]) -> None:
        self.calls += 1
        if self.calls == 1:
            raise StoreDownError("away")
        self.announced.append((host, facts))


def test_facts_are_repeated_until_the_worker_ends_whether_or_not_the_store_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("interlock.workers.engine.announcement.PERIOD_S", 0.001)
    hosts = RecordingHosts()
    announcer = Announcer(lambda: hosts, "north")

    announcer.start({"judge": True})

    until(lambda: len(hosts.announced) > 1, what="it has announced them again")
    announcer.stop()
    assert hosts.announced[:2] == [("north", {"judge": True})] * 2
