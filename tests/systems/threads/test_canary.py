"""Canaries are submitted, executed and deleted, and nobody is bothered by them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.kernel.errors import UnknownMachineError
from interlock.kernel.machines import MACHINES
from interlock.systems.threads.canary import CANARIES_MAX, DONE, canaries, health
from interlock.systems.threads.sweeps.canary import SWEEP
from interlock.workers.gateways.capabilities import registry
from interlock.workers.gateways.capabilities.canary import interlock_canary
from interlock.workers.gateways.capabilities.registry import load_registry
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.doctor import diagnose
from interlock.workers.ops.event_export import EventExport
from interlock.workers.systems import handlers
from tests.sweeping import sweeping
from tests.systems.threads.threads import FAILED, STARTED, step
from tests.workers.engine.running import Running, perform, settings_for


@pytest.fixture
def running(server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Running:
    canary = replace(interlock_canary, deadline_s=60)
    monkeypatch.setattr(registry, "interlock_canary", canary)
    return Running(
        settings_for(server.url, prefix, INTERLOCK_CANARY_S="60", INTERLOCK_RECORDS_MAX="1")
    )


def swept(running: Running) -> list[str]:
    """Sweep once, and return the ids of all canaries, the newest first."""
    SWEEP.run(sweeping(running.dispatch), 0)
    return [row.id for row in canaries(sweeping(running.dispatch)).rows]


def work(running: Running, record_id: str) -> None:
    """Perform all effects of a canary, as workers do."""
    while entries := running.client.show(record_id).entries:
        name, key = entries[0].name, entries[0].key(record_id)
        perform(running.runner, MACHINES["canary"], name, handlers()[f"canary.{name}"], key)


def wait(running: Running, monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    """Let the newest canary be so old."""
    now_ms = canaries(sweeping(running.dispatch)).rows[0].created_ms + seconds * 1_000
    monkeypatch.setattr(running.dispatch.views, "now_ms", lambda: now_ms)


def test_a_canary_gets_through_and_the_next_one_takes_its_place(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SWEEP.is_needed(running.dispatch.settings)
    [first] = swept(running)
    wait(running, monkeypatch, 61)
    assert swept(running) == [first], "one at a time"
    assert diagnose(running.dispatch)["systems"] == {}
    work(running, first)
    assert running.client.show(first).state == "done", "no model and no person was asked"
    assert canaries(sweeping(running.dispatch)).age_s == 61
    assert diagnose(running.dispatch)["systems"] == {DONE: "submitted 61 s ago"}

    wait(running, monkeypatch, 300)
    assert "as their sweep submits none" in health(sweeping(running.dispatch)).problems[0]

    second, _ = swept(running)
    work(running, second)

    assert swept(running) == [second]
    store, prefix = running.dispatch.client, running.dispatch.settings.prefix
    left = [key for key in store.keys(f"{prefix}:*") if first.encode() in key]
    assert left == [running.dispatch.keys.tombstone(first).encode()]
    assert 0 < store.pttl(left[0]) <= 3_600_000


def test_without_workers_canaries_are_late_and_few(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not health(sweeping(running.dispatch)).problems, "none was submitted yet"
    [first] = swept(running)
    assert not health(sweeping(running.dispatch)).problems
    wait(running, monkeypatch, 241)
    assert f"`interlock history {first}`" in health(sweeping(running.dispatch)).problems[0]

    # The quota of these tests, which leaves room for one record, is not asked.
    for n in range(CANARIES_MAX + 1):
        swept(running)
        wait(running, monkeypatch, 241 * (n + 2))

    counts = running.dispatch.views.counts([MACHINES["canary"]])
    assert counts["canary"].total() == CANARIES_MAX
    off = running.dispatch.settings.model_copy(update={"canary_s": 0})
    monkeypatch.setattr(running.dispatch, "settings", off)
    assert not health(sweeping(running.dispatch)).problems
    assert not SWEEP.is_needed(off)


def test_a_canary_that_cannot_go_on_asks_nobody_and_ends_by_itself(running: Running) -> None:
    client = running.client
    [first] = swept(running)
    for trigger, payload in (STARTED, FAILED):
        step(client, first, trigger, payload)
    record = client.show(first)

    assert record.state == "awaiting_intent_clarification"
    assert "expiry" in [timer.name for timer in record.timers]
    assert (client.cards(), client.list(), client.counts().machines["thread"]) == ([], [], {})
    assert [*EventExport(client.dispatch).all()] == []
    with pytest.raises(UnknownMachineError):
        client.counts(machine="canary")
    with pytest.raises(UnknownMachineError):
        client.submit({"inciting": {}}, machine="canary")


def test_nobody_is_offered_the_capability_of_canaries() -> None:
    loaded = load_registry(None)

    loaded.check("interlock_canary", {})
    assert [one.name for one in loaded.catalog()] == [*loaded.names] == ["decompose"]
