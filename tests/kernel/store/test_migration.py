"""A store that a version of one of the last formats has written is migrated to ours, and back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from typer.testing import CliRunner

from interlock.kernel.errors import StoreFormatError
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import PARTITIONS
from interlock.kernel.store import migration, scripts
from interlock.kernel.store.format import FORMAT, refuse_another_format, release
from interlock.kernel.store.format_steps import KEYS_OF_2, STEPS, CannotMigrateError
from interlock.kernel.store.keys import Keys, KeysOf
from interlock.kernel.store.migration import FormatPlan, Migration, StoreAtWorkError
from interlock.kernel.store.scripts import Client, call
from interlock.kernel.store.tables import Process, Tables
from interlock.workers.cli import app
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.formats import said
from interlock.workers.ops.verify import every_record, verify_all
from tests.kernel.store.contents import content
from tests.systems.threads.threads import client_of, guarded_client_of

FOLDER = Path(__file__).parent
OLD_PREFIX = "il:"
RECORDS = {1: 26, 2: 26, 3: 23}  # that a migration changes, by the format of before
FORMATS = tuple(STEPS)


class KilledError(Exception):
    """Stands for the end of a process in the middle of a migration."""


def load(client: Client, prefix: str, number: int) -> Keys:
    """Write the keys that a process of a format has written, below a prefix."""
    for line in (FOLDER / f"format_{number}.jsonl").read_text("utf-8").splitlines():
        name, kind, value = json.loads(line)
        write(client, f"{prefix}:{name.removeprefix(OLD_PREFIX)}", kind, value)
    return Keys(prefix)


def write(client: Any, key: str, kind: str, value: Any) -> None:
    if kind == "hash":
        client.hset(key, mapping=value)
    elif kind == "zset":
        client.zadd(key, dict(value))
    elif kind == "set":
        client.sadd(key, *value)
    elif kind == "list":
        client.rpush(key, *value)
    elif kind == "stream":
        for position, fields in value:
            client.xadd(key, fields, id=position)
    else:
        client.set(key, value)


def kept(client: Any, keys: Keys) -> dict[str, Any]:
    """Return the content of every key of a deployment."""
    names = sorted(client.scan_iter(match=f"{keys.prefix}:*"))
    return {name.decode(): content(client, name.decode()) for name in names}


def without_place(dispatch: Dispatch) -> set[tuple[str, str]]:
    """Return the timers and effects that records have and their machines have not."""
    records = dispatch.views.records(every_record(dispatch)).values()
    names = {
        machine: {each.name for stage in table.stages for each in getattr(stage, "timers", ())}
        for machine, table in MACHINES.items()
    }
    own = {(one.machine, timer.name) for one in records for timer in one.timers}
    owed = {(one.machine, entry.name) for one in records for entry in one.entries}
    return {one for one in own if one[1] not in {*names[one[0]], "quarantine"}} | {
        one for one in owed if one[1] not in MACHINES[one[0]].effects
    }


def formats_of(client: Any, keys: Keys) -> set[bytes]:
    return {client.hget(keys.meta(at), "format") for at in range(PARTITIONS)}


def migrate(client: Client, keys: Keys, target: int = FORMAT) -> int:
    return Migration(client, keys, MACHINES, target).apply(lambda: None)


def killed_at(number: int) -> Callable[[], None]:
    """Return what ends a migration before its batch of a number."""
    left = iter(range(number))

    def on_batch() -> None:
        if next(left, None) is None:
            raise KilledError

    return on_batch


@pytest.mark.parametrize("number", FORMATS)
def test_a_plan_counts_and_changes_nothing(client: Client, prefix: str, number: int) -> None:
    keys = load(client, prefix, number)
    before = kept(client, keys)

    plan = Migration(client, keys, MACHINES).plan()

    assert plan == FormatPlan({number: PARTITIONS}, FORMAT, RECORDS[number])
    assert kept(client, keys) == before


@pytest.fixture(autouse=True)
def unfenced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do without the time in which others meet the mark: there are no others."""
    monkeypatch.setattr(migration, "FENCE_S", 0)


def test_the_command_that_plans_ends_with_1_while_a_store_is_to_be_migrated(
    server: EmbeddedServer, client: Client, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(client, prefix, 1)
    monkeypatch.setenv("INTERLOCK_STORE_URL", server.url)
    monkeypatch.setenv("INTERLOCK_PREFIX", prefix)

    ended = CliRunner().invoke(app, ["plan"])

    assert (ended.exit_code, "would rewrite 26 records" in ended.stdout) == (1, True), ended.stdout


@pytest.mark.parametrize("number", FORMATS)
def test_a_migrated_store_is_verified_and_goes_on(
    server: EmbeddedServer, client: Any, prefix: str, number: int
) -> None:
    keys = load(client, prefix, number)

    assert migrate(client, keys) == RECORDS[number]

    opened = client_of(server.url, prefix)
    dispatch = opened.dispatch
    verified = verify_all(dispatch, None)
    assert verified["faults"] == [], verified
    assert client.hgetall(keys.counters("reserved")) == {
        b"cap.spent": b"200000",
        b"reserved.spent": b"80000",
    }
    assert client.hget(keys.counters("g/first"), "cap.runs") == b"5"
    assert without_place(dispatch) == set()
    assert opened.list(machine="thread", text="said nothing")[0].id == "clarify"


def test_a_migrated_store_has_the_present_names_and_says_what_to_install(
    client: Any, prefix: str
) -> None:
    keys = load(client, prefix, 1)
    migrate(client, keys)

    words = {name.rpartition("}:")[2].partition(":")[0] for name in kept(client, keys)}
    assert not words & KEYS_OF_2.keys()
    commits = client.xrange(keys.family_log("data"))
    assert [fields for _, fields in commits] == [{b"record": b"data/1", b"version": b"1"}]
    assert client.hget(keys.meta(9), "version") == release().encode()


@pytest.mark.parametrize("number", FORMATS)
def test_the_way_back_leads_to_what_was_there(client: Any, prefix: str, number: int) -> None:
    keys = load(client, prefix, number)
    before = kept(client, keys)

    migrate(client, keys)
    assert Migration(client, keys, MACHINES, number).plan()
    assert migrate(client, keys, number) == RECORDS[number]

    assert kept(client, keys) == before


@pytest.mark.parametrize("number", FORMATS)
def test_who_was_killed_in_any_batch_repeats_in_either_direction(
    client: Any, prefix: str, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(migration, "BATCH", 60)
    keys = load(client, prefix, number)
    before = kept(client, keys)

    for target in (FORMAT, number):
        for batch in (1, 2, 4):
            with pytest.raises(KilledError):
                Migration(client, keys, MACHINES, target).apply(killed_at(batch))
            assert formats_of(client, keys) == {str(-number).encode()}
            plan = Migration(client, keys, MACHINES, target).plan()
            assert plan
            assert plan.formats == {-number: PARTITIONS}
            with pytest.raises(StoreFormatError, match=f"is being migrated from format {number}"):
                refuse_another_format(client, keys)
    migrate(client, keys, number)
    assert kept(client, keys) == before

    migrate(client, keys)
    whole = kept(client, keys)
    assert formats_of(client, keys) == {str(FORMAT).encode()}
    assert migrate(client, keys) == 0
    assert kept(client, keys) == whole


def places(keys: Keys) -> KeysOf:
    """Return the keys by which the record `reserved` is rewritten, with the meta of partition 2."""
    created = keys.creation_index(2, "thread")
    return keys.of("reserved", meta=keys.meta(2), creation_index=created)


def test_a_partition_without_the_mark_is_not_written(client: Any, prefix: str) -> None:
    keys = load(client, prefix, 3)
    before = kept(client, keys)
    record, plan = keys.record("reserved"), {"fields": [["record", "state", "", "done"]]}
    named = keys.in_partition(2, key=record, renamed=f"{record}2")

    assert call(client, "rewrite_record", places(keys), plan | {"mark": "-3"}) == [b"fenced"]
    assert call(client, "rename_key", named, {"mark": "-3"}) == [b"fenced"]
    gone = keys.in_partition(2, key=f"{record}3", renamed=f"{record}2")
    assert call(client, "rename_key", gone, {"mark": "3"}) == [b"missing"]
    assert kept(client, keys) == before


def test_a_format_that_has_changed_since_it_was_read_is_not_replaced(
    client: Any, prefix: str
) -> None:
    keys = load(client, prefix, 3)

    plan = {"before": "2", "after": "-2", "partitions": PARTITIONS, "version": ""}
    found = call(client, "mark_format", keys.in_partition(2), plan)

    assert (found, client.hget(keys.meta(2), "format")) == ([b"other", b"3"], b"3")
    again = call(client, "mark_format", keys.in_partition(2), plan | {"after": "3"})
    assert again == [b"has", b"3"]


def test_a_migration_that_another_process_has_ended_is_given_up(client: Any, prefix: str) -> None:
    keys = load(client, prefix, 3)
    batches = iter(range(9))

    def on_batch() -> None:
        if next(batches):
            for at in range(PARTITIONS):
                client.hset(keys.meta(at), "format", FORMAT)

    with pytest.raises(StoreAtWorkError, match="another process has ended this migration"):
        Migration(client, keys, MACHINES).apply(on_batch)


def test_a_record_that_has_changed_since_it_was_read_is_not_written(
    client: Any, prefix: str
) -> None:
    keys = load(client, prefix, 3)
    client.hset(keys.meta(2), "format", -3)
    before = kept(client, keys)
    fields = [["record", "title", False, "a"], ["record", "state", "other", "b"]]
    plan = {"mark": "-3", "fields": fields}

    assert call(client, "rewrite_record", places(keys), plan) == [b"moved"]
    assert kept(client, keys) == before


@pytest.mark.parametrize("number", [FORMAT + 1, -FORMAT])
def test_what_cannot_be_migrated_is_refused_and_not_changed(
    client: Any, prefix: str, number: int
) -> None:
    keys = load(client, prefix, 3)
    client.hset(keys.meta(40), "format", number)
    before = kept(client, keys)
    migrating = Migration(client, keys, MACHINES)

    for attempt in (migrating.plan, lambda: migrating.apply(lambda: None)):
        with pytest.raises(StoreFormatError, match=f"format {abs(number)}"):
            attempt()

    assert kept(client, keys) == before


@pytest.mark.parametrize(
    ("counter", "entry", "said"),
    [
        ("cap.pages", "", "reserved has cap.pages, a cap that format 3 does not know"),
        ("", "pages=3", "reserved has reserved pages: format 3 keeps money only"),
        ("", "damaged", "reserved is damaged"),
    ],
)
def test_what_an_older_format_cannot_keep_is_refused_before_anything_changes(
    client: Any, prefix: str, counter: str, entry: str, said: str
) -> None:
    keys = load(client, prefix, 3)
    migrate(client, keys)
    if counter:
        client.hset(keys.counters("reserved"), counter, 3)
    else:
        record = keys.record("reserved")
        (field,) = (one for one in client.hkeys(record) if one.startswith(b"e:"))
        line = client.hget(record, field).decode()
        client.hset(
            record, field, entry if entry == "damaged" else line.replace("spent=80000", entry)
        )
    before = kept(client, keys)

    with pytest.raises(CannotMigrateError, match=f"{said}.*Nothing was changed"):
        migrate(client, keys, 3)

    assert kept(client, keys) == before


def test_the_way_back_does_not_lead_forward(client: Any, prefix: str) -> None:
    keys = load(client, prefix, 2)
    before = kept(client, keys)

    with pytest.raises(CannotMigrateError, match="has format 2, at least in part"):
        migrate(client, keys, 3)

    assert kept(client, keys) == before


def test_a_store_at_work_is_refused_and_not_changed(client: Any, prefix: str) -> None:
    keys = load(client, prefix, 1)
    client.hset(keys.meta(9), "last_pass", client.time()[0] * 1_000)
    before = kept(client, keys)

    with pytest.raises(StoreAtWorkError, match=r"a sweep passed .* Stop all workers"):
        migrate(client, keys)

    assert kept(client, keys) == before


def test_a_store_of_announced_processes_is_refused_until_they_have_ended(
    client: Any, prefix: str
) -> None:
    keys = load(client, prefix, 3)
    tables = Tables(client, keys)
    tables.announce(Process("worker@here", "worker", "0.1.0", {}))
    before = kept(client, keys)

    with pytest.raises(StoreAtWorkError, match=r"worker@here \(worker, Interlock 0.1.0\)"):
        migrate(client, keys)

    assert kept(client, keys) == before
    tables.withdraw("worker@here")
    assert migrate(client, keys) == RECORDS[3]


def test_nothing_is_written_before_who_is_at_work_has_met_the_mark(
    server: EmbeddedServer, client: Any, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = load(client, prefix, 3)
    migrate(client, keys)
    monkeypatch.setattr(scripts, "GUARD_S", 0.2)
    at_work = guarded_client_of(server.url, prefix)
    at_work.pause("card")
    before = kept(client, keys) | {keys.meta(at): ANY for at in range(PARTITIONS)}

    fenced: list[float] = []

    def fence(seconds: float) -> None:
        fenced.append(seconds)
        time.sleep(seconds)
        with pytest.raises(StoreFormatError, match="is being migrated"):
            at_work.resume("card")
        assert kept(client, keys) == before

    monkeypatch.setattr(migration, "FENCE_S", 0.3)
    monkeypatch.setattr(migration, "sleep", fence)
    migrate(client, keys, 3)
    assert fenced == [0.3]


def test_the_command_migrates_and_leads_back(
    server: EmbeddedServer, client: Any, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = load(client, prefix, 1)
    before = kept(client, keys)
    monkeypatch.setenv("INTERLOCK_STORE_URL", server.url)
    monkeypatch.setenv("INTERLOCK_PREFIX", prefix)

    def run(*words: str) -> str:
        ended = CliRunner().invoke(app, ["apply", *words])
        assert ended.exit_code == 0, ended.output
        return ended.output

    planned = run("--dry-run")
    assert "would rewrite 26 records in format 4" in " ".join(planned.split())
    assert kept(client, keys) == before
    assert "the store has format 4 now: 26 records were rewritten" in run()
    assert "2 in thread/awaiting_inference would be moved" in run("--dry-run")
    back = ("--back", "--format", "1")
    assert "would rewrite 26 records in format 1" in " ".join(run(*back, "--dry-run").split())
    assert "the store has format 1 now: 26 records were rewritten" in run(*back)
    after = kept(client, keys)
    # What an older table of threads had was moved to that of this code; no way back undoes it.
    moved = {name.rpartition(":")[2] for name in after if '"trigger":"moved"' in str(after[name])}
    same = {name for name in before if name.rpartition(":")[2] not in moved}
    assert len(moved) < len(same)
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert "has format 1 already" in run(*back)
    wrong = CliRunner().invoke(app, ["apply", "--format", "1"])
    assert (wrong.exit_code, "say --back beside it" in wrong.output) == (1, True)


def test_a_plan_for_one_record_says_so() -> None:
    assert "would rewrite 1 record in format 4. Stop" in said(FormatPlan({3: 1}, 4, 1))
