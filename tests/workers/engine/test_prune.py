"""Families that ended long ago are archived and deleted whole; those that are needed stay."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.errors import IdTakenError, StoreDownError, UnknownRecordError
from interlock.kernel.record import partition_of
from interlock.workers.engine.sweeps import prune
from interlock.workers.gateways.server import EmbeddedServer
from tests.end_to_end.deployment import thread
from tests.sweeping import sweeping
from tests.systems.threads.threads import CONSENT, step
from tests.workers.engine.effects.test_cascade import Records
from tests.workers.engine.running import Running, settings_for

BATCH = 3


@pytest.fixture
def running(server: EmbeddedServer, prefix: str, tmp_path: Path) -> Running:
    more = {
        # No effect is due before its test says so.
        "INTERLOCK_POLL_S": "3600",
        "INTERLOCK_SWEEP_BATCH": str(BATCH),
        "INTERLOCK_PRUNE_AFTER_S": "0.001",
        "INTERLOCK_ARCHIVE": str(tmp_path / "archive"),
    }
    return Running(settings_for(server.url, prefix, **more))


def test_prune_archives_a_whole_family_and_keeps_its_ids_taken(
    running: Running, tmp_path: Path
) -> None:
    running.client.submit(thread("jot"), machine="thread", id="one")
    running.client.cancel("one")

    assert pruned(running, "one") == Counter(pruned=1)
    with pytest.raises(UnknownRecordError):
        running.client.show("one")
    archived = (tmp_path / "archive" / "one.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in archived] == ["one"] * len(archived)
    with pytest.raises(IdTakenError):
        running.client.submit(thread("broken"), machine="thread", id="one")


def test_prune_leaves_the_children_of_a_root_that_still_owes_an_effect(running: Running) -> None:
    children = Records(running.client).split_and_spawn("one")
    for ended in (*children, "one"):
        running.client.cancel(ended)
    for child in children:
        for entry in running.client.show(child).entries:
            running.perform(child, name=entry.name)
    assert running.client.show("one").entries

    assert pruned(running, "one") == Counter(busy=1)

    assert [running.client.show(child).state for child in children] == ["dismissed"] * 2


def test_an_archive_is_completed_and_never_replaced_by_a_part(
    running: Running, tmp_path: Path
) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    earlier = json.dumps({"id": "one/2.1", "machine": "thread", "at_ms": 1, "version": 1})
    (archive / "one.jsonl").write_text(earlier + "\n")
    running.client.submit(thread("jot"), machine="thread", id="one")
    running.client.cancel("one")

    pruned(running, "one")

    archived = (archive / "one.jsonl").read_text().splitlines()
    assert archived[0] == earlier
    assert len(archived) > 1
    assert not list(archive.glob("*.torn"))


def pruned(running: Running, record_id: str) -> Counter[str]:
    """Prune a record's partition once the record is old enough."""
    since = running.client.show(record_id).since_ms
    while running.dispatch.views.now_ms() <= since + 2:
        pass
    return prune.run(sweeping(running.dispatch), partition_of(record_id))


def ended(running: Running, record_id: str) -> None:
    """Create a thread and end it."""
    running.client.submit(thread("jot"), machine="thread", id=record_id)
    running.client.cancel(record_id)


def of_one_partition(count: int) -> list[str]:
    """Return ids whose records are in one partition."""
    ids = [f"r{number}" for number in range(10_000)]
    return [each for each in ids if partition_of(each) == partition_of(ids[0])][:count]


def keys_left(running: Running) -> set[str]:
    """Return the keys of records that are left, without tombstones."""
    keys = running.dispatch.client.keys(f"{running.dispatch.settings.prefix}:*one*")
    names = {key.decode().rpartition("}:")[2] for key in keys if isinstance(key, bytes)}
    return {name for name in names if not name.startswith("x:")}


def settle_all(running: Running, *record_ids: str) -> None:
    """End all effects of records without their work."""
    for record_id in record_ids:
        for entry in running.client.show(record_id).entries:
            running.perform(record_id, lambda _: None, name=entry.name)
        assert not running.client.show(record_id).entries


def test_without_an_archive_the_records_are_deleted_all_the_same(
    server: EmbeddedServer, prefix: str
) -> None:
    running = Running(settings_for(server.url, prefix, INTERLOCK_PRUNE_AFTER_S="0.001"))
    ended(running, "one")

    assert pruned(running, "one") == Counter(pruned=1)


def test_families_that_are_busy_hide_none_that_can_be_pruned(running: Running) -> None:
    *busy, last = of_one_partition(BATCH + 1)
    for root in busy:
        Records(running.client).split_and_spawn(root)
        running.client.cancel(root)
        assert running.client.show(root).entries
    ended(running, last)

    assert pruned(running, last) == Counter(busy=BATCH)
    assert prune.run(sweeping(running.dispatch), partition_of(last))["pruned"] == 1


def test_families_of_a_machine_that_is_gone_hide_none_that_can_be_pruned(
    running: Running,
) -> None:
    *gone, last = of_one_partition(BATCH + 1)
    for one in (*gone, last):
        running.client.submit(thread("jot"), machine="thread", id=one)
        running.client.cancel(one)
    for one in gone:
        running.dispatch.client.hset(running.dispatch.keys.record(one), "machine", "removed")

    assert pruned(running, last) == Counter(refused=BATCH)
    assert pruned(running, last) == Counter(pruned=1)


def test_a_child_that_lives_keeps_its_whole_family(running: Running) -> None:
    children = Records(running.client).split_and_spawn("one")
    running.client.cancel("one")
    settle_all(running, "one")
    asked, other = children
    for trigger, payload in CONSENT:
        step(running.client, asked, trigger, payload)
    running.client.cancel(other)
    settle_all(running, asked, other)

    assert pruned(running, "one") == Counter(busy=1)

    assert running.client.show(asked).state == "awaiting_confirmation"
    assert running.client.show(other).state == "dismissed"


def test_an_interrupted_prune_is_gone_on_with(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    children = Records(running.client).split_and_spawn("one")
    for record_id in (*children, "one"):
        running.client.cancel(record_id)
    settle_all(running, *children, "one")
    delete, left = running.dispatch.indexes.prune, [True, False]

    def interrupted(*given: Any, **more: Any) -> str:
        if not left.pop(0):
            raise StoreDownError("away")
        return delete(*given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(running.dispatch.indexes, "prune", interrupted)
        with pytest.raises(StoreDownError):
            pruned(running, "one")
    with pytest.raises(UnknownRecordError):
        [running.client.show(child) for child in children]

    assert prune.run(sweeping(running.dispatch), partition_of("one")) == Counter(pruned=1)
    assert keys_left(running) == set()
