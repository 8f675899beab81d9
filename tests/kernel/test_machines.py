"""What every machine must pass: its golden table, each of its cells, and no stranded record."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.effect import CASCADE, NOTIFICATION, RESOLUTION, SPAWN
from interlock.kernel.errors import (
    CallError,
    IgnoredError,
    IllegalTransitionError,
    InvalidPayloadError,
    UnknownTriggerError,
)
from interlock.kernel.machine import Machine
from interlock.kernel.machines import LISTED, MACHINES
from interlock.kernel.reason import fields_named, sentence
from interlock.kernel.record import Record, RecordId, Version
from interlock.kernel.table import (
    Active,
    Ask,
    Mode,
    Terminal,
    Transition,
)
from interlock.kernel.timer import Timer
from interlock.kernel.trigger import CREATED
from tests.kernel.samples import SAMPLES
from tests.kernel.store.tables import LIFE, ROWS, S, T

SYSTEMS = Path(__file__).parents[1] / "systems"
EVERY = sorted(LISTED)  # the other machine, that of canaries, has the table of threads
ROW_OF = tuple[str, str, str]
# A row, and the data of the record before it and after it.
Followed = tuple[Transition, Mapping[str, Any], Mapping[str, Any]]
SENTENCE_LENGTH_MAX = 100


def row_of(row: Transition) -> ROW_OF:
    return str(row.source), str(row.trigger), str(row.target)


def golden(name: str) -> dict[str, Any]:
    [path] = SYSTEMS.glob(f"*/golden/{name}.json")
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def record(machine: Machine, state: str, data: Mapping[str, Any]) -> Record:
    return Record(RecordId("r"), machine.name, state, Version(5), data)


@cache
def followed(name: str) -> tuple[Followed, ...]:
    """Fire everything at every state with every sample; return the row, and the data around it."""
    machine = MACHINES[name]
    seen: list[Followed] = []
    datas, payloads = SAMPLES[machine.name]
    for stage, trigger in product(machine.stages, machine.triggers):
        rows = machine.rows(str(stage.state), trigger)
        for data, payload in product(datas, payloads.get(trigger, ({},)) if rows else ()):
            admitted = machine.admit(trigger, payload)
            try:
                decision = machine.decide(
                    record(machine, str(stage.state), data), trigger, admitted
                )
            except CallError:
                continue
            ask = Ask(data, admitted, {})
            row = next(row for row in rows if row.guard is None or row.guard(ask))
            assert (str(row.target), row.mode) == (decision.after.state, decision.mode)
            says = row.says or machine.says[trigger]
            assert decision.says == sentence(says, admitted)
            assert all(str(admitted[field]) for field in fields_named(says))
            seen.append((row, data, decision.after.data))
    return tuple(seen)


@pytest.mark.parametrize("name", EVERY)
def test_the_table_is_the_published_one_and_ours_with_a_reason_each(name: str) -> None:
    machine, kept = MACHINES[name], golden(name)
    published = [row_of(row) for row in machine.transitions if not row.ours]
    ours = {(row.ours, *row_of(row)) for row in machine.transitions if row.ours}

    assert kept["machine"] == name
    assert str(machine.stages[0].state) == kept["initial"]
    ends = [str(stage.state) for stage in machine.stages if isinstance(stage, Terminal)]
    assert sorted(ends) == sorted(kept["terminal"])
    assert sorted(published) == sorted(tuple(row) for row in kept["published"])
    assert ours == {(why, *row) for why, rows in kept["ours"].items() for row in rows}
    assert len(published) + len(ours) == len(machine.transitions)


@pytest.mark.parametrize("name", EVERY)
def test_every_row_names_who_fires_it(name: str) -> None:
    assert [row_of(row) for row in MACHINES[name].transitions if not row.by] == []


@pytest.mark.parametrize("name", EVERY)
def test_every_row_and_every_creation_says_why_in_a_short_sentence(name: str) -> None:
    machine, (data, *_) = MACHINES[name], SAMPLES[name][0]
    rows = machine.transitions
    said = {row_of(row): row.says or machine.says.get(row.trigger, "") for row in rows}
    created = machine.decide_creation(record(machine, str(machine.stages[0].state), data))

    assert [row for row, says in said.items() if not 0 < len(says) < SENTENCE_LENGTH_MAX] == []
    assert 0 < len(created.says) < SENTENCE_LENGTH_MAX
    assert created.says == sentence(machine.says[CREATED], data)
    assert all(data.get(field) for field in fields_named(machine.says[CREATED]))


@pytest.mark.parametrize("name", EVERY)
def test_every_row_can_be_followed(name: str) -> None:
    machine = MACHINES[name]
    seen = {(row_of(row), row.mode) for row, _, _ in followed(name)}
    never = [row_of(row) for row in machine.transitions if (row_of(row), row.mode) not in seen]

    assert never == []


@pytest.mark.parametrize("name", EVERY)
def test_a_cell_without_a_row_refuses_and_names_what_is_legal(name: str) -> None:
    machine = MACHINES[name]
    datas, payloads = SAMPLES[name]
    for stage, trigger in product(machine.stages, machine.triggers):
        state = str(stage.state)
        if machine.rows(state, trigger):
            assert trigger in machine.legal(state)
            continue
        admitted = machine.admit(trigger, payloads.get(trigger, ({},))[0])
        with pytest.raises(IllegalTransitionError) as refusal:
            machine.decide(record(machine, state, datas[0]), trigger, admitted)
        assert refusal.value.legal == machine.legal(state)
        why = machine.ignores.get(trigger)
        assert isinstance(refusal.value, IgnoredError) is (why is not None)
        named = (why,) if why else machine.legal(state)
        assert all(word in str(refusal.value) for word in named)


@pytest.mark.parametrize("name", EVERY)
def test_nothing_is_legal_after_the_end(name: str) -> None:
    machine = MACHINES[name]
    for stage in machine.stages:
        assert bool(machine.legal(str(stage.state))) is not isinstance(stage, Terminal)


# Actors outside, and the supervisors that pass on what agents report.
OUTSIDE = {"person", "producer", "supervision", "session"}
# Machines whose states only a person or a producer leaves.
BY_HAND = {"workspace"}
# It comes round once a day: it lasts until the hours of the job begin.
DAILY: set[ROW_OF] = {("pending", "suspend", "suspended")}


def counted(data: Mapping[str, Any]) -> str:
    """Return the phase and the counts of tries: a loop with a bounded count is no storm.

    An identity counts the ends of claims, and a producer hands in each of those.
    """
    tries = ("target", "retries", "claims", "crashes", "verified", "merging")
    outcomes = ("successes", "failures", "violations")
    steps = ("phase", "runs", "recoveries", "unbegun", "pauses", "met", "backoff_ms")
    sessions = ("attempt", "total_errors", "overdue")
    waits_for = (data.get("blocked_on") or {}).get("kind", "")
    lost = str(len(data.get("lost", ())))
    return "/".join(
        [
            *(str(data.get(name, "")) for name in (*tries, *outcomes, *steps, *sessions)),
            waits_for,
            lost,
        ]
    )


def timed(machine: Machine, row: Transition, data: Mapping[str, Any]) -> bool:
    """Whether a timer that fires this row runs for a record with this data."""
    timers = machine.stage(str(row.source)).timers
    return any(timer.trigger == row.trigger and timer.delay(data) is not None for timer in timers)


@pytest.mark.parametrize("name", EVERY)
def test_no_loop_runs_without_a_person_or_a_producer(name: str) -> None:
    """A loop that needs no person is a storm. Internal loops stay in their state."""
    ways: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for row, before, after in followed(name):
        by_itself = set(row.by) - OUTSIDE
        if row.mode is Mode.INTERNAL or not by_itself or row_of(row) in DAILY:
            continue
        if by_itself == {"stalls"} and not timed(MACHINES[name], row, before):
            continue
        node = (str(row.source), counted(before))
        ways.setdefault(node, set()).add((str(row.target), counted(after)))
    done: set[tuple[str, str]] = set()

    def visit(node: tuple[str, str], path: tuple[tuple[str, str], ...]) -> None:
        assert node not in path, f"{node} comes round: {path}"
        if node not in done:
            for onward in sorted(ways.get(node, ())):
                visit(onward, (*path, node))
            done.add(node)

    for node in sorted(ways):
        visit(node, ())
    assert len(done) >= 2 or name in BY_HAND


@pytest.mark.parametrize("name", EVERY)
def test_the_payloads_of_sweeps_and_parents_are_admitted(name: str) -> None:
    machine = MACHINES[name]
    lost = {"code": "lost_worker", "detail": "gone"}
    for stage in machine.stages:
        if isinstance(stage, Active):
            for trigger in filter(None, (stage.crash, stage.exhausted)):
                assert machine.admit(str(trigger), lost)["code"] == "lost_worker"
        for timer in stage.timers:
            if timer.trigger:
                for begun in (True, False):
                    machine.admit(str(timer.trigger), timer.payload_when(begun=begun))
            for data in SAMPLES[name][0]:
                deltas = timer.deltas_when(data, begun=False) if timer.unbegun_deltas else {}
                assert all(amount < 0 for amount in deltas.values()), "it takes back"
                assert not timer.deltas_when(data, begun=True)
    for kind in machine.children:
        machine.admit(kind.advance_trigger, {"tally": {"done": 3}})
    if machine.close_trigger:
        machine.admit(machine.close_trigger, {"reason": "its parent ended"})


@pytest.mark.parametrize("name", EVERY)
def test_unknown_triggers_and_fields_are_refused(name: str) -> None:
    machine = MACHINES[name]
    payloads = SAMPLES[name][1]
    with pytest.raises(UnknownTriggerError, match=machine.triggers[0]):
        machine.admit("no_such_trigger", {})
    for trigger in machine.triggers:
        for payload in payloads.get(trigger, ({},)):
            with pytest.raises(InvalidPayloadError):
                machine.admit(trigger, {**payload, "surprise": 1})


@pytest.mark.parametrize("name", EVERY)
def test_a_payload_that_is_no_object_is_refused(name: str) -> None:
    machine = MACHINES[name]
    nonsense: tuple[Any, ...] = ([], (), "", "x", None, 0, 7, [("by", "ann")])
    for trigger, bad in product(machine.triggers, nonsense):
        with pytest.raises(InvalidPayloadError, match="not an object"):
            machine.admit(trigger, bad)


def test_the_payload_of_a_timer_depends_on_whether_a_worker_began() -> None:
    late, unbegun = {"code": "late"}, {"code": "unbegun"}
    one = Timer("t", lambda _: 1, payload=late)
    two = replace(one, unbegun_payload=unbegun)

    assert [one.payload_when(begun=begun) for begun in (True, False)] == [late, late]
    assert [two.payload_when(begun=begun) for begun in (True, False)] == [late, unbegun]


@pytest.mark.parametrize("name", EVERY)
def test_the_fields_of_a_machine_fit_together(name: str) -> None:
    machine = MACHINES[name]

    assert machine.bookkeeping.bounds or not any(row.bounds for row in machine.transitions)
    needs = machine.prerequisites
    if needs:
        machine.admit(needs.advance_trigger, {"tally": {"done": 3}})
        machine.admit(needs.lost_trigger, {"dependency": "g/a", "state": "canceled"})


@pytest.mark.parametrize("name", EVERY)
def test_every_active_state_can_be_left_when_its_parent_closes(name: str) -> None:
    machine = MACHINES[name]
    live = [str(stage.state) for stage in machine.stages if not isinstance(stage, Terminal)]
    stay = [state for state in live if not machine.rows(state, machine.close_trigger)]

    # A subtask that is judged, recovered or given up comes to its end by itself.
    by_itself = {"task": ["planned", "done"]}
    assert stay == (by_itself.get(name, []) if machine.close_trigger else live)


KERNEL = Path(__file__).parents[2] / "interlock" / "kernel"
SHARED = {effect.name for effect in (RESOLUTION, SPAWN, CASCADE, NOTIFICATION)}
FIELDS = {"abort", "cleanup"}  # also fields of payloads and of outlines


@pytest.mark.parametrize("path", sorted(KERNEL.glob("*.py")), ids=lambda path: path.name)
def test_no_file_beside_the_machines_names_a_machine_or_its_effect(path: Path) -> None:
    effects = {name for machine in MACHINES.values() for name in machine.effects}
    names = (set(MACHINES) | effects) - SHARED - FIELDS
    tree = ast.parse(path.read_text("utf-8"))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}

    assert not names & texts
    assert not any("kernel.machines" in str(module) for module in modules)


def test_what_a_row_says_goes_before_what_its_trigger_says() -> None:
    rows = tuple(
        replace(row, says="its work is done" if row.source is S.WORKING else "") for row in ROWS
    )
    machine = replace(LIFE, transitions=rows, says={T.DONE: "it is done", CREATED: "it is new"})

    def says(source: S, trigger: T) -> str:
        return machine.decide(record(machine, source, {}), trigger, {}).says

    assert says(S.WORKING, T.DONE) == "its work is done"
    assert says(S.CARRIED, T.DONE) == "it is done"
    assert says(S.CARRIED, T.FAIL) == ""
    assert machine.decide_creation(record(machine, S.IDLE, {})).says == "it is new"
