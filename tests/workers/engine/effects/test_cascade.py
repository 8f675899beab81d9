"""An end is propagated to parents, to children, and to waiting records of other families."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest

from interlock.kernel.effect import CASCADE
from interlock.kernel.event import Cause
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import Record, RecordId, Version
from interlock.kernel.store import scripts
from interlock.kernel.store.commands import Call, NoteDraft, Warrant
from interlock.kernel.store.subscriptions import Subscriber
from interlock.workers.client import Client
from interlock.workers.engine.effect_ends import EffectRetriedError
from interlock.workers.engine.effects.cascade import advance
from interlock.workers.engine.effects.notification import fire_loss
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.work import EffectWork
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.systems import handlers
from tests.kernel.samples import job, thread
from tests.systems.threads.threads import CONSENT, client_of, step, thread_payload
from tests.waiting import until

WORKER = {"phases": [{"worker": {"command": "true"}}], "manual": True}


class Records:
    """Records in a store of the test's own, and a runner for their effects."""

    def __init__(self, client: Client) -> None:
        self.client, self.dispatch = client, client.dispatch
        self.runner = Runner(client.dispatch, Resources(client.settings))

    def show(self, record_id: str) -> Record:
        return self.client.show(record_id)

    def keys_of(self, record_id: str, name: str) -> list[str]:
        """Return the keys of a record's effects with this name."""
        record = self.show(record_id)
        return [entry.key(record.id) for entry in record.entries if entry.name == name]

    def perform(self, record_id: str, name: str) -> str:
        (key,) = self.keys_of(record_id, name)
        machine = MACHINES[self.show(record_id).machine]
        return self.runner.perform(machine, name, handlers()[f"{machine.name}.{name}"], key)

    def fire(self, record_id: str, trigger: str, payload: Any = None) -> None:
        seen = Warrant.person(self.show(record_id).entered)
        call = Call(Cause("ann"), uuid4().hex, seen)
        self.dispatch.lifecycle.fire(record_id, trigger, payload or {}, call)

    def create_job(self, record_id: str, *depends_on: str) -> str:
        """Create an active job that is subscribed to its dependencies."""
        self.dispatch.lifecycle.create(
            "job", record_id, {**WORKER, "depends_on": depends_on}, Cause("test")
        )
        self.fire(record_id, "activate")
        if depends_on:
            self.perform(record_id, "subscription")
        return record_id

    def end_job(self, record_id: str, trigger: str = "force_success") -> None:
        """End a job, and notify the jobs that wait for it."""
        self.fire(record_id, trigger, {"reason": "so it is"})
        self.perform(record_id, "notification")

    def split(self, record_id: str = "p") -> None:
        """Split a thread into two, which are not created yet."""
        self.client.submit(thread_payload(), machine="thread", id=record_id)
        for trigger, payload in CONSENT:
            step(self.client, record_id, trigger, payload)
        parts = [{"title": title} for title in ("one", "two")]
        self.fire(record_id, "decomposed", {"children": parts})

    def split_and_spawn(self, record_id: str = "p") -> list[str]:
        """Split a thread into two, create both, and return their ids."""
        self.split(record_id)
        self.perform(record_id, "spawn")
        return [str(child) for child in self.dispatch.views.children(record_id)]

    def recheck(self, record_id: str) -> str:
        """Recheck a countdown, as its timer does."""
        jot = NoteDraft("reminder", {}, owes=(CASCADE,))
        self.dispatch.lifecycle.note(self.show(record_id), jot, op_id=uuid4().hex)
        return self.perform(record_id, "cascade")


@pytest.fixture
def records(server: EmbeddedServer, prefix: str) -> Records:
    return Records(client_of(server.url, prefix))


@contextmanager
def newer(records: Records, record_id: str) -> Iterator[None]:
    """Let a record be one that a newer version of its table has written, in the block."""
    key = records.dispatch.keys.record(record_id)
    schema = records.show(record_id).schema
    scripts.read(records.dispatch.client, "HSET", key, "schema", schema + 1)
    yield
    scripts.read(records.dispatch.client, "HSET", key, "schema", schema)


def until_due(records: Records, record_id: str, name: str) -> None:
    """Wait until an effect that was given back may be claimed again."""
    entry = next(one for one in records.show(record_id).entries if one.name == name)
    until(lambda: records.dispatch.views.now_ms() >= entry.not_before, what=f"{name} is due")


def test_the_last_end_in_another_family_advances_a_job(records: Records) -> None:
    first, second = records.create_job("a/one"), records.create_job("b/two")
    record_id = records.create_job("c/waits", first, second)
    records.end_job(first)
    assert records.keys_of(record_id, "cascade") == []
    records.end_job(second)

    assert records.perform(record_id, "cascade") == "dependencies_met -> pending"
    assert records.show(record_id).data["met"]
    assert records.keys_of(record_id, "cascade") == []


def test_a_lasting_countdown_goes_on_in_other_states(records: Records) -> None:
    first = records.create_job("a/one")
    record_id = records.create_job("c/waits", first)
    records.fire(record_id, "suspend")
    records.end_job(first)

    assert records.perform(record_id, "cascade") == "dependencies_met -> suspended"
    assert records.show(record_id).data["met"]


def test_a_countdown_from_before_a_suspension_counts_and_the_later_one_changes_nothing(
    records: Records,
) -> None:
    first = records.create_job("a/one")
    record_id = records.create_job("c/waits", first)
    for trigger in ("suspend", "resume"):
        records.fire(record_id, trigger)
    records.perform(record_id, "subscription")
    records.end_job(first)
    before, after = sorted(records.keys_of(record_id, "cascade"))

    def perform(key: str) -> str:
        handler = handlers()["job.cascade"]
        return records.runner.perform(MACHINES["job"], "cascade", handler, key)

    assert perform(before) == "dependencies_met -> pending"
    version = records.show(record_id).version
    assert perform(after) == "settled"
    assert (records.show(record_id).version, records.keys_of(record_id, "cascade")) == (version, [])


@pytest.mark.parametrize("trigger", ["cancel", "force_success"])
def test_a_job_that_no_longer_waits_is_not_advanced(records: Records, trigger: str) -> None:
    first = records.create_job("a/one")
    record_id = records.create_job("c/waits", first)
    records.end_job(first)
    records.fire(record_id, trigger, {"reason": "so it is"})

    assert records.perform(record_id, "cascade") == "settled"
    assert not records.show(record_id).data["met"]


def test_a_countdown_with_a_loss_advances_no_job(records: Records) -> None:
    first = records.create_job("a/one")
    record_id = records.create_job("c/waits", first)
    records.end_job(first, "cancel")

    assert records.show(record_id).data["lost"] == {first: "canceled"}
    assert records.perform(record_id, "cascade") == "settled"
    assert not records.show(record_id).data["met"]


def test_a_loss_waits_for_a_worker_that_knows_the_table_of_the_job(records: Records) -> None:
    first = records.create_job("a/one")
    record_id = records.create_job("c/waits", first)
    with newer(records, record_id), pytest.raises(EffectRetriedError, match=r"waits \(owed\)"):
        records.end_job(first, "cancel")
    assert records.dispatch.views.counted(record_id, "dependencies:2") == {first}

    until_due(records, first, "notification")
    records.perform(first, "notification")

    assert records.show(record_id).data["lost"] == {first: "canceled"}


def test_the_last_child_advances_its_parent(records: Records) -> None:
    one, two = records.split_and_spawn()
    records.fire(one, "dismissed_by_user")
    assert records.keys_of("p", "cascade") == []
    records.fire(two, "dismissed_by_user")

    assert records.perform("p", "cascade") == "children_done -> done"


def test_a_parent_that_left_its_countdown_is_not_advanced_by_it(records: Records) -> None:
    for child in records.split_and_spawn():
        records.fire(child, "dismissed_by_user")
    (advance,) = records.keys_of("p", "cascade")
    records.fire("p", "dismissed_by_user")
    machine, handler = MACHINES["thread"], handlers()["thread.cascade"]

    assert records.runner.perform(machine, "cascade", handler, advance) == "settled"
    assert records.show("p").state == "dismissed"


def test_a_closed_parent_closes_its_children(records: Records) -> None:
    children = records.split_and_spawn()
    records.fire("p", "dismissed_by_user")
    assert records.perform("p", "cascade") == "settled"

    assert {records.show(child).state for child in children} == {"dismissed"}


def test_a_recheck_takes_out_ended_and_missing_children(records: Records) -> None:
    one, two = records.split_and_spawn()
    records.fire(one, "dismissed_by_user")
    countdown = f"children:{records.show('p').entered}"
    members = records.dispatch.keys.members("p", countdown)
    scripts.read(records.dispatch.client, "SADD", members, one, "p/never")
    records.fire(two, "dismissed_by_user")
    assert records.dispatch.views.counted("p", countdown) == {one, "p/never"}

    assert records.recheck("p") == "settled"
    assert records.dispatch.views.counted("p", countdown) == set()
    assert records.dispatch.views.tally("p", countdown) == {"dismissed": 3, "missing": 1}
    assert records.perform("p", "cascade") == "children_done -> done"


def test_a_recheck_leaves_a_countdown_open_that_is_still_being_filled(records: Records) -> None:
    records.split()
    countdown = f"children:{records.show('p').entered}"

    assert records.recheck("p") == "settled"
    assert records.dispatch.views.counted("p", countdown) == {"*"}


@pytest.mark.parametrize(
    ("machine", "state", "generation", "advances"),
    [
        ("thread", "monitoring", 7, True),
        ("thread", "monitoring", 5, False),
        ("thread", "done", 7, False),
        ("job", "pending", 5, True),
        ("job", "suspended", 7, True),
        ("job", "running", 7, False),
        ("job", "success", 7, False),
    ],
)
def test_an_end_counts_for_the_stay_that_began_its_countdown_unless_it_lasts(
    machine: str, state: str, generation: int, *, advances: bool
) -> None:
    name, data = {"thread": ("children", thread()), "job": ("dependencies", job())}[machine]
    record = Record(RecordId("p"), machine, state, Version(9), data, entered=Version(7))
    counts = SimpleNamespace(tally=lambda *_: {"done": 1} if machine == "thread" else {})
    work = SimpleNamespace(
        lease=SimpleNamespace(suffix=f"{generation}.advance.{name}:abc"),
        machine=MACHINES[machine],
        record=record,
        dispatch=SimpleNamespace(views=counts),
    )

    assert (advance(cast(EffectWork, work)) is not None) is advances


def test_a_recheck_leaves_live_children(records: Records) -> None:
    records.split_and_spawn()
    before = records.show("p").version

    assert records.recheck("p") == "settled"
    assert (records.show("p").state, records.show("p").version) == ("monitoring", before)
    assert records.keys_of("p", "cascade") == []


def test_a_loss_is_fired_by_the_trigger_of_the_machine_that_waits() -> None:
    fired: list[tuple[str, str]] = []
    dispatch = SimpleNamespace(
        lifecycle=SimpleNamespace(
            machine=MACHINES.__getitem__,
            fire=lambda record_id, trigger, *_: fired.append((record_id, trigger)),
        )
    )
    ended = Record(RecordId("t"), "thread", "dismissed", Version(3), thread())
    work = SimpleNamespace(
        record=ended, machine=MACHINES["thread"], key="t:3.0:abc", dispatch=dispatch
    )

    fire_loss(cast(EffectWork, work), Subscriber(RecordId("g/one"), "dependencies:2", "job", 5))
    assert fired == [("g/one", "dependency_lost")]
