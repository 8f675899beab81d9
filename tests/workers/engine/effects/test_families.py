"""A parent and its children are of two machines: what the effects of either do to the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from interlock.kernel.effect import CASCADE
from interlock.kernel.event import Cause, Event, Note
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import Record
from interlock.kernel.store import redis
from interlock.kernel.store.commands import Call, NoteDraft
from interlock.kernel.store.leases import Lease
from interlock.workers.client import Client
from interlock.workers.engine.effects import HANDLERS
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.system import SystemsError
from interlock.workers.engine.work import EffectWork
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.systems import check_families
from tests.kernel.store.machines_families import ORDER, PART
from tests.known_systems import know_machines
from tests.workers.engine.running import perform, settings_for


class Orders:
    """Orders and their parts in a store of the test's own, and a runner for their effects."""

    def __init__(self, url: str, prefix: str) -> None:
        settings = settings_for(url, prefix)
        self.client = Client(settings, actor="ann")
        self.dispatch = self.client.dispatch
        self.runner = Runner(self.dispatch, Resources(settings))

    def show(self, record_id: str = "r") -> Record:
        return self.client.show(record_id)

    def fire(self, record_id: str, trigger: str, payload: Any = None) -> None:
        self.dispatch.lifecycle.fire(
            record_id, trigger, payload or {}, Call(Cause("ann"), uuid4().hex)
        )

    def split(self, *parts: Any, **data: Any) -> None:
        """Create an order and split it; its parts are not created yet."""
        payload = {"name": "chair", "parts": [*parts], **data}
        self.dispatch.lifecycle.create("order", "r", payload, Cause("ann"))
        self.fire("r", "split")

    def spawned(self, *parts: Any, **data: Any) -> list[str]:
        """Create an order with its parts, and return the ids of these."""
        self.split(*parts, **data)
        assert self.perform("r", "spawn") == ["settled"]
        return [str(child) for child in self.dispatch.views.children("r")]

    def perform(self, record_id: str, name: str) -> list[str]:
        """Perform each effect of this name that a record owes, once."""
        record = self.show(record_id)
        machine, handler = MACHINES[record.machine], HANDLERS[name]
        keys = [entry.key(record.id) for entry in record.entries if entry.name == name]
        return [perform(self.runner, machine, name, handler, key) for key in keys]

    def entries(self, record_id: str, name: str) -> list[str]:
        """Return the state of each effect of this name that a record owes."""
        return [entry.state for entry in self.show(record_id).entries if entry.name == name]

    def states(self, *ids: str) -> list[str]:
        return [self.show(one).state for one in ids]

    def counts(self, record_id: str, trigger: str) -> int:
        """Return how often a trigger changed a record."""
        lines = self.client.history(record_id)
        return sum(getattr(line, "trigger", "") == trigger for line in lines)


@pytest.fixture
def orders(server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Orders:
    know_machines(monkeypatch, order=lambda: ORDER, part=lambda: PART)
    return Orders(server.url, prefix)


def test_the_last_child_of_another_machine_advances_its_parent(orders: Orders) -> None:
    one, two = orders.spawned("leg", "seat")
    assert [orders.show(each).data["part"] for each in (one, two)] == ["leg", "seat"]
    caps = orders.show(one).counters
    assert (caps["cap.tokens"], caps["cap.calls"]) == (7, 3), "what its parent says goes first"
    orders.fire(two, "made")
    assert orders.perform("r", "cascade") == []
    orders.fire(one, "made")

    assert orders.perform("r", "cascade") == ["all_in -> sent"]
    assert orders.show().data["tally"] == {"made": 2}


def test_the_children_are_read_in_their_order_to_work_with_what_they_did(orders: Orders) -> None:
    ids = orders.spawned(*range(12))
    for one in ids:
        orders.fire(one, "made")
    (entry,) = orders.show().entries
    effect = orders.dispatch.effect("order", "cascade")
    lease = orders.dispatch.leases.claim(entry.key("r"), effect, nonce="n", holder="here", schema=1)
    assert isinstance(lease, Lease)
    work = EffectWork(orders.dispatch, orders.runner.resources, lease, asked_at=0)

    assert [child.data["part"] for child in work.children("parts")] == [*range(12)]
    assert work.children("checks") == []


def test_a_change_of_the_data_changes_no_child_that_is_created_later(orders: Orders) -> None:
    orders.split("leg", "seat")
    orders.fire("r", "change", {"parts": ["another"]})
    orders.perform("r", "spawn")

    children = [orders.show(child) for child in orders.dispatch.views.children("r")]
    assert [child.data for child in children] == [
        {"of": "chair", "part": part, "one_of": 2} for part in ("leg", "seat")
    ]


def test_children_that_an_earlier_version_has_listed_in_the_data_alone_are_created(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(redis, "children_plan", lambda _: {})
        orders.split("leg", "seat")

    assert orders.perform("r", "spawn") == ["settled"]
    children = [orders.show(child) for child in orders.dispatch.views.children("r")]
    assert [child.data["part"] for child in children] == ["leg", "seat"]


def test_a_parent_that_ends_closes_each_child_by_the_childs_own_trigger(orders: Orders) -> None:
    ids = orders.spawned("leg", "seat", "back")
    orders.fire(ids[0], "made")
    orders.fire("r", "cancel")

    assert orders.perform("r", "cascade") == ["settled"]
    assert orders.states(*ids) == ["made", "broken", "broken"]
    assert [orders.counts(one, "close") for one in ids] == [0, 1, 1]
    *_, event = (line for line in orders.client.history(ids[1]) if isinstance(line, Event))
    assert (event.trigger, event.cause.reason) == ("close", "its parent r is failed")
    assert orders.show(ids[1]).entries == (), "the loss is no news to a parent that closes it"


def test_a_child_that_refuses_to_be_closed_is_asked_again_after_the_others(
    orders: Orders,
) -> None:
    ids = orders.spawned("leg", "seat")
    orders.fire(ids[0], "sure")
    orders.fire("r", "cancel")

    (said,) = orders.perform("r", "cascade")
    assert "it cannot be stopped now" in said
    assert said.startswith("retry:")
    assert orders.states(*ids) == ["sure", "broken"]
    assert orders.entries("r", "cascade") == ["owed"]


def test_a_parent_that_goes_on_without_its_children_closes_them_and_creates_no_more(
    orders: Orders,
) -> None:
    ids = orders.spawned("leg", "seat")
    orders.fire("r", "mend")
    assert orders.perform("r", "cascade") == ["settled"]
    assert orders.states("r", *ids) == ["mending", "broken", "broken"]
    assert orders.counts("r", "lost") == 0

    orders.fire("r", "split")
    orders.fire("r", "mend")
    orders.perform("r", "cascade")
    assert orders.dispatch.views.counted("r", "parts:6") == set()
    assert orders.perform("r", "spawn") == ["settled"]
    assert len(orders.dispatch.views.children("r")) == len(ids), "no child was created any more"
    assert set(orders.perform("r", "cascade")) == {"settled"}
    assert orders.show().state == "mending"


def test_children_that_were_listed_after_the_wait_was_left_are_not_closed(orders: Orders) -> None:
    old = orders.spawned("leg")
    orders.fire("r", "mend")
    orders.fire("r", "split")
    orders.perform("r", "spawn")
    (new,) = [one for one in orders.dispatch.views.children("r") if one not in old]
    orders.perform("r", "cascade")

    assert orders.states(*old, new) == ["broken", "making"]
    orders.fire(new, "made")
    assert set(orders.perform("r", "cascade")) >= {"all_in -> sent"}


def test_children_that_are_created_after_the_wait_was_left_are_not_kept_from_it(
    orders: Orders,
) -> None:
    orders.split("leg", "seat")
    orders.fire("r", "mend")
    orders.fire("r", "split")
    assert orders.perform("r", "cascade") == ["settled"]

    assert orders.perform("r", "spawn") == ["settled", "settled"]
    children = orders.dispatch.views.children("r")
    assert children == ["r/4.1", "r/4.2"]
    assert orders.states(*children) == ["making", "making"]


def test_a_child_of_an_earlier_wait_is_no_loss_to_a_later_one(orders: Orders) -> None:
    (old,) = orders.spawned("leg", strict=True)
    orders.fire("r", "mend")
    orders.fire("r", "split")
    orders.fire(old, "break")

    assert orders.perform(old, "cascade") == ["settled"]
    assert (orders.show().state, orders.counts("r", "lost")) == ("parting", 0)


@pytest.mark.parametrize("act", ["remind", "change", "lose"])
def test_what_leaves_a_parent_waiting_closes_no_children(orders: Orders, act: str) -> None:
    one, two = orders.spawned("leg", "seat")
    if act == "change":
        orders.fire("r", "change", {"parts": []})
    elif act == "lose":
        orders.fire(one, "break")
        orders.perform(one, "cascade")
    if act != "change":
        again = NoteDraft("reminder", {}, owes=(CASCADE,))
        orders.dispatch.lifecycle.note(orders.show(), again, op_id="again")

    assert orders.perform("r", "cascade") == ["settled"]
    assert orders.states("r", two) == ["parting", "making"]


def test_a_child_that_is_lost_ends_its_family_at_once(orders: Orders) -> None:
    ids = orders.spawned("leg", "seat", "back", strict=True)
    orders.fire(ids[1], "break")

    assert orders.perform(ids[1], "cascade") == ["settled"]
    assert orders.show().state == "failed"
    assert orders.show().data["lost"] == [ids[1]]
    assert orders.perform("r", "cascade") == ["settled"]
    assert orders.states(*ids) == ["broken", "broken", "broken"]


def test_a_parent_may_note_the_loss_of_a_child_and_wait_for_the_others(orders: Orders) -> None:
    one, two = orders.spawned("leg", "seat")
    orders.fire(one, "break")
    orders.perform(one, "cascade")
    assert (orders.show().state, orders.show().data["lost"]) == ("parting", [one])
    orders.fire(two, "made")

    assert orders.perform("r", "cascade") == ["all_in -> sent"]
    assert orders.show().data["tally"] == {"broken": 1, "made": 1}


@pytest.mark.parametrize(("strict", "state"), [(True, "failed"), (False, "sent")])
def test_the_loss_of_the_last_child_is_known_before_the_family_ends(
    orders: Orders, *, strict: bool, state: str
) -> None:
    one, two = orders.spawned("leg", "seat", strict=strict)
    orders.fire(one, "made")
    orders.fire(two, "break")
    orders.perform("r", "cascade")
    assert (orders.show().state, orders.show().data["lost"]) == (state, [two])

    assert orders.perform(two, "cascade") == ["settled"], "its own report comes too late"
    assert orders.counts("r", "lost") == 1


def test_a_report_that_comes_twice_counts_once(orders: Orders) -> None:
    one, _ = orders.spawned("leg", "seat")
    orders.fire(one, "break")
    again = NoteDraft("reminder", {}, owes=(CASCADE,))
    orders.dispatch.lifecycle.note(orders.show(one), again, op_id="again")

    assert orders.perform(one, "cascade") == ["settled", "settled"]
    assert orders.counts("r", "lost") == 1


def test_a_report_that_the_parent_refuses_is_noted_at_the_child(orders: Orders) -> None:
    one, _ = orders.spawned("leg", "seat", deaf=True)
    orders.fire(one, "break")

    assert orders.perform(one, "cascade") == ["settled"]
    *_, note = (line for line in orders.client.history(one) if isinstance(line, Note))
    assert (note.kind, note.detail["child"]) == ("loss_refused", one)
    assert "it does not want to know" in note.detail["why"]


def test_the_start_of_a_worker_refuses_children_of_a_machine_that_cannot_have_a_parent() -> None:
    with pytest.raises(SystemsError, match="order: its parts are of part, which is no machine"):
        check_families({"order": ORDER})
    open_ended = replace(PART, close_trigger="")
    with pytest.raises(SystemsError, match="part, which names no close_trigger: they would go on"):
        check_families({"order": ORDER, "part": open_ended})
    check_families({"order": ORDER, "part": PART})
