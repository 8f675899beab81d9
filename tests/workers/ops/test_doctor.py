"""Every corruption of a store is found, and the reported level of durability is the real one."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import redis

from interlock.kernel.errors import StoreDownError
from interlock.kernel.event import Cause
from interlock.kernel.record import partition_of
from interlock.kernel.store.codec import digest, encode
from interlock.kernel.store.commands import Call, InitialLease, Warrant
from interlock.workers.client import Client
from interlock.workers.config import Settings, read_settings
from interlock.workers.gateways.server import EmbeddedServer, free_port
from interlock.workers.ops.doctor import (
    asks_password,
    diagnose,
    durability,
    left_out,
    unloaded_proposals,
)
from interlock.workers.ops.verify import verify_all
from tests.kernel.samples import RUN_BIRTH
from tests.systems.threads.threads import bring, client_of
from tests.waiting import until

NewServer = Callable[..., EmbeddedServer]
STATES = ("awaiting_confirmation", "awaiting_review", "awaiting_redirect", "awaiting_inference")
# A store waits 5 s for more replicas before it sends its data to the first one.
AT_ONCE = {"repl-diskless-sync-delay": "0"}


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


def test_a_card_whose_capability_is_not_loaded_is_named(interlock: Client) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    without = interlock.settings.model_copy(update={"capabilities": None})

    found = unloaded_proposals(Client(without).dispatch)

    assert list(found) == ["jot"]
    assert "proposed by the card of one: approved, it fails" in found["jot"]
    assert unloaded_proposals(interlock.dispatch) == {}


def test_a_sound_store_has_no_fault(interlock: Client) -> None:
    for state in STATES:
        bring(interlock, state.replace("_", "-"), state)
    record = bring(interlock, "over", "awaiting_confirmation")
    interlock.decide("over", "reject", proposal=record.proposal)
    bring(interlock, "paused", "awaiting_inference")
    interlock.pause("paused")

    report = verify_all(interlock.dispatch, None)

    assert report["faults"] == []
    assert report["records"] == len(STATES) + 2
    assert report["transitions"] == sum(
        interlock.show(row.id).version for row in interlock.list(machine="thread")
    )


Log = list[tuple[str, dict[str, str]]]
Change = Callable[[Log], object]


def events(log: Log) -> list[int]:
    """Return the positions of the events in a log."""
    return [index for index, (_, fields) in enumerate(log) if "event" in fields]


def dropped(nth: int) -> Change:
    """Return a change that deletes an event."""

    def change(log: Log) -> None:
        del log[events(log)[nth]]

    return change


def doubled(nth: int) -> Change:
    """Return a change that appends a copy of an event."""

    def change(log: Log) -> None:
        log.append(("99-0", dict(log[events(log)[nth]][1])))

    return change


def rewritten(nth: int, edit: Callable[[dict[str, Any]], object]) -> Change:
    """Return a change that edits an event."""

    def change(log: Log) -> None:
        fields = log[events(log)[nth]][1]
        event = json.loads(fields["event"])
        edit(event)
        fields["event"] = json.dumps(event)

    return change


def swapped(first: int, second: int) -> Change:
    """Return a change that swaps two events."""

    def change(log: Log) -> None:
        a, b = events(log)[first], events(log)[second]
        log[a], log[b] = (log[a][0], log[b][1]), (log[b][0], log[a][1])

    return change


def put(name: str, value: Any) -> Callable[[dict[str, Any]], object]:
    """Return an edit that sets a field of an event."""
    return lambda event: event.update({name: value})


def put_into_payload(name: str, value: Any) -> Callable[[dict[str, Any]], object]:
    """Return an edit that sets a field of an event's payload."""
    return lambda event: event["payload"].update({name: value})


def intent(event: dict[str, Any]) -> None:
    """Change the proposed intent, and the hash with it."""
    event["payload"]["proposal"]["payload"]["intent"] = "something else"
    event["hash"] = digest(encode({}, "it"))


def confidence(event: dict[str, Any]) -> None:
    """Change the model's confidence."""
    event["payload"]["proposal"]["confidence"] = 1.0


def without(name: str) -> Callable[[dict[str, Any]], object]:
    """Return an edit that removes a field of an event."""
    return lambda event: event.pop(name)


# The log of a thread in awaiting_confirmation: created, begun, then per phase started, done,
# confirmed; the last is the proposed action.
LAST = 9
CORRUPTIONS: dict[str, Change] = {
    **{f"event {n} is lost": dropped(n) for n in range(LAST + 1)},
    **{f"event {n} is doubled": doubled(n) for n in range(LAST + 1)},
    **{f"events {n} and {n + 1} are swapped": swapped(n, n + 1) for n in range(LAST)},
    **{f"the hash of event {n} is another": rewritten(n, put("hash", "0" * 16)) for n in range(5)},
    **{f"event {n} comes from elsewhere": rewritten(n, put("from", "done")) for n in (1, 4, LAST)},
    **{f"event {n} leads elsewhere": rewritten(n, put("to", "done")) for n in (0, 1, 4, LAST)},
    **{f"event {n} is another": rewritten(n, put("trigger", "timeout")) for n in (0, 1, 4, LAST)},
    "no such trigger": rewritten(1, put("trigger", "exploded")),
    "no trigger at all": rewritten(1, without("trigger")),
    "no payload": rewritten(3, put("payload", {})),
    "another birth": rewritten(0, put_into_payload("hold", "yes")),
    "another title": rewritten(0, put_into_payload("inciting", {"title": "Pens"})),
    "another policy": rewritten(0, put_into_payload("policy", {})),
    "another intent": rewritten(3, intent),
    "another confidence": rewritten(3, confidence),
    "uncounted money": rewritten(3, put("deltas", {"spent_micro": 5})),
    "no JSON": lambda log: log[events(log)[2]][1].update({"event": "{"}),
    "no event": lambda log: log[events(log)[2]][1].pop("event"),
    "no time": lambda log: log[events(log)[2]][1].pop("at"),
    "nothing at all": lambda log: log.clear(),
}
Edit = Callable[[redis.Redis, Client], object]


def field(name: str, value: str) -> Edit:
    """Return an edit of a field of the stored record."""
    return lambda store, interlock: store.hset(interlock.dispatch.keys.record("one"), name, value)


def unlist(index: str) -> Edit:
    """Return an edit that removes the record's members from an index."""

    def edit(store: redis.Redis, interlock: Client) -> None:
        index_key = getattr(interlock.dispatch.keys, index)(partition_of("one"))
        members: Any = store.zrange(index_key, 0, -1)
        mine = [m for m in members if m.partition(b":")[0] == b"one"]
        assert mine
        store.zrem(index_key, *mine)

    return edit


def remove_from_state_index(store: redis.Redis, interlock: Client) -> None:
    """Remove the record from the index of its state."""
    store.zrem(
        interlock.dispatch.keys.state_index("one", "thread", interlock.show("one").state), "one"
    )


def remove_from_creation_index(store: redis.Redis, interlock: Client) -> None:
    """Remove the record from the list of records by creation."""
    store.zrem(interlock.dispatch.keys.creation_index(partition_of("one"), "thread"), "one")


def remove_from_search_index(store: redis.Redis, interlock: Client) -> None:
    """Remove the id of the record from what a search looks at."""
    store.zrem(interlock.dispatch.keys.search_index(partition_of("one")), "=one")


def delete_fields(prefix: str) -> Edit:
    """Return an edit that deletes the record's effects or timers."""

    def edit(store: redis.Redis, interlock: Client) -> None:
        name = interlock.dispatch.keys.record("one")
        names: Any = store.hkeys(name)
        mine = [field_name for field_name in names if field_name.startswith(prefix.encode())]
        assert mine
        store.hdel(name, *mine)

    return edit


EDITS: dict[str, tuple[str, Edit]] = {
    "another state": ("awaiting_confirmation", field("state", "executing")),
    "no such state": ("awaiting_confirmation", field("state", "asleep")),
    "an older version": ("awaiting_confirmation", field("version", "9")),
    "a newer version": ("awaiting_confirmation", field("version", "11")),
    "no version": ("awaiting_confirmation", field("version", "ten")),
    "other data": ("awaiting_confirmation", field("data", '{"target": "action"}')),
    "torn data": ("awaiting_confirmation", field("data", "{")),
    "another machine": ("awaiting_confirmation", field("machine", "washing")),
    "a torn effect": ("awaiting_inference", field("e:2.0:x", "inference state")),
    "a second effect": (
        "awaiting_inference",
        lambda store, interlock: store.hset(
            interlock.dispatch.keys.record("one"),
            "e:2.1:x",
            entry_line(store, interlock),
        ),
    ),
    "no effect": ("awaiting_inference", delete_fields("e:")),
    "no timer": ("awaiting_confirmation", delete_fields("t:")),
    "money in no event": (
        "awaiting_confirmation",
        lambda store, interlock: store.hincrby(
            interlock.dispatch.keys.counters("one"), "spent_micro", 5
        ),
    ),
    "an effect in no index": ("awaiting_inference", unlist("effects")),
    "a timer in no index": ("awaiting_confirmation", unlist("timers")),
    "a card in no list": ("awaiting_confirmation", unlist("waits")),
    "a record in no list": ("awaiting_confirmation", remove_from_state_index),
    "a record in no list by creation": ("awaiting_confirmation", remove_from_creation_index),
    "a record that no search finds": ("awaiting_confirmation", remove_from_search_index),
    "another title": ("awaiting_confirmation", field("title", "another")),
    "an end that is no end": ("awaiting_confirmation", field("ended", "1")),
}


def stray(index: str, member: str) -> Edit:
    """Return an edit that adds a member to an index of the record's partition."""

    def edit(store: redis.Redis, interlock: Client) -> None:
        store.zadd(getattr(interlock.dispatch.keys, index)(partition_of("one")), {member: 1})

    return edit


def cut_feed(nth: int) -> Edit:
    """Return an edit that deletes one line of the record from the feed of its partition."""

    def edit(store: redis.Redis, interlock: Client) -> None:
        feed = interlock.dispatch.keys.feed(partition_of("one"))
        places: Any = store.xrange(feed)
        mine = [place for place, fields in places if fields[b"record"] == b"one"]
        store.xdel(feed, mine[nth])

    return edit


DEFECTS: dict[str, tuple[Edit, str]] = {
    "a record in no list by state": (remove_from_state_index, "is missing in"),
    "an effect of nobody": (stray("effects", "one:9.0:x"), "one:9.0:x is in"),
    "an effect of no record": (stray("effects", "none:1.0:x"), "no record has it there"),
    "a timer of nobody": (stray("timers", "one:nap"), "one:nap is in"),
    "a card of nobody": (stray("waits", "none"), "none is in"),
    "a name of nobody": (stray("search_index", "=none"), "=none is in"),
    "a line that the feed lacks": (cut_feed(3), "one: the feed goes from version 3 to 5"),
    "an end that the feed lacks": (cut_feed(-1), "one: the feed ends at version"),
}


def entry_line(store: redis.Redis, interlock: Client) -> str:
    """Return the stored line of the record's effect."""
    fields: Any = store.hgetall(interlock.dispatch.keys.record("one"))
    return str(next(v for k, v in fields.items() if k.startswith(b"e:")).decode())


def test_a_corrupted_log_is_found(interlock: Client, client: redis.Redis) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    assert verify_all(interlock.dispatch, ["one"])["faults"] == []
    log_key = interlock.dispatch.keys.log("one")
    rows: Any = client.xrange(log_key)
    log: Log = [
        (entry.decode(), {k.decode(): v.decode() for k, v in row.items()}) for entry, row in rows
    ]
    assert len(events(log)) == LAST + 1

    for name, corrupt in CORRUPTIONS.items():
        corrupted = deepcopy(log)
        corrupt(corrupted)
        client.delete(log_key)
        for position, row in corrupted:
            fields: Any = row
            client.xadd(log_key, fields, id=position)
        assert verify_all(interlock.dispatch, ["one"])["faults"], name


@pytest.mark.parametrize("name", EDITS)
def test_a_corrupted_record_is_found(interlock: Client, client: redis.Redis, name: str) -> None:
    state, edit = EDITS[name]
    bring(interlock, "one", state)
    assert verify_all(interlock.dispatch, ["one"])["faults"] == []

    edit(client, interlock)

    faults = verify_all(interlock.dispatch, ["one"])["faults"]
    assert faults
    assert all(fault.startswith("one: ") for fault in faults)


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_of_an_index_or_a_feed_is_found(
    interlock: Client, client: redis.Redis, name: str
) -> None:
    edit, fault = DEFECTS[name]
    bring(interlock, "one", "awaiting_confirmation")
    assert verify_all(interlock.dispatch, None)["faults"] == []

    edit(client, interlock)

    [found] = verify_all(interlock.dispatch, None)["faults"]
    assert fault in found


def test_a_slot_and_a_name_that_an_ended_record_keeps_are_found(
    interlock: Client, client: redis.Redis
) -> None:
    keys = interlock.dispatch.keys
    bring(interlock, "one", "awaiting_confirmation")
    interlock.cancel("one")
    kept = {keys.slots("queue:q"): {"one": 1}, keys.holds("one"): {"merge": "one"}}
    client.zadd(keys.slots("queue:q"), {"one": 1})
    client.hset(keys.holds("one"), "merge", "one")
    assert verify_all(interlock.dispatch, None)["faults"] == [], "it still owes an effect"

    unlist("effects")(client, interlock)
    delete_fields("e:")(client, interlock)

    ended = "one: it is dismissed and still in {}"
    assert verify_all(interlock.dispatch, None)["faults"] == [ended.format(key) for key in kept]


def codon_with_cost(interlock: Client) -> str:
    """Create a codon that has cost something, and return its id."""
    lifecycle, cause, codon = interlock.dispatch.lifecycle, Cause("tester"), "data/1/1"
    lifecycle.create("workspace", "data", {"folder": "/data"}, cause)
    lifecycle.create("run", "data/1", RUN_BIRTH, cause)
    held = InitialLease("n", "here", 60_000)
    lifecycle.create("codon", codon, {"codon_id": "clean"}, cause, initial_lease=held)
    for trigger, payload in (
        ("start", {}),
        ("initialize", {"pid": 7, "log_path": "l"}),
        ("run", {"session_id": "s"}),
        ("costs_updated", {"cost": 500}),
    ):
        call = Call(cause, warrant=Warrant.component("events"))
        lifecycle.fire(codon, trigger, payload, call)
    return codon


def test_a_cost_that_does_not_follow_from_the_data_is_found(
    interlock: Client, client: redis.Redis
) -> None:
    codon, keys = codon_with_cost(interlock), interlock.dispatch.keys
    assert verify_all(interlock.dispatch, None)["faults"] == []

    client.hincrby(keys.counters(codon), "cost", 5)
    fault = f"{codon}: cost mismatch: the counters are {{'cost': 505, 'spent': 500}}, "
    fault += "its data add up to {'cost': 500, 'spent': 500}"
    assert fault in verify_all(interlock.dispatch, None)["faults"]

    # It is found also where the log agrees with the counters.
    detail = json.dumps({"deltas": {"cost": 5}})
    client.xadd(keys.log(codon), {"note": "cost", "detail": detail, "at": "1"}, id="5-1")
    assert verify_all(interlock.dispatch, None)["faults"] == [fault]


def test_there_are_more_than_fifty_kinds_of_corruption() -> None:
    assert len(CORRUPTIONS) + len(EDITS) > 50


def test_a_fault_in_one_record_does_not_stop_the_check_of_others(
    interlock: Client, client: redis.Redis
) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    bring(interlock, "two", "awaiting_confirmation")
    client.hset(interlock.dispatch.keys.record("one"), "data", "{")

    report = verify_all(interlock.dispatch, None)

    assert report["records"] == 2
    assert len(report["faults"]) == 1
    assert verify_all(interlock.dispatch, ["nobody"])["faults"] == [
        "nobody: there is no record 'nobody'; it was never created or is pruned"
    ]


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        ({"appendonly": "no"}, "D0"),
        ({"appendonly": "yes", "appendfsync": "everysec"}, "D1"),
        ({"appendonly": "yes", "appendfsync": "no"}, "D1"),
        ({"appendonly": "yes", "appendfsync": "always"}, "D2"),
    ],
)
def test_the_level_follows_from_the_live_configuration(
    new_server: NewServer, settings: dict[str, str], level: str
) -> None:
    interlock = client_of(new_server(settings=settings).url, "il")

    found = diagnose(interlock.dispatch)

    assert found["level"] == level
    assert found["store"]["fsync"] == settings.get("appendfsync", "everysec")
    assert found["store"]["late disk writes"] == "0"
    assert found["enqueue"] == "fused"


@pytest.mark.parametrize(("minimum", "level"), [("1", "D3"), ("0", "D1")])
def test_replicas_raise_the_level_only_if_a_write_must_reach_one(
    new_server: NewServer, minimum: str, level: str
) -> None:
    primary = new_server(settings={**AT_ONCE, "min-replicas-to-write": minimum})
    for _ in range(2):
        new_server(settings={"replicaof": f"127.0.0.1 {primary.port}"})
    interlock = client_of(primary.url, "il")
    until(lambda: diagnose(interlock.dispatch)["store"]["replicas"] == "2", what="both follow")

    assert diagnose(interlock.dispatch)["level"] == level


def test_one_replica_is_too_few_for_level_d3(new_server: NewServer) -> None:
    primary = new_server(settings={**AT_ONCE, "min-replicas-to-write": "1"})
    new_server(settings={"replicaof": f"127.0.0.1 {primary.port}"})
    interlock = client_of(primary.url, "il")
    until(lambda: diagnose(interlock.dispatch)["store"]["replicas"] == "1", what="it follows")

    assert diagnose(interlock.dispatch)["level"] == "D1"


def test_the_level_of_a_cluster_is_read_from_its_nodes(cluster: EmbeddedServer) -> None:
    settings = {"INTERLOCK_STORE_URL": f"redis+cluster://127.0.0.1:{cluster.port}"}
    broker = {"INTERLOCK_BROKER_URL": f"redis://127.0.0.1:{cluster.port}/0"}

    level, facts = durability(Client(read_settings({**settings, **broker})).dispatch)

    assert (level, facts["topology"], facts["fsync"]) == ("D1", "cluster of 1", "everysec")


def test_the_diagnosis_counts_waiting_records_and_rejected_messages(interlock: Client) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    interlock.dispatch.rejected.put("unknown task", "nobody knows it", "x")

    found = diagnose(interlock.dispatch)

    assert found["machines"]["thread"] == {"awaiting_confirmation": 1}
    assert found["rejected"] == {"unknown task": 1}
    assert found["depths"]["waits"] == 1
    assert found["depths"]["timers"] >= 1


def test_a_store_that_is_down_is_a_typed_error() -> None:
    interlock = client_of(f"redis://127.0.0.1:{free_port()}/0", "il")

    with pytest.raises(StoreDownError):
        diagnose(interlock.dispatch)
    with pytest.raises(StoreDownError):
        verify_all(interlock.dispatch, None)


def test_capabilities_that_cannot_be_loaded_are_named_with_the_reason() -> None:
    assert left_out(Settings()) == {}
    missing = left_out(Settings(capabilities="no_such_module"))
    assert "there is no 'no_such_module' to import" in missing["all"]


def test_the_level_of_the_sandbox_of_each_computer_is_told(interlock: Client) -> None:
    for host, facts in {"a": {"sandbox": True}, "b": {"sandbox": False}, "c": {}}.items():
        interlock.dispatch.hosts.announce(host, facts)

    assert diagnose(interlock.dispatch)["sandboxes"] == {"a": "bubblewrap", "b": "none"}


@pytest.mark.parametrize(
    ("url", "asks"),
    [
        ("redis://10.0.0.1:6379/0", False),
        ("redis://:secret@10.0.0.1:6379/0", True),
        ("rediss://worker:secret@10.0.0.1:6379/0", True),
        ("unix:///srv/store.sock?db=0", True),
    ],
)
def test_a_store_that_agents_can_use_without_a_secret_is_told(url: str, *, asks: bool) -> None:
    assert asks_password(Settings(store_url=url)) is asks
