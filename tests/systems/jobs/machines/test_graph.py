"""The table of a graph: its guards, updates and bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from interlock.kernel.decision import Decision
from interlock.kernel.errors import GuardRefusedError, IllegalTransitionError, InvalidPayloadError
from interlock.kernel.record import Record, RecordId, Version
from interlock.kernel.table import Waiting
from interlock.systems.jobs.machines.graph.table import GRAPH

LIMITS = {"cost_micro": 5_000_000, "time_s": 60, "iterations": 9}
REACHED = {"limit": "cost", "used": 5.25, "allowed": 5}


class PureGraph:
    """A graph without a store, driven by one trigger after the other."""

    def __init__(self, **given: Any) -> None:
        data = GRAPH.initial_data(given)
        self.record = Record(RecordId("g"), "graph", "open", Version(1), data)
        self.last: Decision = GRAPH.decide_creation(self.record)

    def fire(self, trigger: str, **payload: Any) -> PureGraph:
        self.last = GRAPH.decide(self.record, trigger, GRAPH.admit(trigger, payload))
        self.record = self.last.after
        return self

    @property
    def state(self) -> str:
        return self.record.state

    @property
    def data(self) -> Mapping[str, Any]:
        return self.record.data

    @property
    def owed(self) -> list[str]:
        return [owed.effect.name for owed in self.last.owes]


def test_a_new_graph_is_open_and_rechecked() -> None:
    case = PureGraph()

    assert (case.state, case.last.waits, case.owed) == ("open", False, [])
    assert [timer.name for timer in case.last.timers] == ["recheck"]
    assert GRAPH.bounds(PureGraph(limits=LIMITS).data) == {"spent": 5_000_000, "runs": 9}
    assert not any(GRAPH.bounds(case.data).values())


def test_a_configuration_is_merged_and_owes_the_upkeep_of_the_jobs() -> None:
    case = PureGraph(limits=LIMITS, slots=2, description="old").fire("configure", slots=3)
    assert case.data == {**PureGraph(limits=LIMITS, slots=3, description="old").data}
    case.fire("configure", limits={"cost_micro": 9}, by="ann")

    assert case.data["limits"] == {**LIMITS, "cost_micro": 9}
    assert "by" not in case.data
    assert (case.last.bounds, case.owed) == (
        {"spent": 9, "runs": LIMITS["iterations"]},
        ["graph_upkeep"],
    )
    assert case.record.entered == 1, "it stays in its state"


def test_stewards_and_the_effect_of_a_loss_can_be_configured() -> None:
    case = PureGraph().fire("configure", stewards=["ann"], on_cancel="cancel", remind_s=60)

    assert case.data == PureGraph(stewards=["ann"], on_cancel="cancel", remind_s=60).data
    with pytest.raises(GuardRefusedError, match="only ann may decide: add --as ann"):
        case.fire("configure", stewards=[], by="bob")
    assert case.fire("configure", stewards=[], by="ann").data["stewards"] == []
    for bad in ({"stewards": ["no one"]}, {"on_cancel": "shrug"}, {"remind_s": 59}):
        with pytest.raises(InvalidPayloadError):
            GRAPH.admit("configure", bad)


def test_the_usage_is_shown_to_the_last_digit() -> None:
    case = PureGraph(limits={"time_s": 12_345_678}).fire(
        "limit_reached", limit="time", used=12_345_678.25, allowed=12_345_678
    )

    assert "12345678.25 of 12345678 s;" in case.data["failure"]["detail"]


def test_a_limit_that_is_reached_halts_a_graph_with_one_card() -> None:
    case = PureGraph(limits=LIMITS).fire("limit_reached", **REACHED)

    assert (case.state, case.last.waits, case.owed) == ("halted", True, ["resolution"])
    detail = "the graph's limit of cost is reached: 5.25 of 5 $; none of its jobs starts"
    assert case.data["failure"] == {"code": "limit_reached", "detail": detail}
    assert {timer.name for timer in case.last.timers} == {"reminder", "recheck"}
    with pytest.raises(IllegalTransitionError):
        case.fire("limit_reached", **REACHED)
    with pytest.raises(IllegalTransitionError):
        case.fire("configure", slots=3)


@pytest.mark.parametrize(
    ("limits", "seen"),
    [
        (LIMITS, {**REACHED, "allowed": 4.999_998}),
        (LIMITS, {"limit": "time", "used": 61, "allowed": 59}),
        ({"time_s": 60}, REACHED),
        ({}, {"limit": "iterations", "used": 9, "allowed": 9}),
    ],
)
def test_a_limit_that_was_changed_meanwhile_halts_nothing(
    limits: dict[str, int], seen: dict[str, Any]
) -> None:
    case = PureGraph(limits=limits)

    with pytest.raises(GuardRefusedError, match="changed meanwhile"):
        case.fire("limit_reached", **seen)


@pytest.mark.parametrize("micro", [1, 3, 999_999, 1_000_001, 123_456_789, 10**15])
def test_every_limit_of_cost_is_recognized_in_dollars(micro: int) -> None:
    case = PureGraph(limits={"cost_micro": micro})
    seen = {"limit": "cost", "used": micro / 1_000_000, "allowed": micro / 1_000_000}

    assert case.fire("limit_reached", **seen).state == "halted"


def test_a_steward_lets_its_jobs_use_more() -> None:
    case = PureGraph(limits=LIMITS, stewards=["ann"]).fire("limit_reached", **REACHED)
    for by in ("bob", "person"):
        with pytest.raises(GuardRefusedError, match="only ann may decide: add --as ann"):
            case.fire("raise_limits", limits={"cost_micro": 9}, by=by)
    case.fire("raise_limits", limits={"cost_micro": 9_000_000}, by="ann")

    assert (case.state, case.last.bounds) == (
        "open",
        {"spent": 9_000_000, "runs": LIMITS["iterations"]},
    )
    assert case.data["limits"] == {**LIMITS, "cost_micro": 9_000_000}
    assert "failure" not in case.data
    assert case.owed == ["graph_upkeep", "resolution"]
    with pytest.raises(GuardRefusedError, match="only ann may decide: add --as ann"):
        case.fire("configure", slots=3)


def test_a_graph_ends_also_while_it_is_halted() -> None:
    assert PureGraph().fire("finish").last.ends
    halted = PureGraph(limits=LIMITS).fire("limit_reached", **REACHED).fire("finish")

    assert (halted.state, halted.owed) == ("finished", ["resolution"])
    with pytest.raises(IllegalTransitionError):
        halted.fire("raise_limits", limits={"cost_micro": 9})


def test_every_answer_of_the_card_is_fired_by_a_person() -> None:
    stage = GRAPH.stage("halted")
    assert isinstance(stage, Waiting)
    assert stage.card
    for _, trigger in stage.affordances:
        assert all(row.by == ("person",) for row in GRAPH.rows("halted", trigger))


@pytest.mark.parametrize(
    "bad",
    [
        {"surprise": 1},
        {"slots": -1},
        {"limits": {"cost": 3}},
        {"limits": {"time_s": 0}},
        {"stewards": ["no one"]},
        {"remind_s": 1},
    ],
)
def test_an_invalid_graph_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidPayloadError, match="the graph is invalid"):
        GRAPH.initial_data(bad)
