"""Who may fire a row is part of the table: no producer reports an outcome, no effect decides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from interlock.kernel.errors import GuardRefusedError
from interlock.kernel.event import Cause
from interlock.kernel.fired import Fired
from interlock.kernel.lifecycle import Lifecycle
from interlock.kernel.machine import Machine
from interlock.kernel.machines import LISTED, MACHINES
from interlock.kernel.record import Record, RecordId, Version
from interlock.kernel.store.commands import Call, Limits, Warrant
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.redis import Store
from interlock.systems.tasks.machines.turn.table import TURN

PERSONAL = {"producer", "person", "cascade"}
Fire = Callable[..., object]


@pytest.fixture
def lifecycle(client: redis.Redis, prefix: str) -> Lifecycle:
    return Lifecycle(
        Store(client, Keys(prefix), Limits()), MACHINES, lambda _: None, lambda _: None
    )


def thread(lifecycle: Lifecycle) -> Record:
    created = lifecycle.create(
        "thread", "one", {"inciting": {"title": "a"}, "policy": "end_to_end"}, Cause("test")
    )
    assert created.record is not None
    begun = lifecycle.fire(created.record, "begin_inference", {}, Call(Cause("test")))
    assert begun.record is not None
    return begun.record


@pytest.mark.parametrize("machine", LISTED.values(), ids=lambda machine: machine.name)
def test_every_row_names_its_actors_and_a_decision_names_its_proposal(machine: Machine) -> None:
    for row in machine.transitions:
        assert row.by, row
        if row.names_proposal:
            # Besides a person, only an effect of the machine decides, under its own token.
            assert "person" in row.by, row
            assert set(row.by) - {"person"} <= set(machine.effects), row


@pytest.mark.parametrize("trigger", ["inference_started", "inference_failed", "budget_exceeded"])
def test_an_outcome_without_a_token_is_refused(lifecycle: Lifecycle, trigger: str) -> None:
    before = thread(lifecycle)

    for warrant in (Warrant(), Warrant.person(before.entered)):
        with pytest.raises(GuardRefusedError, match="may fire it"):
            lifecycle.fire("one", trigger, {}, Call(Cause("forger"), warrant=warrant))

    assert lifecycle.store.load("one").record.version == before.version


def test_a_forged_end_of_the_last_child_is_refused(lifecycle: Lifecycle) -> None:
    data, schema = {"relationship": "group"}, MACHINES["thread"].schema
    record = Record(RecordId("p"), "thread", "monitoring", Version(3), data, schema=schema)

    # The effect that carries it is the cascade; a producer has no such token.
    with pytest.raises(GuardRefusedError, match="cascade may fire it"):
        lifecycle.fire(record, "children_done", {"tally": {}}, Call(Cause("forger")))


def test_an_approval_names_the_proposal_that_was_seen(lifecycle: Lifecycle) -> None:
    data = {
        **thread(lifecycle).data,
        "proposals": {"action": {"id": "a", "payload": {"kind": "standard", "capability": "x"}}},
    }
    schema = MACHINES["thread"].schema
    record = Record(
        RecordId("one"), "thread", "awaiting_confirmation", Version(2), data, schema=schema
    )

    with pytest.raises(GuardRefusedError, match="must say what was seen"):
        lifecycle.fire(record, "execute", {}, Call(Cause("careless")))


def reviewed(lifecycle: Lifecycle, *, auto_approve: bool) -> Record:
    """Return a job whose reviewer has passed it on."""
    command = {"command": "true"}
    job = {"phases": [{"worker": command}], "review": command, "auto_approve": auto_approve}
    lifecycle.create("job", "g/j", job, Cause("test"))
    for by, trigger, payload in (
        ("producer", "activate", {}),
        ("scheduling", "scheduled", {}),
        ("worker", "agent_completed", {}),
        ("scheduling", "step", {}),
        ("reviewer", "review_completed", {"verdict": "approval_required"}),
    ):
        lifecycle.fire("g/j", trigger, payload, Call(Cause(by), warrant=Warrant.component(by)))
    return lifecycle.store.load("g/j").record


def test_a_job_that_wants_no_sign_off_is_approved_in_the_commit_of_its_review(
    lifecycle: Lifecycle,
) -> None:
    record = reviewed(lifecycle, auto_approve=True)

    assert (record.state, record.data["end"]["by"]) == ("success", "approval")


def test_only_a_person_approves_a_job_that_wants_a_sign_off(lifecycle: Lifecycle) -> None:
    record = reviewed(lifecycle, auto_approve=False)
    assert record.state == "approval_required"
    assert "approval" not in {entry.name for entry in record.entries}

    for by in ("scheduling", "worker"):
        with pytest.raises(GuardRefusedError, match="approval or person may fire it"):
            lifecycle.fire("g/j", "approve", {}, Call(Cause("x"), warrant=Warrant.component(by)))
    for actor in ("producer", "person"):
        with pytest.raises(GuardRefusedError, match="must say what was seen"):
            lifecycle.fire("g/j", "approve", {}, Call(Cause(actor)))
    seen = Warrant.person(record.entered)
    approved = lifecycle.fire("g/j", "approve", {}, Call(Cause("ann"), "1", seen))

    assert approved.record is not None
    assert approved.record.state == "success"


def test_a_component_fires_without_a_lease_where_a_row_names_it(
    client: redis.Redis, prefix: str
) -> None:
    lifecycle = Lifecycle(
        Store(client, Keys(prefix), Limits()), {"turn": TURN}, lambda _: None, lambda _: None
    )
    lifecycle.create("turn", "b/t~1", {"task": "b/t", "number": 1}, Cause("assignment"))

    def as_party(name: str, trigger: str) -> Fired:
        call = Call(Cause(name), warrant=Warrant.component(name))
        return lifecycle.fire("b/t~1", trigger, {}, call)

    for stranger in (Warrant(), Warrant.component("supervision")):
        with pytest.raises(GuardRefusedError, match="assignment or turn_cleanup may fire it"):
            lifecycle.fire("b/t~1", "task_claimed", {}, Call(Cause("x"), warrant=stranger))
    as_party("assignment", "task_claimed")
    with pytest.raises(GuardRefusedError, match="supervision may fire it"):
        as_party("assignment", "agent_spawned")

    assert as_party("supervision", "agent_spawned").version == 3
