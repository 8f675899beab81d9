"""A machine's table as plain data."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from interlock.kernel.diagram import mermaid
from interlock.kernel.machine import Machine
from interlock.kernel.machines import MACHINES
from interlock.kernel.outline import outline_of
from interlock.kernel.payload import CardAnswer
from interlock.kernel.table import Active, Waiting
from interlock.kernel.timer import Timer
from interlock.kernel.traits import Bookkeeping
from interlock.workers.cli import app
from tests.workers.engine.payments import PAY, Trigger, payment


@pytest.fixture(params=list(MACHINES))
def machine(request: pytest.FixtureRequest) -> Machine:
    return MACHINES[request.param]


def test_an_outline_is_json(machine: Machine) -> None:
    assert json.loads(json.dumps(outline_of(machine)))["name"] == machine.name


def test_the_digest_of_a_table_is_the_same_in_every_process() -> None:
    program = (
        "from interlock.kernel.machines import MACHINES;"
        "from interlock.systems import NAMES;"
        "from interlock.workers.engine.own_systems import add_systems;"
        "add_systems(NAMES, None);"
        "print(*(each.digest for each in MACHINES.values()))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert run.stdout.decode().split() == [each.digest for each in MACHINES.values()]


LATE = Timer("late", lambda _: 5, Trigger.LATE)
CHANGES: dict[str, Callable[[Machine], Machine]] = {
    "an effect": lambda table: _with_stage(table, effect=replace(PAY, timeout_ms=5)),
    "a timer": lambda table: _with_stage(table, timers=(LATE,)),
    "a payload": lambda table: replace(table, payloads={Trigger.PAID: CardAnswer}),
    "the schema": lambda table: replace(table, schema=2),
    "the model of the data": lambda table: replace(table, model=CardAnswer),
    "the budget": lambda table: replace(table, bookkeeping=Bookkeeping(bounds=lambda _: {})),
    "the cancel": lambda table: replace(table, cancel_triggers=()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_table_has_another_digest_after_a_change_that_records_at_work_feel(change: str) -> None:
    table = payment()

    assert CHANGES[change](table).digest != table.digest == payment().digest


def test_what_only_words_say_and_the_way_from_another_table_leave_the_digest() -> None:
    table = payment()
    rows = tuple(replace(row, ours="as we like it") for row in table.transitions)
    past = replace(table, transitions=rows, renamed={"asking": "approval"})

    assert past.digest == table.digest


def _with_stage(table: Machine, **fields: Any) -> Machine:
    first, *others = table.stages
    return replace(table, stages=(replace(first, **fields), *others))


def test_the_initial_state_comes_first(machine: Machine) -> None:
    data = outline_of(machine)

    assert data["initial"] == data["states"][0]["name"] == str(machine.stages[0].state)


def test_every_state_has_kind_effect_and_timers(machine: Machine) -> None:
    states: dict[str, Any] = {state["name"]: state for state in outline_of(machine)["states"]}

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
    rows = outline_of(machine)["rows"]

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
