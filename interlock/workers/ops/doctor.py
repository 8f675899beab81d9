"""Checks a store: whether records agree with their logs or are stranded, and its durability."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from operator import itemgetter
from typing import Any
from urllib.parse import urlsplit

from redis import Redis
from redis.exceptions import RedisError

from interlock.kernel.calling import called
from interlock.kernel.errors import KernelError, TableFunctionError
from interlock.kernel.record import PARTITIONS, Record
from interlock.kernel.store.clocks import Clocks
from interlock.kernel.store.codec import UNREADABLE
from interlock.kernel.store.scripts import store_error
from interlock.workers.config import Settings
from interlock.workers.engine.answer_schema import action_of
from interlock.workers.engine.card import faults_of
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.slot_waits import busy_slots
from interlock.workers.gateways.capabilities.registry import open_registry
from interlock.workers.processes.sandbox import Sandbox
from interlock.workers.systems import health
from interlock.workers.text import age

REJECTED_SHOWN_MAX = 20
CARDS_READ_MAX = 1_000  # of each partition of the store
REPLICAS_MIN = 2
CLOCK_SHOWN_S = 86_400.0
REPLICAS_TO_WRITE = "replicas required for a write"
LEVELS = {
    "D0": "volatile: after a restart of the store everything may be gone",
    "D1": "process-crash safe: a crash of workers, beat or producers loses nothing acknowledged; "
    "a crash of the store may cost two seconds if its disk is late, and a power loss about one "
    "second (with fsync no: everything not yet on disk)",
    "D2": "power-loss safe on honest storage: every acknowledged write is on disk",
    "D3": "replicated: it survives the loss of a node, but may then lose acknowledged writes",
}


def diagnose(dispatch: Dispatch) -> dict[str, Any]:
    """Return the level of durability, the depths of queues, and the counts by state."""
    level, facts = durability(dispatch)
    return {
        "level": level,
        "promise": LEVELS[level],
        "store": facts | clock_facts(dispatch),
        "enqueue": "fused" if dispatch.settings.fused else "plain",
        "depths": dispatch.indexes.depths(),
        "slots": busy_slots(dispatch),
        "rejected": dispatch.rejected.counts(),
        "rejected_messages": [
            asdict(message) for message in dispatch.rejected.newest(REJECTED_SHOWN_MAX)
        ],
        "systems": {name: fact for each in health(dispatch) for name, fact in each.facts.items()},
        "machines": dispatch.views.counts(dispatch.machines.values()),
        "sandboxes": sandboxes(dispatch),
        "asks_password": asks_password(dispatch.settings),
    }


def asks_password(settings: Settings) -> bool:
    """Whether an agent, whose network is that of its computer, needs a secret to use the store."""
    store = urlsplit(settings.store)
    return store.scheme == "unix" or store.password is not None


def sandboxes(dispatch: Dispatch) -> dict[str, str]:
    """Return the level of the sandbox of each computer that announces that it runs agents."""
    return {
        host: Sandbox.BUBBLEWRAP if facts["sandbox"] else Sandbox.NONE
        for host, facts in sorted(dispatch.hosts.facts().items())
        if "sandbox" in facts  # an earlier version announces none
    }


def clock_facts(dispatch: Dispatch) -> dict[str, str]:
    """Return by how much the clock of the store was set, if a sweep saw that within a day."""
    found = Clocks(dispatch.client, dispatch.keys).last_jump()
    if found is None:
        return {}
    jump_ms, seen_ms = found
    ago_s = (dispatch.views.now_ms() - seen_ms) / 1_000
    if ago_s > CLOCK_SHOWN_S:
        return {}
    direction = "ahead" if jump_ms > 0 else "back"
    return {
        "clock": f"was set {direction} by {age(abs(jump_ms))}, seen {age(ago_s * 1_000)}"
        " ago; due times were moved with it"
    }


def left_out(settings: Settings) -> dict[str, str]:
    """Return why capabilities of INTERLOCK_CAPABILITIES are left out, by name."""
    try:
        return open_registry(settings).left_out()
    except (KernelError, ValueError) as refusal:
        return {"all": str(refusal)}


def unloaded_proposals(dispatch: Dispatch) -> dict[str, str]:
    """Return what to do about each capability that an open card proposes and that is not loaded."""
    try:
        names = open_registry(dispatch.settings).names
    except (KernelError, ValueError):
        return {}  # `left_out` says why none is loaded
    _, waiting = dispatch.indexes.waits(range(PARTITIONS), CARDS_READ_MAX)
    ids_by_name: dict[str, list[str]] = {}
    ids = [record_id for record_id, _ in waiting]
    for record in dispatch.views.records(ids, readable_by=dispatch.machines).values():
        try:
            name = action_of(record.data).get("capability")
        except UNREADABLE:
            continue  # it is damaged: `interlock verify` names it
        if name and isinstance(name, str) and name not in names:
            ids_by_name.setdefault(name, []).append(record.id)
    more = {name: f" and {len(ids) - 1} more" for name, ids in ids_by_name.items() if len(ids) > 1}
    return {
        name: f"not loaded here, but proposed by the card of {ids[0]}{more.get(name, '')}:"
        " approved, it fails where the workers do not load it either; start `interlock up` with the"
        " INTERLOCK_CAPABILITIES that has it"
        for name, ids in sorted(ids_by_name.items())
    }


def problems_of_cards(dispatch: Dispatch) -> Iterator[str]:
    """Yield a sentence about each effect that was given up, and each card that cannot be made.

    Of each partition of the store the CARDS_READ_MAX records that wait longest are looked at.
    """
    _, waiting = dispatch.indexes.waits(range(PARTITIONS), CARDS_READ_MAX)
    ids = [record_id for record_id, _ in waiting]
    found = dispatch.views.records(ids, readable_by=dispatch.machines)
    yield from given_up(found[one] for one in ids if one in found)
    yield from wrong_cards(dispatch, ids, found)


def given_up(records: Iterable[Record]) -> Iterator[str]:
    """Yield a sentence about the effects that failed too often, by their names."""
    ids_by_effect: dict[str, list[str]] = {}
    for record in records:
        for entry in record.quarantined:
            ids_by_effect.setdefault(f"{record.machine}.{entry.name}", []).append(record.id)
    for name, ids in ids_by_effect.items():
        whose = ids[0] if len(ids) == 1 else f"{len(ids)} records, such as {ids[0]},"
        yield (
            f"{name} of {whose} failed too often and is tried no more: `interlock show {ids[0]}`"
            f" says why; repair the cause, then `interlock retry {ids[0]}`, or cancel it"
        )


def wrong_cards(
    dispatch: Dispatch, ids: Iterable[str], found: Mapping[str, Record]
) -> Iterator[str]:
    """Yield a sentence about each function of a table that cannot make its part of a card."""
    ids_by_fault: dict[str, list[str]] = {}
    for record_id in ids:
        record = found.get(record_id)
        faults = _why_hidden(dispatch, record_id) if record is None else _faults(dispatch, record)
        for fault in faults:
            ids_by_fault.setdefault(fault, []).append(record_id)
    for fault, those in ids_by_fault.items():
        cards = "the card" if len(those) == 1 else f"{len(those)} cards, such as that"
        yield f"{cards} of {those[0]} cannot be shown whole: {fault}; repair that function"


def _faults(dispatch: Dispatch, record: Record) -> list[str]:
    try:
        return faults_of(dispatch.machines[record.machine], record)
    except UNREADABLE:
        return []  # it is damaged: `interlock verify` names it


def _why_hidden(dispatch: Dispatch, record_id: str) -> list[str]:
    """Return why a record that waits for a person is in no list, if a function is the cause."""
    try:
        record = dispatch.views.record(record_id)
        machine = dispatch.machines[record.machine]
        asks = machine.stage(record.state).waits_for_person
        called(machine.name, f"asks of {record.state}", asks, record.data)
    except TableFunctionError as refusal:
        return [str(refusal)]
    except (KernelError, *UNREADABLE):
        return []
    return []


def durability(dispatch: Dispatch) -> tuple[str, dict[str, str]]:
    """Return the level of the primary with the weakest configuration, and the facts about it."""
    client: Any = dispatch.client  # redis-py leaves the cluster's nodes untyped
    if isinstance(client, Redis):
        nodes, topology = [client], {}
    else:
        nodes = [node.redis_connection for node in client.get_primaries()]
        topology = {"topology": f"cluster of {len(nodes)}"}
    try:
        level, found = min(map(_level_of, nodes), key=itemgetter(0))
    except RedisError as refusal:
        raise store_error(refusal) from refusal
    return level, topology | found


def _level_of(node: Redis) -> tuple[str, dict[str, str]]:
    server, replication = node.info("server"), node.info("replication")
    persistence = node.info("persistence")
    appends = str(persistence.get("aof_enabled")) == "1"
    fsync = str(node.config_get("appendfsync").get("appendfsync", "unknown"))
    minimum: Any = node.config_get("min-replicas-*")
    name = server.get("server_name", "redis")
    found = {
        "server": f"{name} {server.get(f'{name}_version', server.get('redis_version'))}",
        "append only file": "yes" if appends else "no",
        "fsync": fsync,
        # Since the store's start. Meanwhile acknowledged writes were only in its memory.
        "late disk writes": str(persistence.get("aof_delayed_fsync", 0)),
        # With min-replicas-to-write set, the server itself counts the replicas that keep up.
        "replicas": str(replication.get("min_slaves_good_slaves", replication["connected_slaves"])),
        REPLICAS_TO_WRITE: str(minimum.get("min-replicas-to-write", 0)),
    }
    if not appends:
        return "D0", found
    lag_s, replicas = int(minimum.get("min-replicas-max-lag", 0)), int(found[REPLICAS_TO_WRITE])
    if int(found["replicas"]) >= REPLICAS_MIN and replicas >= 1 and lag_s > 0:
        return "D3", found
    return ("D2" if fsync == "always" else "D1"), found
