"""Who may fire a row is part of the table: no producer reports an outcome, no effect decides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from kernel.errors import GuardRefusedError
from kernel.event import Cause
from kernel.lifecycle import Fired, Lifecycle
from kernel.machine import Machine
from kernel.machines import MACHINES
from kernel.machines.turn.table import TURN
from kernel.record import Record, RecordId, Version
from kernel.store.keys import Keys
from kernel.store.plan import Call, Limits, Warrant
from kernel.store.redis import Store
from kernel.table import Transition

PERSONAL = {"producer", "person", "cascade"}
ROWS = [(machine, row) for machine in MACHINES.values() for row in machine.transitions]
Fire = Callable[..., object]


@pytest.fixture
def lifecycle(client: redis.Redis, prefix: str) -> Lifecycle:
    return Lifecycle(Store(client, Keys(prefix), Limits()), MACHINES, lambda _: None)


def thread(lifecycle: Lifecycle) -> Record:
    born = lifecycle.create(
        "thread", "one", {"inciting": {"title": "a"}, "policy": "end_to_end"}, Cause("test")
    )
    assert born.record is not None
    begun = lifecycle.fire(born.record, "begin_inference", {}, Call(Cause("test")))
    assert begun.record is not None
    return begun.record


@pytest.mark.parametrize("row", ROWS, ids=lambda pair: f"{pair[1].source}-{pair[1].trigger}")
def test_every_row_names_who_fires_it_and_none_mixes_people_and_workers_blindly(
    row: tuple[Machine, Transition],
) -> None:
    _, transition = row

    assert transition.by
    if transition.sees:
        assert transition.by == ("person",)


@pytest.mark.parametrize("trigger", ["inference_started", "inference_failed", "budget_exceeded"])
def test_nobody_without_a_token_reports_an_outcome(lifecycle: Lifecycle, trigger: str) -> None:
    before = thread(lifecycle)

    for warrant in (Warrant(), Warrant.person(before.entered)):
        with pytest.raises(GuardRefusedError, match="fires it"):
            lifecycle.fire("one", trigger, {}, Call(Cause("forger"), warrant=warrant))

    assert lifecycle.store.load("one").record.version == before.version


def test_a_forged_end_of_the_last_child_is_refused(lifecycle: Lifecycle) -> None:
    record = Record(RecordId("p"), "thread", "monitoring", Version(3), {"relationship": "group"})

    # The effect that carries it is the cascade; a producer has no such token.
    with pytest.raises(GuardRefusedError, match="cascade fires it"):
        lifecycle.fire(record, "children_done", {"tally": {}}, Call(Cause("forger")))


def test_an_approval_names_the_proposal_that_was_seen(lifecycle: Lifecycle) -> None:
    data = {
        **thread(lifecycle).data,
        "proposals": {"action": {"id": "a", "payload": {"kind": "standard", "capability": "x"}}},
    }
    record = Record(RecordId("one"), "thread", "awaiting_confirmation", Version(2), data)

    with pytest.raises(GuardRefusedError, match="naming the proposal"):
        lifecycle.fire(record, "execute", {}, Call(Cause("careless")))


def test_a_part_of_the_house_leads_on_what_it_does_not_hold_and_no_other_part_does(
    client: redis.Redis, prefix: str
) -> None:
    lifecycle = Lifecycle(Store(client, Keys(prefix), Limits()), {"turn": TURN}, lambda _: None)
    lifecycle.create("turn", "b/t~1", {"task": "b/t", "number": 1}, Cause("assignment"))

    def as_party(name: str, trigger: str) -> Fired:
        call = Call(Cause(name), warrant=Warrant.party(name))
        return lifecycle.fire("b/t~1", trigger, {}, call)

    for stranger in (Warrant(), Warrant.party("supervision")):
        with pytest.raises(GuardRefusedError, match="assignment or reaping fires it"):
            lifecycle.fire("b/t~1", "task_claimed", {}, Call(Cause("x"), warrant=stranger))
    as_party("assignment", "task_claimed")
    as_party("assignment", "agent_spawned")
    with pytest.raises(GuardRefusedError, match="supervision fires it"):
        as_party("assignment", "agent_spawned")

    assert as_party("supervision", "agent_spawned").version == 4
