"""What a graph's guards ask and its updates change, and how its own table decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from interlock.kernel.errors import GuardRefusedError, IllegalTransitionError, InvalidPayloadError
from interlock.kernel.machine import Decision
from interlock.kernel.machines.jobs.graph.table import GRAPH
from interlock.kernel.record import Record, RecordId, Version
from interlock.kernel.table import UNBOUND, Bounds, Waiting

LIMITS = {"cost_micro": 5_000_000, "time_s": 60, "iterations": 9}
REACHED = {"limit": "cost", "used": 5.25, "allowed": 5}


class Graph:
    """A graph that is driven by hand, without a store."""

    def __init__(self, **given: Any) -> None:
        data = GRAPH.initial_data(given)
        self.record = Record(RecordId("g"), "graph", "open", Version(1), data)
        self.last: Decision = GRAPH.decide_creation(self.record)

    def fire(self, trigger: str, **payload: Any) -> Graph:
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
        return [one.effect.name for one in self.last.owes]


def test_a_graph_is_open_from_its_birth_and_looked_at_by_us() -> None:
    told = Graph()

    assert (told.state, told.last.waits, told.owed) == ("open", False, [])
    assert [timer.name for timer in told.last.timers] == ["recheck"]
    assert GRAPH.bounds is not None
    assert GRAPH.bounds(Graph(limits=LIMITS).data) == Bounds(5_000_000, 9)
    assert GRAPH.bounds(told.data) == UNBOUND


def test_what_is_configured_is_merged_and_its_jobs_are_looked_after() -> None:
    told = Graph(limits=LIMITS, slots=2, description="old").fire("configure", slots=3)
    assert told.data == {**Graph(limits=LIMITS, slots=3, description="old").data}
    told.fire("configure", limits={"cost_micro": 9}, by="ann")

    assert told.data["limits"] == {**LIMITS, "cost_micro": 9}
    assert "by" not in told.data
    assert (told.last.bounds, told.owed) == (Bounds(9, LIMITS["iterations"]), ["tending"])
    assert told.record.entered == 1, "it stays where it is"


def test_who_decides_and_what_becomes_of_the_lost_can_be_configured() -> None:
    told = Graph().fire("configure", stewards=["ann"], on_cancel="cancel", remind_s=60)

    assert told.data == Graph(stewards=["ann"], on_cancel="cancel", remind_s=60).data
    with pytest.raises(GuardRefusedError, match="stewards"):
        told.fire("configure", stewards=[], by="bob")
    assert told.fire("configure", stewards=[], by="ann").data["stewards"] == []
    for bad in ({"stewards": ["no one"]}, {"on_cancel": "shrug"}, {"remind_s": 59}):
        with pytest.raises(InvalidPayloadError):
            GRAPH.admit("configure", bad)


def test_what_was_used_is_told_to_the_last_digit() -> None:
    told = Graph(limits={"time_s": 12_345_678}).fire(
        "limit_reached", limit="time", used=12_345_678.25, allowed=12_345_678
    )

    assert "12345678.25 of 12345678 s;" in told.data["failure"]["detail"]


def test_a_limit_that_is_reached_halts_a_graph_with_one_card() -> None:
    told = Graph(limits=LIMITS).fire("limit_reached", **REACHED)

    assert (told.state, told.last.waits, told.owed) == ("halted", True, ["resolution"])
    detail = "the graph's limit of cost is reached: 5.25 of 5 $; none of its jobs starts"
    assert told.data["failure"] == {"code": "limit_reached", "detail": detail}
    assert {timer.name for timer in told.last.timers} == {"reminder", "recheck"}
    with pytest.raises(IllegalTransitionError):
        told.fire("limit_reached", **REACHED)
    with pytest.raises(IllegalTransitionError):
        told.fire("configure", slots=3)


@pytest.mark.parametrize(
    ("limits", "seen"),
    [
        (LIMITS, {**REACHED, "allowed": 4.999_998}),
        (LIMITS, {"limit": "time", "used": 61, "allowed": 59}),
        ({"time_s": 60}, REACHED),
        ({}, {"limit": "iterations", "used": 9, "allowed": 9}),
    ],
)
def test_who_saw_another_limit_halts_nothing(limits: dict[str, int], seen: dict[str, Any]) -> None:
    told = Graph(limits=limits)

    with pytest.raises(GuardRefusedError, match="changed meanwhile"):
        told.fire("limit_reached", **seen)


@pytest.mark.parametrize("micro", [1, 3, 999_999, 1_000_001, 123_456_789, 10**15])
def test_every_limit_of_cost_is_known_again_in_dollars(micro: int) -> None:
    told = Graph(limits={"cost_micro": micro})
    seen = {"limit": "cost", "used": micro / 1_000_000, "allowed": micro / 1_000_000}

    assert told.fire("limit_reached", **seen).state == "halted"


def test_a_steward_lets_its_jobs_use_more() -> None:
    told = Graph(limits=LIMITS, stewards=["ann"]).fire("limit_reached", **REACHED)
    for by in ("bob", "person"):
        with pytest.raises(GuardRefusedError, match="stewards"):
            told.fire("raise_limits", limits={"cost_micro": 9}, by=by)
    told.fire("raise_limits", limits={"cost_micro": 9_000_000}, by="ann")

    assert (told.state, told.last.bounds) == ("open", Bounds(9_000_000, LIMITS["iterations"]))
    assert told.data["limits"] == {**LIMITS, "cost_micro": 9_000_000}
    assert "failure" not in told.data
    assert told.owed == ["tending", "resolution"]
    with pytest.raises(GuardRefusedError, match="stewards"):
        told.fire("configure", slots=3)


def test_a_graph_ends_also_while_it_is_halted() -> None:
    assert Graph().fire("finish").last.ends
    halted = Graph(limits=LIMITS).fire("limit_reached", **REACHED).fire("finish")

    assert (halted.state, halted.owed) == ("finished", ["resolution"])
    with pytest.raises(IllegalTransitionError):
        halted.fire("raise_limits", limits={"cost_micro": 9})


def test_what_its_card_offers_is_a_persons_to_do() -> None:
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
def test_a_graph_is_not_born_of_nonsense(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidPayloadError, match="the graph is invalid"):
        GRAPH.initial_data(bad)
