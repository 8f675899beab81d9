"""Verifies a store: whether records agree with their logs, and indexes and feeds with records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from redis.exceptions import RedisError

from interlock.kernel.errors import KernelError
from interlock.kernel.moving import as_read
from interlock.kernel.record import PARTITIONS, Record, partition_of
from interlock.kernel.store.fold import Folded, follow, hash_of, sums
from interlock.kernel.store.saved_results import SavedResults
from interlock.kernel.store.scripts import read, read_all, store_error
from interlock.kernel.store.titles import id_in, names_of
from interlock.kernel.store.views import Views
from interlock.kernel.table import Active, Terminal
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.slot_waits import concurrency_of

READS_MAX = 5
BATCH = 500


def verify_all(dispatch: Dispatch, record_ids: Sequence[str] | None) -> dict[str, Any]:
    """Recompute records from their logs. Return how many were checked, and each fault.

    Without ids, all records are checked, and the indexes and feeds of the store as well.
    """
    faults: list[str] = []
    checked = events = 0
    for record_id in record_ids or every_record(dispatch):
        try:
            found, version = check_record(dispatch, record_id)
            faults += [f"{record_id}: {fault}" for fault in found]
            events += version
        except KernelError as refusal:
            faults.append(f"{record_id}: {refusal}")
        except (LookupError, TypeError, ValueError) as refusal:
            faults.append(f"{record_id}: cannot be read: {type(refusal).__name__}: {refusal}")
        checked += 1
    if not record_ids:
        faults += [*strays(dispatch), *gaps(dispatch), *kept_by_ended(dispatch)]
        faults += unchecked_slots(dispatch)
    return {"records": checked, "transitions": events, "faults": faults}


def check_record(dispatch: Dispatch, record_id: str) -> tuple[list[str], int]:
    """Return a record's faults and its version. Read it again if it changes during the check."""
    views = Views(dispatch.client, dispatch.keys)  # without tables: they read as it is stored
    for _ in range(READS_MAX):
        record = views.record(record_id)
        lines = views.history(record_id)
        now = as_read(dispatch.lifecycle.machine(record.machine), record)
        found = [*faults_of(dispatch, record, lines), *missing_in_indexes(dispatch, now)]
        if not found or views.record(record_id) == record:
            break
    return found, record.version


def every_record(dispatch: Dispatch) -> Iterator[str]:
    """Yield the id of every record that is in an index of a state, or in one by creation."""
    for machine in dispatch.machines.values():
        seen = set[str]()
        for record_id in dispatch.views.ids(machine):
            seen.add(record_id)
            yield record_id
        for partition in range(PARTITIONS):
            created = dispatch.keys.creation_index(partition, machine.name)
            yield from (one for one in _members(dispatch, created) if one not in seen)


def faults_of(dispatch: Dispatch, record: Record, lines: Sequence[Any]) -> Iterator[str]:
    """Yield each difference between a record and its log, and each sign that it is stranded.

    `record` is as it is stored. What only functions of an older table have led to is compared
    with the hash that the log has of it.
    """
    machine = dispatch.lifecycle.machine(record.machine)
    now = as_read(machine, record)
    stage = machine.stage(now.state)
    folded = follow(machine, lines, partial(dispatch.tables.outline, machine.name))
    yield from _unlike(folded, record)
    is_present = folded.table == machine.digest and folded.knows_data
    if is_present and folded.record.title != record.title:
        yield f"its title in lists is {record.title!r}, and by its data {folded.record.title!r}"
    counters = {name: count for name, count in record.counters.items() if "." not in name}
    if {k: v for k, v in sums(lines).items() if v} != {k: v for k, v in counters.items() if v}:
        yield f"the counters are {counters}, the log adds up to {dict(sums(lines))}"
    expected = dict(machine.counters(now.data))
    if {name: counters.get(name, 0) for name in expected} != expected:
        yield f"cost mismatch: the counters are {counters}, its data add up to {expected}"
    alive = {"owed", "leased", "lapsed", "quarantined"}
    working = [e for e in record.entries if e.kind == "state" and e.state in alive]
    if isinstance(stage, Active) and len(working) != 1 and not record.paused:
        yield f"it is {record.state} with {len(working)} live effects"
    for name in SavedResults(dispatch.client, dispatch.keys).stale(record):
        yield f"the result {name} is kept, and its effect is not owed any more"
    limited = isinstance(stage, Active) and stage.effect and stage.effect.timeout_ms
    watched = record.timers or record.paused or limited
    if not (isinstance(stage, Terminal) or watched):
        yield f"it is {record.state} without a timer"


def _unlike(folded: Folded, record: Record) -> Iterator[str]:
    """Yield how a record differs from what its log leads to."""
    by_log = folded.record
    agree = (by_log.state, by_log.version) == (record.state, record.version)
    if folded.knows_data:
        agree = agree and by_log.data == record.data
    else:
        agree = agree and hash_of(record.data) == folded.data_hash
    if not agree:
        leads, stored = f"{by_log.state} v{by_log.version}", f"{record.state} v{record.version}"
        yield f"the log leads to {leads}, the record is {stored}, or their data differ"


def missing_in_indexes(dispatch: Dispatch, record: Record) -> Iterator[str]:
    """Yield each entry of a record that is missing in the index where sweeps and lists find it."""
    expected = [
        (index, member)
        for index, members in members_by_index(dispatch, record).items()
        for member in members
    ]
    scores = read_all(dispatch.client, [("ZSCORE", *one) for one in expected])
    for (index, member), score in zip(expected, scores, strict=True):
        if score is None:
            yield f"{member} is missing in {index}"
    ends = isinstance(dispatch.lifecycle.machine(record.machine).stage(record.state), Terminal)
    flag = read(dispatch.client, "HGET", dispatch.keys.record(record.id), "ended") or b""
    if flag != (b"1" if ends else b""):
        yield f"it is {record.state}, and its field 'ended' is {flag.decode()!r}"


def members_by_index(dispatch: Dispatch, record: Record) -> dict[str, list[str]]:
    """Return the members that each index has of a record; the index of ended families is left out.

    A family stays there or leaves it as it is pruned.
    """
    keys, partition = dispatch.keys, partition_of(record.id)
    stage = dispatch.lifecycle.machine(record.machine).stage(record.state)
    due = [] if record.paused else [timer.name for timer in record.timers]
    owed = [
        entry.suffix
        for entry in record.entries
        if entry.state != "quarantined" and not (record.paused and entry.state == "owed")
    ]
    slots: dict[str, list[str]] = {}
    for entry in record.entries:
        if entry.slots and entry.state == "leased" and concurrency_of(dispatch, entry.slots):
            slots.setdefault(keys.effect_slots(entry.slots)["holders"], []).append(
                entry.key(record.id)
            )
    asks = stage.waits_for_person(record.data)
    asks = asks or any(entry.asks_person for entry in record.entries)
    return {
        keys.effects(partition): [f"{record.id}:{suffix}" for suffix in owed],
        keys.timers(partition): [f"{record.id}:{name}" for name in due],
        keys.waits(partition): [record.id] if asks else [],
        keys.state_index(record.id, record.machine, record.was or record.state): [record.id],
        keys.creation_index(partition, record.machine): [record.id],
        keys.search_index(partition): names_of(record),
        **slots,
    }


def strays(dispatch: Dispatch) -> Iterator[str]:
    """Yield each member of an index that no record has there."""
    keys = dispatch.keys
    for partition in range(PARTITIONS):
        indexes = [
            keys.effects(partition),
            keys.timers(partition),
            keys.waits(partition),
            keys.search_index(partition),
            *(keys.creation_index(partition, name) for name in dispatch.machines),
            *(
                keys.state_index_of(partition, machine.name, state)
                for machine in dispatch.machines.values()
                for state in (*(stage.state for stage in machine.stages), *machine.renamed)
            ),
        ]
        pages = read_all(dispatch.client, [("ZRANGE", index, 0, -1) for index in indexes])
        for index, page in zip(indexes, pages, strict=True):
            find = id_in if index == keys.search_index(partition) else _before_colon
            for members in _batches(one.decode() for one in page):
                yield from _strays_of(dispatch, index, {one: find(one) for one in members})


def _strays_of(dispatch: Dispatch, index: str, owners: Mapping[str, str]) -> Iterator[str]:
    """Yield each of these members of an index that its owner has not, however often it is read.

    What a damaged record has in an index is unknown: its own fault is reported instead.
    """
    suspects = dict(owners)
    for _ in range(READS_MAX):
        if not suspects:
            return
        records = dispatch.views.records(suspects.values(), readable_by=dispatch.machines)
        known = {
            member
            for record in records.values()
            for member in members_by_index(dispatch, record).get(index, ())
        }
        scores = read_all(dispatch.client, [("ZSCORE", index, one) for one in suspects])
        there = [("EXISTS", dispatch.keys.record(owner)) for owner in suspects.values()]
        rows = zip(suspects.items(), scores, read_all(dispatch.client, there), strict=True)
        suspects = {
            member: owner
            for (member, owner), score, exists in rows
            if score is not None and member not in known and (owner in records or not exists)
        }
    for member in suspects:
        yield f"{member} is in {index}, and no record has it there"


def _before_colon(member: str) -> str:
    return member.partition(":")[0]


def gaps(dispatch: Dispatch) -> Iterator[str]:
    """Yield each record of which the feed of its partition lacks a commit between two others.

    What the feed does not go back to is no gap. A record that was restored begins anew in it.
    """
    for partition in range(PARTITIONS):
        newest: dict[str, int] = {}
        for record_id, version in _fed(dispatch, partition):
            before = newest.get(record_id, version - 1)
            if version != before + 1:
                yield f"{record_id}: the feed goes from version {before} to {version}"
            newest[record_id] = version
        for ids in _batches(list(newest)):
            for record in dispatch.views.records(ids, readable_by=dispatch.machines).values():
                if record.version > newest[record.id]:
                    newest.update(_fed(dispatch, partition))  # it may have changed since
                if record.version > newest[record.id]:
                    yield f"{record.id}: the feed ends at version {newest[record.id]}"


def _fed(dispatch: Dispatch, partition: int) -> Iterator[tuple[str, int]]:
    """Yield the record and the version of each commit in the feed of a partition, in order."""
    feed, begin = dispatch.keys.feed(partition), "-"
    while page := read(dispatch.client, "XRANGE", feed, begin, "+", "COUNT", BATCH):
        for place, pairs in page:
            fields = dict(pairs)
            yield fields[b"record"].decode(), int(fields[b"version"])
            begin = f"({place.decode()}"


def kept_by_ended(dispatch: Dispatch) -> Iterator[str]:
    """Yield each slot and name that a record keeps which has ended and owes nothing any more."""
    for pattern, commands in (("slots", ("ZRANGE", 0, -1)), ("holds", ("HVALS",))):
        word, *bounds = commands
        for key in _keys(dispatch, pattern):
            holders = {one.decode() for one in read(dispatch.client, word, key, *bounds)}
            found = dispatch.views.records(holders, readable_by=dispatch.machines)
            for record in found.values():
                stage = dispatch.lifecycle.machine(record.machine).stage(record.state)
                if isinstance(stage, Terminal) and not record.entries:
                    yield f"{record.id}: it is {record.state} and still in {key}"


def unchecked_slots(dispatch: Dispatch) -> Iterator[str]:
    """Yield each name of slots that effects have, and that no sweep would ever free."""
    for key in _keys(dispatch, "effect-slots"):
        name = key.partition(":effect-slots:")[2]
        checked = dispatch.keys.checked_slots(partition_of(name))
        is_checked = read(dispatch.client, "ZSCORE", checked, name) is not None
        if not is_checked and read(dispatch.client, "EXISTS", key):
            yield f"no sweep checks the slots {name}, which effects have"


def _keys(dispatch: Dispatch, kind: str) -> list[str]:
    """Return the keys of a kind in all partitions, such as those of slots."""
    client: Any = dispatch.client  # redis-py leaves the cluster's cursor untyped
    try:
        found = client.scan_iter(match=f"{dispatch.keys.prefix}:{{p??}}:{kind}:*", count=1_000)
        return sorted({key.decode() for key in found})
    except RedisError as refusal:
        raise store_error(refusal) from refusal


def _members(dispatch: Dispatch, index: str) -> Iterable[str]:
    return (one.decode() for one in read(dispatch.client, "ZRANGE", index, 0, -1))


def _batches(items: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch
