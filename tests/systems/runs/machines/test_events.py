"""The 13 published events: they are read and published again, and others are refused."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from interlock.kernel.errors import CallError, GuardRefusedError, InvalidPayloadError
from interlock.kernel.event import NO_FACTS
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import Record, RecordId, Version
from interlock.systems.runs.machines.codon.names import State
from interlock.systems.runs.machines.events import (
    CodonStarted,
    RunEvent,
    RunStarted,
    TransitionMetadata,
    checked,
    missing,
    published_form,
    run_event,
)
from interlock.systems.runs.machines.run.table import RUN
from interlock.systems.runs.machines.translation import branch_of, published, wanted
from interlock.systems.runs.machines.values import SentinelState
from interlock.systems.runs.machines.workspace.table import WORKSPACE
from tests.kernel.samples import FAILURE, RUN_BIRTH, SAMPLES, TOKENS
from tests.systems.runs.machines.codons import (
    CODON_ID,
    LOOP,
    METADATA,
    RUN_ID,
    STATES,
    PureCodon,
    event_of,
    sentinel,
)

GOLDEN: dict[str, Any] = json.loads(
    Path(__file__).parents[1].joinpath("golden", "run_events.json").read_text("utf-8")
)
OF_RUN = {"run_id": "1"}
OF_CODON = {**OF_RUN, "codon_id": "clean"}
SOURCE = {"run_id": "data/1", "after_codon": "clean", "checkpoint_sha": "abc"}
GONE_ON = {"kind": "continuation", "source": SOURCE, "reason": "rollback", "restores": False}
ALL_METADATA = {
    **METADATA["initializing"],
    **METADATA["running"],
    **METADATA["completed"],
    **METADATA["failed"],
    "failed_during": "running",
    "skipped_during": "running",
    "ignored": True,
    "context_exceeded": False,
    "budget_exceeded": {"currency": "duration", "limit": 5, "used": 6},
}
MOVED = {"from": "preparing", "to": "starting"}
FULL_SENTINEL = sentinel(
    9,
    status="unloaded",
    unloaded_at=9,
    unload_reason="consecutive-failures",
    failed_llm_calls=3,
    last_llm_call_at=8,
    total_triggers=5,
)
# Each type with no more than it must say, then with all that it may.
TYPES: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "RunStarted": (
        {**OF_RUN, "run_folder": "/data", "branch": "run-1"},
        {"starting_conditions": GONE_ON, "host": "here"},
    ),
    "RunCompleted": (OF_RUN, {"reason": "all is done"}),
    "RunFailed": (OF_RUN, {"reason": "a codon failed"}),
    "RunCrashed": (
        OF_RUN,
        {"detected_at": 5, "last_codon_status": "running", "reason": "it is gone"},
    ),
    "CodonStarted": (OF_CODON, {"loop_context": LOOP}),
    "CodonTransitioned": ({**OF_CODON, **MOVED}, {"metadata": ALL_METADATA}),
    "CostsUpdated": ({**OF_CODON, "cost": 5}, {"tokens": TOKENS}),
    "CostsIncremented": ({**OF_CODON, "cost_delta": 5}, {"tokens_delta": TOKENS}),
    "AssistantMessageCountUpdated": ({**OF_CODON, "new_count": 2}, {}),
    "CodonFinalCostSet": ({**OF_CODON, "final_cost": 5}, {"final_tokens": TOKENS}),
    "SentinelStatesUpdated": ({**OF_CODON, "sentinel_states": [FULL_SENTINEL]}, {}),
    "CheckpointCreated": (
        {**OF_CODON, "checkpoint_type": "rig-setup", "sha": "abc", "branch": "run-1"},
        {},
    ),
    "InitialCheckpointSet": ({**OF_RUN, "sha": "abc"}, {}),
}
EVERY = sorted(TYPES)


def event(name: str, *, full: bool = False, **more: Any) -> dict[str, Any]:
    must, may = TYPES[name]
    return {"type": name, "data": {**must, **(may if full else {}), **more}}


def problems(data: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidPayloadError, match=r"^the event is invalid: ") as refused:
        run_event(data)
    return refused.value.problems


def test_the_types_are_the_thirteen_of_the_page() -> None:
    names = [kind.model_fields["type"].default for kind in get_args(RunEvent)]

    assert sorted(names) == sorted(GOLDEN["types"]) == EVERY
    assert len(names) == 13
    states = {*GOLDEN["sentinel_state"], *GOLDEN["ours"]["sentinel_state"]}
    assert set(SentinelState.model_fields) == states
    assert all(set(names) <= set(TransitionMetadata.model_fields) for names in METADATA.values())


@pytest.mark.parametrize("full", [False, True], ids=["must", "may"])
@pytest.mark.parametrize("name", EVERY)
def test_an_event_that_is_read_and_published_again_is_the_same(name: str, *, full: bool) -> None:
    posted = event(name, full=full)
    read = run_event(posted)

    once = published_form(read)

    assert (once["version"], once["type"]) == (1, name)
    assert {field: once["data"][field] for field in posted["data"]} == posted["data"] or not full
    assert json.loads(json.dumps(once)) == once
    assert run_event(once) == read
    assert checked(once) == once


def test_an_event_without_a_version_has_the_first() -> None:
    posted = event("RunCompleted")
    assert run_event(posted) == run_event({**posted, "version": GOLDEN["version"]})


@pytest.mark.parametrize("name", EVERY)
def test_another_version_is_refused_and_named(name: str) -> None:
    for version in (0, 2, "1", None, 1.5):
        (problem,) = problems({**event(name), "version": version})
        assert problem == f"version: Input should be 1, not {version!r}"


@pytest.mark.parametrize("name", ["", "runstarted", "RunBegun", None, 7, ["RunStarted"]])
def test_another_type_is_refused_and_named(name: object) -> None:
    (problem,) = problems({"type": name, "data": {}})
    assert problem.startswith("type: ")
    assert "RunStarted" in problem or "string" in problem


@pytest.mark.parametrize("data", [{}, [], "RunStarted", None, 7, {"data": {}}])
def test_an_invalid_event_is_refused(data: Any) -> None:
    (problem,) = problems(data)
    assert problem.startswith("type: ")


@pytest.mark.parametrize("name", EVERY)
def test_unknown_fields_are_refused_and_named_wherever_they_are(name: str) -> None:
    extra = "Extra inputs are not permitted"
    assert problems({**event(name), "surprise": 1}) == (f"surprise: {extra}",)
    assert problems(event(name, surprise=1)) == (f"data.surprise: {extra}",)
    for field, value in event(name, full=True)["data"].items():
        if isinstance(value, dict):
            (problem,) = problems(event(name, full=True, **{field: {**value, "surprise": 1}}))
            assert problem.startswith(f"data.{field}.")
            assert problem.endswith(f"surprise: {extra}")


@pytest.mark.parametrize("name", EVERY)
def test_every_field_that_is_missing_is_named_at_once(name: str) -> None:
    must = TYPES[name][0]
    assert set(problems({"type": name, "data": {}})) == {
        f"data.{field}: this field is missing, add it" for field in must
    }


@pytest.mark.parametrize("name", EVERY)
def test_every_field_that_is_wrong_is_named_at_once(name: str) -> None:
    posted = event(name, full=True)
    nonsense = {field: object() for field in posted["data"]}

    found = problems({**posted, "data": nonsense})

    assert {problem.split(": ")[0] for problem in found} == {f"data.{field}" for field in nonsense}


@pytest.mark.parametrize(
    ("name", "wrong", "where"),
    [
        ("CostsUpdated", {"cost": -1}, "data.cost"),
        ("CostsUpdated", {"tokens": {"input_tokens": -1}}, "data.tokens.input_tokens"),
        ("CostsIncremented", {"cost_delta": -5}, "data.cost_delta"),
        ("CodonFinalCostSet", {"final_cost": 2**53 + 1}, "data.final_cost"),
        ("CodonTransitioned", {"to": "done"}, "data.to"),
        ("CodonTransitioned", {"metadata": {"pid": 0}}, "data.metadata.pid"),
        ("CodonTransitioned", {"from_": "running"}, "data.from_"),
        (
            "CodonTransitioned",
            {"metadata": {"failure_reason": {**FAILURE, "type": "boredom"}}},
            "data.metadata.failure_reason.type",
        ),
        (
            "CodonStarted",
            {"loop_context": {**LOOP, "iteration": -1}},
            "data.loop_context.iteration",
        ),
        ("CheckpointCreated", {"sha": " "}, "data.sha"),
        ("CheckpointCreated", {"checkpoint_type": "nightly"}, "data.checkpoint_type"),
        ("InitialCheckpointSet", {"sha": ""}, "data.sha"),
        ("RunCompleted", {"run_id": ""}, "data.run_id"),
        (
            "RunStarted",
            {"starting_conditions": {**GONE_ON, "reason": "mood"}},
            "data.starting_conditions.continuation.reason",
        ),
        ("SentinelStatesUpdated", {"sentinel_states": [{}]}, "data.sentinel_states.0.id"),
        (
            "SentinelStatesUpdated",
            {"sentinel_states": [sentinel(1)] * 101},
            "data.sentinel_states",
        ),
    ],
)
def test_a_wrong_value_is_named_by_its_place(
    name: str, wrong: Mapping[str, Any], where: str
) -> None:
    assert where in {problem.split(": ")[0] for problem in problems(event(name, **wrong))}


def test_an_inbox_accepts_only_events_with_a_sender() -> None:
    posted = event("CostsUpdated")
    assert WORKSPACE.inbox_data({"sender": "tool", "event": posted}) == {
        "sender": "tool",
        "event": published_form(run_event(posted)),
    }
    for wrong, why in (
        (
            {"sender": "tool", "event": {**posted, "data": OF_CODON}},
            r"data\.cost: this field is missing, add it",
        ),
        ({"sender": "tool", "event": []}, "event: Input should be a valid dictionary"),
        ({"event": posted}, "sender: this field is missing, add it"),
        ({"sender": "tool", "event": posted, "surprise": 1}, "surprise: Extra inputs"),
    ):
        with pytest.raises(InvalidPayloadError, match=why):
            WORKSPACE.inbox_data(wrong)


def test_an_event_is_not_read_twice() -> None:
    data = WORKSPACE.initial_data({"folder": "/data"})
    for upto, read in (("7-0", True), ("7-0", False), ("6-9", False), ("10-0", True)):
        record = Record(RecordId("data"), "workspace", "open", Version(1), data)
        given = WORKSPACE.admit("event_read", {"upto": upto})
        if read:
            data = WORKSPACE.decide(record, "event_read", given).after.data
            assert data["acknowledged"] == upto
            continue
        with pytest.raises(GuardRefusedError, match="it is read already"):
            WORKSPACE.decide(record, "event_read", given)


@pytest.mark.parametrize("state", STATES)
def test_the_missing_fields_of_a_transition_are_listed_in_order(state: str) -> None:
    must = GOLDEN["required_metadata"].get(state, [])
    assert missing(State(state), {}) == must
    assert missing(State(state), dict.fromkeys(must)) == must
    assert missing(State(state), dict.fromkeys(must, " ")) == must
    assert missing(State(state), dict.fromkeys(must, 0)) == [], "zero is a value"


PRODUCERS: Mapping[str, set[tuple[str, str]]] = {
    "RunStarted": {("run", "created")},
    "RunCompleted": {("run", "complete")},
    "RunFailed": {("run", "fail")},
    "RunCrashed": {("run", "crash")},
    "InitialCheckpointSet": {("run", "initial_checkpoint_set")},
    "CodonStarted": {("codon", "created")},
    "CodonTransitioned": {
        ("codon", trigger)
        for trigger in (
            *("start", "initialize", "run", "complete_sentinels", "complete", "fail", "skip"),
            *("lost", "run_ended"),
        )
    },
    "CostsUpdated": {("codon", "costs_updated")},
    "CostsIncremented": {("codon", "costs_incremented")},
    "AssistantMessageCountUpdated": {("codon", "assistant_message_count_updated")},
    "CodonFinalCostSet": {("codon", "codon_final_cost_set")},
    "SentinelStatesUpdated": {("codon", "sentinel_states_updated")},
    "CheckpointCreated": {("codon", "checkpoint_created")},
}
# A wish of a person changes nothing that the page knows of; a workspace is ours.
NONE = {("codon", "skip_requested"), ("run", "stop_requested")}
NONE |= {("workspace", trigger) for trigger in ("created", "event_read", "close")}


def test_every_type_of_event_has_its_rows_and_no_row_has_two_types() -> None:
    of = {"workspace": "data", "run": RUN_ID, "codon": CODON_ID}
    producers: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for name, its_id in of.items():
        machine, (datas, payloads) = MACHINES[name], SAMPLES[name]
        record: Record = Record(
            RecordId(its_id), name, str(machine.stages[0].state), Version(1), dict(datas[0])
        )
        found = [(machine.decide_creation(record), record.data)]
        for row in machine.transitions:
            record = Record(RecordId(its_id), name, str(row.source), Version(5), datas[0])
            for payload in payloads.get(str(row.trigger), ({},)):
                given = machine.admit(str(row.trigger), payload)
                decision = machine.decide(record, str(row.trigger), given, NO_FACTS)
                found.append((decision, decision.after.data))
        for decision, data in found:
            posted = published(event_of(decision), name, data)
            kind = posted["type"] if posted else ""
            assert not posted or published_form(run_event(posted)) == posted
            producers[kind].add((name, decision.trigger))

    assert producers.pop("") == NONE
    assert producers == PRODUCERS
    every = [one for found in producers.values() for one in found]
    assert len(every) == len(set(every)), "no row has two types"


def test_a_codon_that_follows_the_published_events_of_another_is_the_same() -> None:
    first, second = PureCodon(loop_context=LOOP), PureCodon(loop_context=LOOP)
    steps: tuple[tuple[str, dict[str, Any]], ...] = (
        ("checkpoint_created", {"checkpoint_type": "rig-setup", "sha": "r", "branch": "run-1"}),
        ("start", {}),
        ("sentinel_states_updated", {"sentinel_states": [sentinel(9)]}),
        ("initialize", dict(METADATA["initializing"])),
        ("run", dict(METADATA["running"])),
        ("costs_updated", {"cost": 5, "tokens": TOKENS}),
        ("costs_incremented", {"cost_delta": 6, "tokens_delta": TOKENS}),
        ("assistant_message_count_updated", {"new_count": 3}),
        ("complete_sentinels", {}),
        ("codon_final_cost_set", {"final_cost": 12, "final_tokens": TOKENS}),
    )
    ends: tuple[tuple[str, dict[str, Any]], ...] = (
        ("complete", dict(METADATA["completed"])),
        ("fail", dict(METADATA["failed"])),
        ("skip", dict(METADATA["skipped"])),
        ("lost", {"code": "lost_worker", "detail": "gone"}),
        ("lost", {}),
        ("run_ended", {"reason": "it crashed"}),
        ("run_ended", {}),
    )
    for trigger, payload in steps:
        followed(first, second, trigger, payload)
    stood = first.record
    for trigger, payload in ends:
        first.record = second.record = stood
        followed(first, second, trigger, payload)


def followed(first: PureCodon, second: PureCodon, trigger: str, payload: Mapping[str, Any]) -> None:
    decision = first.fire(trigger, **payload)
    posted = published(event_of(decision), "codon", first.data)
    assert posted is not None
    read = run_event(posted)
    assert not isinstance(read, RunStarted | CodonStarted)
    asked, given = wanted(read, second.state)
    second.fire(asked, **given)
    assert (second.state, second.data) == (first.state, first.data)


def test_the_first_checkpoint_of_a_run_is_kept() -> None:
    record = Record(RecordId(RUN_ID), "run", "running", Version(1), RUN.initial_data(RUN_BIRTH))
    read = run_event(event("InitialCheckpointSet", sha="abc"))
    assert not isinstance(read, RunStarted | CodonStarted)
    trigger, payload = wanted(read, record.state)

    after = RUN.decide(record, trigger, RUN.admit(trigger, payload)).after

    assert (after.state, after.data["initial_checkpoint"]) == ("running", "abc")


def test_a_run_that_follows_the_published_events_of_another_is_the_same() -> None:
    data = RUN.initial_data({**RUN_BIRTH, "starting": GONE_ON})
    record = Record(RecordId(RUN_ID), "run", "running", Version(1), data)
    created = published(event_of(RUN.decide_creation(record)), "run", data)
    assert created == {
        "version": 1,
        "type": "RunStarted",
        "data": {
            "run_id": RUN_ID,
            "run_folder": "/data",
            "branch": branch_of(RUN_ID),
            "starting_conditions": GONE_ON,
            "host": "here",
        },
    }
    for trigger, payload in (
        ("initial_checkpoint_set", {"sha": "abc"}),
        ("complete", {"reason": "done"}),
        ("fail", {"reason": "broken"}),
        ("crash", {"code": "told", "detail": "gone"}),
    ):
        decision = RUN.decide(record, trigger, RUN.admit(trigger, payload))
        posted = published(event_of(decision), "run", decision.after.data)
        assert posted is not None
        read = run_event(posted)
        assert not isinstance(read, RunStarted | CodonStarted)
        name, given = wanted(read, record.state)
        again = RUN.decide(record, name, RUN.admit(name, given))
        assert (again.after.state, again.after.data) == (
            decision.after.state,
            decision.after.data,
        )


@pytest.mark.parametrize("name", EVERY)
def test_the_trigger_of_an_event_is_admitted_or_refused_by_the_table(name: str) -> None:
    read = run_event(event(name))
    if isinstance(read, RunStarted | CodonStarted):
        return
    kind = "run" if name.startswith(("Run", "Initial")) else "codon"
    state = "running" if kind == "run" else "preparing"
    trigger, payload = wanted(read, state)
    assert trigger in MACHINES[kind].triggers
    try:
        MACHINES[kind].admit(trigger, payload)
    except CallError as refusal:
        raise AssertionError(f"{name} asks for what nobody admits") from refusal
