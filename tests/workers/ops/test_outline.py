"""A machine's table as plain data."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from interlock.kernel.diagram import mermaid
from interlock.kernel.machine import Machine
from interlock.kernel.machines import MACHINES
from interlock.kernel.table import Active, Waiting
from interlock.workers.cli import app
from interlock.workers.ops.outline import outline


@pytest.fixture(params=list(MACHINES))
def machine(request: pytest.FixtureRequest) -> Machine:
    return MACHINES[request.param]


def test_an_outline_is_json(machine: Machine) -> None:
    assert json.loads(json.dumps(outline(machine)))["name"] == machine.name


def test_the_initial_state_comes_first(machine: Machine) -> None:
    data = outline(machine)

    assert data["initial"] == data["states"][0]["name"] == str(machine.initial.state)


def test_every_state_has_kind_effect_and_timers(machine: Machine) -> None:
    states: dict[str, Any] = {state["name"]: state for state in outline(machine)["states"]}

    for stage in machine.stages:
        state = states[str(stage.state)]
        assert [timer["name"] for timer in state["timers"]] == [t.name for t in stage.timers]
        if isinstance(stage, Active):
            assert state["kind"] == "active"
            assert state["entry_effect"] == (stage.effect.name if stage.effect else None)
            assert state["carried"] is (stage.effect is None)
        if isinstance(stage, Waiting):
            assert state["kind"] == "waiting"
            assert state["affordances"] == dict(stage.affordances)


def test_every_row_is_listed_in_order_and_our_own_rows_have_a_reason(machine: Machine) -> None:
    rows = outline(machine)["rows"]

    assert len(rows) == len(machine.transitions)
    for row, transition in zip(rows, machine.transitions, strict=True):
        assert row["source"] == str(transition.source)
        assert row["trigger"] == str(transition.trigger)
        assert row["target"] == str(transition.target)
        assert row["ours"] is bool(transition.ours)
        assert bool(row["why_ours"]) is row["ours"]
        assert row["guarded"] is (transition.guard is not None)
        assert row["by"], "every row has an actor"


def test_the_diagram_of_a_machine_is_printed_for_markdown_and_for_programs() -> None:
    drawn = mermaid(MACHINES["delivery"])

    printed = CliRunner().invoke(app, ["machines", "delivery", "--diagram"])
    as_json = CliRunner().invoke(app, ["machines", "delivery", "--diagram", "--json"])

    assert printed.stdout == f"{drawn}\n"
    assert json.loads(as_json.stdout) == {"delivery": drawn}
