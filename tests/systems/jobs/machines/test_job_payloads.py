"""The payloads of jobs and graphs: any JSON is admitted, or refused as invalid."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from interlock.kernel.errors import CallError, InvalidPayloadError
from interlock.kernel.machine import Machine
from interlock.kernel.record import Record, RecordId, Version
from interlock.kernel.store import codec
from interlock.systems.jobs.machines.graph.payloads import NewGraph
from interlock.systems.jobs.machines.graph.table import GRAPH
from interlock.systems.jobs.machines.job.payloads import NewJob
from interlock.systems.jobs.machines.job.table import JOB
from tests.any_text import any_text
from tests.kernel.samples import PHASES, SAMPLES, job

Data = Mapping[str, Any]

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**400)
    | st.floats(allow_nan=False, allow_infinity=False)
    | any_text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text(), inner, max_size=3),
    max_leaves=10,
)
EXECUTORS = st.sampled_from(
    [{"command": "true"}, {"capability": "x", "parameters": {"a": None}}, {"model": "say"}, {}]
)
WORDS = st.sampled_from(["", "a", "g/a", "person", "build", "next", "gate", "cost", "*", "\ud800"])
PLAUSIBLE: Mapping[str, st.SearchStrategy[Any]] = {
    "phases": st.lists(st.fixed_dictionaries({"worker": EXECUTORS}, optional={"name": WORDS})),
    "review": EXECUTORS,
    "limits": st.dictionaries(
        st.sampled_from(["cost_micro", "time_s", "iterations"]), st.integers(-1, 10**16)
    ),
    "depends_on": st.lists(WORDS),
    "tally": st.dictionaries(WORDS, st.integers(-1, 9)),
    "verdict": st.sampled_from(["approval_required", "intervention_required", "done"]),
    "evidence": st.lists(
        st.fixed_dictionaries({"path": WORDS, "sha256": st.just("0" * 64), "bytes": st.just(1)})
    ),
}


def payloads(model: type[BaseModel] | None) -> st.SearchStrategy[Any]:
    """Return payloads for this model: any JSON, and values that nearly fit."""
    if model is None:
        return st.dictionaries(any_text(), json_values, max_size=3)
    fields = model.model_fields
    fit = {name: PLAUSIBLE.get(name, WORDS | json_values) for name in fields}
    near = st.fixed_dictionaries({}, optional={name: fit[name] | json_values for name in fit})
    return json_values | near | st.dictionaries(any_text(), json_values, max_size=3)


def create(machine: Machine, payload: Any) -> None:
    try:
        data = machine.initial_data(payload)
    except InvalidPayloadError:
        return
    record = Record(RecordId("g/j"), machine.name, str(machine.stages[0].state), Version(1), data)
    decision = machine.decide_creation(record)
    assert codec.encode(decision.after.data, "the data", codec.DATA_BYTES_MAX)


@given(payload=payloads(NewJob))
def test_any_json_creates_a_job_or_is_refused(payload: Any) -> None:
    create(JOB, payload)


@given(payload=payloads(NewGraph))
def test_any_json_creates_a_graph_or_is_refused(payload: Any) -> None:
    create(GRAPH, payload)


TRIGGERS = [(machine, trigger) for machine in (JOB, GRAPH) for trigger in machine.triggers]


@pytest.mark.parametrize(
    ("machine", "trigger"), TRIGGERS, ids=[f"{machine.name}-{name}" for machine, name in TRIGGERS]
)
def test_any_json_is_an_admitted_payload_or_is_refused(machine: Machine, trigger: str) -> None:
    """An admitted payload can be decided in every legal state, and the decision can be written."""
    states = [str(stage.state) for stage in machine.stages]
    states = [state for state in states if machine.rows(state, trigger)]

    @given(payload=payloads(machine.payloads.get(trigger)))
    def check(payload: Any) -> None:
        try:
            admitted = machine.admit(trigger, payload)
        except InvalidPayloadError:
            return
        for state, data in product(states, SAMPLES[machine.name][0]):
            record = Record(RecordId("g/j"), machine.name, state, Version(5), data)
            try:
                decision = machine.decide(record, trigger, admitted)
            except CallError:
                continue
            codec.encode(decision.after.data, "the data", codec.DATA_BYTES_MAX)
            due = {timer.name: timer.delay_ms for timer in decision.timers}
            assert all(type(ms) is int and 0 <= ms < 2**53 for ms in due.values()), due
            caps = decision.bounds.values()
            assert all(cap is None or 0 <= cap < 2**53 for cap in caps), caps

    check()


NO_JOBS = ("", "a", "g/", "/a", "g//a", "g/a/", "g/.a", "../g/a", "g/a b", "g/a:1", "g/a\n", "g/*")


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"phases": []}, "at least 1 item"),
        ({"phases": [PHASES[0], PHASES[0]]}, "two phases are called 'build'"),
        ({"depends_on": ["g/a", "g/a"]}, "depends twice on 'g/a'"),
        *(({"depends_on": ["g/b", name]}, "depends_on.1: .*match pattern") for name in NO_JOBS),
        ({"depends_on": ["g/" + "a" * 199]}, "at most 200"),
        ({"phases": [{"worker": {}}]}, "name one of command, capability and model"),
        ({"review": {"command": "a", "model": "b"}}, "name one of command"),
        ({"review": {"command": "a", "parameters": {"x": 1}}}, "parameters are for a capability"),
        ({"limits": {"cost": 1}}, "Extra inputs"),
        ({"limits": {"cost_micro": -1}}, "greater than or equal to 0"),
        ({"hours": "8-17"}, "match pattern"),
        ({"hours": "08:00-24:00"}, "match pattern"),
        ({"on_cancel": "shrug"}, "'starve' or 'cancel'"),
        ({"stewards": ["two words"]}, "match pattern"),
        ({"retry_delay_s": 3_601}, "less than or equal to 3600"),
        ({"remind_s": 59}, "greater than or equal to 60"),
        ({"surprise": 1}, "Extra inputs"),
    ],
)
def test_an_invalid_job_is_refused_by_its_field(bad: Data, why: str) -> None:
    with pytest.raises(InvalidPayloadError, match=why):
        job(**bad)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"hold": True}, "Extra inputs"),
        ({"dir": "/elsewhere"}, "Extra inputs"),
        ({"host": "elsewhere"}, "Extra inputs"),
        ({"depends_on": ["a"]}, "match pattern"),
        ({"phases": []}, "at least 1 item"),
        ({"phases": [PHASES[0], PHASES[0]]}, "two phases are called"),
        ({"depends_on": ["g/a", "g/a"]}, "depends twice"),
        ({"retries_max": 101}, "less than or equal to 100"),
    ],
)
def test_a_change_of_a_draft_is_checked_like_a_new_job(bad: Data, why: str) -> None:
    with pytest.raises(InvalidPayloadError, match=why):
        JOB.admit("configure", bad)


def test_every_field_but_hold_dir_and_host_can_be_configured() -> None:
    model = JOB.payloads["configure"]

    stays = {"hold", "dir", "host"}
    assert set(model.model_fields) == {*NewJob.model_fields, "no_review", "by"} - stays
    whole = {
        name: value
        for name, value in job(queue="slow", folder="/f").items()
        if name in model.model_fields
    }
    assert {**JOB.admit("configure", whole), "by": 0} == {**whole, "no_review": False, "by": 0}


def test_the_parameters_of_a_capability_are_kept_unchanged() -> None:
    parameters = {"a": None, "b": [None, {"c": None}], "": 1.5}
    data = job(review={"capability": "x", "parameters": parameters})

    assert data["review"]["parameters"] == parameters


def test_a_time_that_a_script_cannot_count_is_refused() -> None:
    for bad in (0, 2**53, 10**400):
        with pytest.raises(InvalidPayloadError):
            JOB.admit("step", {"time_left_ms": bad})


def test_the_data_of_a_new_job_are_json() -> None:
    data = job(review={"model": "say"}, limits={"iterations": 3})

    assert json.loads(json.dumps(data)) == data
