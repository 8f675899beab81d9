"""The diagram of a machine: every state has its box, every step its arrow, and no boxes overlap."""

from __future__ import annotations

from itertools import combinations

import pytest

from interlock.kernel.dependencies import Dependencies
from interlock.kernel.machine import Machine
from interlock.kernel.machines import MACHINES
from interlock.workers.console.diagram import (
    HEIGHT,
    WIDTH,
    diagram_of,
    leading_back,
    lines_of,
)
from tests.kernel.store.machines_nodes import NODE
from tests.kernel.store.tables import LIFE


@pytest.mark.parametrize("machine", [*MACHINES.values(), NODE, LIFE], ids=lambda one: one.name)
def test_each_state_has_a_box_and_each_step_an_arrow(machine: Machine) -> None:
    found = diagram_of(machine)

    assert [node.state for node in found.nodes] == [str(stage.state) for stage in machine.stages]
    rows = {(str(row.source), str(row.target)) for row in machine.transitions}
    arrows = {(arrow.source, arrow.target) for arrow in found.arrows}
    assert arrows == {row for row in rows if row[0] != row[1]}
    for one, other in combinations(found.nodes, 2):
        apart = abs(one.x - other.x) >= WIDTH or abs(one.y - other.y) >= HEIGHT
        assert apart, (one.state, other.state)
    for node in found.nodes:
        assert node.x + WIDTH <= found.width
        assert node.y + HEIGHT <= found.height
    assert diagram_of(machine) is found  # worked out once


def test_without_the_steps_that_lead_back_there_is_no_cycle() -> None:
    pairs = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "c"), ("c", "b"), ("a", "c")]
    edges: dict[tuple[str, str], tuple[str, ...]] = dict.fromkeys(pairs, ())

    back = set(leading_back(["a", "b", "c"], edges))

    assert back == {("c", "a"), ("c", "b")}
    left = {name: [b for a, b in edges if a == name != b and (a, b) not in back] for name in "abc"}
    assert Dependencies(left).cycles() == []


def test_a_long_name_is_broken_into_lines_and_then_shortened() -> None:
    assert lines_of("open") == ("open",)
    assert lines_of("awaiting_intent_clarification") == ("awaiting intent", "clarification")
    assert lines_of("a_name_of_very_many_words_that_goes_on") == (
        "a name of very",
        "many wor…goes on",
    )
    assert lines_of("x" * 30) == ("x" * 8 + "…" + "x" * 7,)
