"""What is read of many records at once: the same as one by one, bounded, on a cluster as well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interlock.kernel.errors import StoreDownError
from interlock.kernel.event import Event, Note
from interlock.kernel.record import PARTITIONS, partition_of
from interlock.kernel.store import views as views_module
from interlock.kernel.store.connect import open_store
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.state_reads import StateKey
from interlock.kernel.store.views import Views
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from tests.kernel.store.kernel_at_a_fixed_time import World
from tests.round_trips import round_trips
from tests.systems.tasks.claims import noted, same_partition, submitted
from tests.systems.threads.threads import client_of, thread_payload

IDS = [f"v{number}" for number in range(9)]
OPEN = "awaiting_intent_confirmation"


@pytest.fixture(params=["server", "cluster"])
def here(request: pytest.FixtureRequest, server: EmbeddedServer, prefix: str) -> Iterator[Client]:
    url, more = server.url, {}
    if request.param == "cluster":
        cluster: EmbeddedServer = request.getfixturevalue("cluster")
        url, more = f"redis+cluster://127.0.0.1:{cluster.port}", {"broker_url": server.url}
    client = client_of(url, prefix, **more)
    for of in IDS:
        client.submit(thread_payload(hold=True), machine="thread", id=of)
    yield client
    client.dispatch.client.close()


def test_many_records_are_what_each_is_alone(here: Client) -> None:
    views = here.dispatch.views

    found = views.records([*IDS, "missing", IDS[0]])

    assert found == {of: views.record(of) for of in IDS}


def test_the_end_of_a_log_is_read_from_its_end(here: Client) -> None:
    for number in range(5):
        noted(here, "v0", "progress", number=number)
    whole = here.history("v0")

    found = here.dispatch.views.latest(["v0", "missing"], 3)

    assert found == {"v0": whole[:-4:-1], "missing": []}
    kinds = {type(line) for line in here.dispatch.views.latest(["v0"], 100)["v0"]}
    assert kinds == {Event, Note}


def test_places_are_counted_and_listed_from_either_end(here: Client) -> None:
    views = here.dispatch.views
    places = [StateKey("thread", "proposed", partition) for partition in range(PARTITIONS)]
    mine = StateKey("thread", "proposed", partition_of("v0"))

    count_in_states = views.count_in_states(places)

    assert sum(count_in_states.values()) == len(IDS)
    assert all(count_in_states.values()), "empty places are left out"
    oldest, newest = (
        views.list_in_states({mine: 10})[mine],
        views.list_in_states({mine: 10}, newest=True),
    )
    assert [one.id for one in oldest] == [one.id for one in reversed(newest[mine])]
    assert [len(page) for page in views.list_in_states({mine: 1}).values()] == [1]


def test_states_are_read_over_all_partitions_and_of_one_family(here: Client) -> None:
    views, state, empty = here.dispatch.views, ("thread", "proposed"), ("thread", "done")

    found = views.in_states({state: 2, empty: 2})
    newest = views.in_states({state: 2}, newest=[state])[state]
    family = views.in_states({state: 2}, root="v0")[state]
    (partition,) = {partition_of("v0")} & {*views.partitions("thread", ["proposed"])}
    machine = here.dispatch.lifecycle.machine("thread")
    there = [*views.ids(machine, partition=partition, states=["proposed"])]

    since = sorted(views.record(of).since_ms for of in IDS)
    assert (found[state].number, found[empty].number) == (len(IDS), 0)
    assert [row.since_ms for row in found[state].rows] == since[:2]
    assert [row.since_ms for row in newest.rows] == since[:-3:-1]
    assert ([row.id for row in family.rows], family.number, family.is_minimum) == (["v0"], 1, False)
    assert sorted(there) == sorted(of for of in IDS if partition_of(of) == partition)


@pytest.mark.parametrize("others", [3, 5_000])
def test_the_partitions_share_the_limit_of_a_state(
    here: Client, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    views, state = here.dispatch.views, ("thread", "proposed")
    places = [StateKey(*state, partition) for partition in range(PARTITIONS)]
    numbers = {places[0]: 5_000, **dict.fromkeys(places[1:], others)}
    monkeypatch.setattr(views, "count_in_states", lambda _: numbers)
    read: dict[StateKey, int] = {}
    monkeypatch.setattr(views, "list_in_states", lambda limits, **_: read.update(limits) or {})

    views.in_states({state: 1_000})
    of_many = dict(read)
    views.in_states({state: 1})

    assert sum(of_many.values()) == 2_000
    assert min(of_many.values()) == min(others, 31), "all of a place where there are few"
    assert set(read.values()) == {1}, "the one that is the longest there is in any of them"


def test_the_ids_of_a_root_are_found_behind_pages_of_another(
    here: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views_module, "PAGE", 2)
    views, machine, root = here.dispatch.views, here.machines["task"], same_partition("b")
    many = [submitted(here, f"b/{number}") for number in range(5)]
    ours = [submitted(here, f"{root}/{number}") for number in range(3)]
    here.cancel(ours[0])

    assert list(views.ids(machine, root=root)) == [*ours[1:], ours[0]]
    assert list(views.ids(machine, root="b", states=["open"])) == many
    assert list(views.ids(machine, root="b", states=["open"], newest=True)) == many[::-1]
    assert list(views.ids(machine, root=root, states=["cancelled", "open"])) == ours
    assert sorted(views.ids(machine)) == sorted(many + ours)
    assert [one.id for one in views.each_record([*ours, "missing"])] == ours


def test_what_is_below_records_is_found_by_name(here: Client) -> None:
    views, below = here.dispatch.views, [submitted(here, f"b/{number}") for number in (1, 10, 2)]
    submitted(here, "b-2/1")

    found = views.below(["b", "b-2", "b/1", "missing"])

    assert found == {"b": below, "b-2": ["b-2/1"], "b/1": [], "missing": []}
    assert views.below(["b"], limit=2) == {"b": below[:2]}


def test_a_record_that_moves_to_a_state_that_was_read_already_is_found_once(here: Client) -> None:
    first, second = submitted(here, "b/first"), submitted(here, "b/second")
    here.cancel(first)
    found = here.dispatch.views.ids(here.machines["task"], root="b", states=["cancelled", "open"])

    assert next(found) == first
    here.cancel(second)

    assert list(found) == [second]


def test_who_waits_for_a_person_is_counted_beyond_the_limit(here: Client) -> None:
    indexes, partition = here.dispatch.indexes, partition_of("v0")
    waiting = [of for of in IDS if partition_of(of) == partition]

    number, found = indexes.waits(range(PARTITIONS), 1)

    assert number == len(IDS)
    assert len(found) == len({partition_of(of) for of in IDS})
    assert indexes.waits([partition], 100)[0] == len(waiting)
    assert [at for _, at in found] == sorted(at for _, at in found)


def test_nothing_is_asked_for_nothing(here: Client) -> None:
    views, indexes = here.dispatch.views, here.dispatch.indexes

    assert (views.records([]), views.latest([], 5), indexes.waits([], 5)) == ({}, {}, (0, []))


def test_a_store_that_is_away_is_said() -> None:
    away = Views(open_store("redis://127.0.0.1:1/0"), Keys("away"))

    with pytest.raises(StoreDownError):
        away.records(["one"])


def test_only_states_with_records_are_counted(world: World) -> None:
    world.create("r")
    places = [StateKey("life", state, world.partition()) for state in ("working", "idle")]

    assert world.views.count_in_states(places) == {places[1]: 1}


def test_ids_take_as_many_round_trips_for_many_records_as_for_one(world: World) -> None:
    views, machine = world.views, world.lifecycle.machine("life")
    trips = []
    for number in range(9):
        world.create(f"r{number}")
        with round_trips() as for_ids:
            assert len([*views.ids(machine)]) == number + 1
        with round_trips() as for_below:
            views.below(f"r{n}" for n in range(number + 1))
        trips.append((for_ids(), for_below()))
    assert trips[-1] == trips[1] == (4, 1)
