"""The codon: the published edges, fields and required metadata."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.errors import IllegalTransitionError, InvalidPayloadError
from interlock.systems.runs.machines.codon.names import TERMINAL, State
from interlock.systems.runs.machines.codon.table import CODON
from interlock.systems.runs.machines.codon_types import (
    Codon,
    CompletedCodon,
    CompletingSentinelsCodon,
    FailedCodon,
    InitializingCodon,
    PreparingCodon,
    RunningCodon,
    SkippedCodon,
    StartingCodon,
    codon_cost,
    codon_of,
)
from interlock.systems.runs.machines.errors import InvalidTransitionError, MetadataValidationError
from tests.kernel.samples import FAILURE, TOKENS
from tests.systems.runs.machines.codons import (
    AT_WORK,
    CHAIN,
    CREATED_MS,
    ENDS,
    LOOP,
    MOVED_MS,
    REQUIRED,
    STATES,
    WATCHED,
    PureCodon,
    at,
    bare,
    fields,
    metadata,
    paths,
    sentinel,
)

GOLDEN: dict[str, Any] = json.loads(
    Path(__file__).parents[1].joinpath("golden", "codon.json").read_text("utf-8")
)
EVENTS: dict[str, Any] = json.loads(
    Path(__file__).parents[1].joinpath("golden", "run_events.json").read_text("utf-8")
)
EDGES = {(source, target) for source, _, target in GOLDEN["published"]}
TYPES: dict[str, type[Codon]] = {
    "preparing": PreparingCodon,
    "starting": StartingCodon,
    "initializing": InitializingCodon,
    "running": RunningCodon,
    "completing_sentinels": CompletingSentinelsCodon,
    "completed": CompletedCodon,
    "failed": FailedCodon,
    "skipped": SkippedCodon,
}


def test_the_sixteen_published_edges_are_followed_and_every_other_pair_is_refused() -> None:
    followed = set()
    for source, target in product(STATES, STATES):
        codon = at(source)
        if (source, target) in EDGES:
            followed.add((source, codon.to(target).state))
            continue
        moved = {"from": source, "to": target, "metadata": metadata(source, target)}
        refusal = codon.refused("CodonTransitioned", **moved)
        assert refusal == f"Invalid transition from {source} to {target}"

    assert followed == EDGES
    assert len(EDGES) == 16


@pytest.mark.parametrize("state", STATES)
def test_a_transition_must_name_the_state_of_the_codon_as_its_source(state: str) -> None:
    for source, target in EDGES:
        if source != state:
            moved = {"from": source, "to": target, "metadata": metadata(source, target)}
            refusal = at(state).refused("CodonTransitioned", **moved)
            assert refusal == f"Invalid transition from {state} to {target}"


def test_a_refused_transition_is_the_callers_defect_and_says_which_it_is() -> None:
    with pytest.raises(InvalidTransitionError) as refused:
        at("completed").move("completed", "running", {"session_id": "s"})

    assert str(refused.value) == "Invalid transition from completed to running"
    assert (refused.value.source, refused.value.target) == ("completed", "running")


@pytest.mark.parametrize("end", ENDS)
def test_a_codon_that_has_ended_refuses_every_event(end: str) -> None:
    codon = at(end)
    for trigger in CODON.triggers:
        assert not CODON.rows(end, trigger)
    before = codon.record
    with pytest.raises(IllegalTransitionError, match="it has ended"):
        codon.post("CostsIncremented", cost_delta=1)
    with pytest.raises(IllegalTransitionError, match="it has ended"):
        codon.post("SentinelStatesUpdated", sentinel_states=[])
    assert codon.record == before


def test_the_required_metadata_are_the_published_ones() -> None:
    assert EVENTS["required_metadata"] == {to: list(names) for to, names in REQUIRED.items()}


@pytest.mark.parametrize(
    ("to", "name"), [(to, name) for to, names in REQUIRED.items() for name in names]
)
def test_a_missing_field_is_named(to: str, name: str) -> None:
    for source in (source for source, target in EDGES if target == to):
        lacking = {**metadata(source, to)}
        del lacking[name]
        with pytest.raises(MetadataValidationError) as refused:
            at(source).move(source, to, lacking)

        problem = f"Missing required metadata for transition to {to}: {name}"
        assert str(refused.value) == problem
        assert (refused.value.target, refused.value.names) == (to, (name,))


@pytest.mark.parametrize("to", REQUIRED)
def test_all_missing_fields_are_named_at_once_and_in_order(to: str) -> None:
    source = next(source for source, target in sorted(EDGES) if target == to)
    refusal = at(source).refused("CodonTransitioned", **{"from": source, "to": to})

    names = ", ".join(REQUIRED[to])
    assert refusal == f"Missing required metadata for transition to {to}: {names}"


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_a_blank_checkpoint_is_none(blank: str) -> None:
    with pytest.raises(MetadataValidationError) as refused:
        at("running").to("completed", checkpoint_sha=blank)

    problem = "Missing required metadata for transition to completed: checkpoint_sha"
    assert str(refused.value) == problem


def test_an_impossible_transition_is_refused_before_its_missing_fields() -> None:
    with pytest.raises(InvalidTransitionError):
        at("completed").move("completed", "running", {})


@pytest.mark.parametrize(
    ("to", "name"), [("failed", "failed_during"), ("skipped", "skipped_during")]
)
def test_the_state_in_which_a_codon_ended_must_be_its_state(to: str, name: str) -> None:
    for state, during in product(CHAIN, STATES):
        codon = at(state)
        if during == state:
            assert codon.to(to, **{name: during}).data[name] == state
            continue
        refusal = codon.refused(
            "CodonTransitioned",
            **{"from": state, "to": to, "metadata": {**metadata(state, to), name: during}},
        )
        assert refusal == f"Invalid transition from {during} to {to}"


@pytest.mark.parametrize("exit_code", [-1, 1, 130, 0])
def test_an_exit_code_of_minus_one_is_kept(exit_code: int) -> None:
    failed = at("preparing").to("failed", exit_code=exit_code).codon

    assert isinstance(failed, FailedCodon)
    assert failed.exit_code == exit_code


def test_a_field_of_another_transition_is_refused() -> None:
    with pytest.raises(InvalidPayloadError, match="pid: Extra inputs"):
        at("initializing").to("running", pid=7)
    with pytest.raises(InvalidPayloadError, match=r"metadata\.failure_reason\.type"):
        at("running").to("failed", failure_reason={"type": "boredom", "retriable": True})


# The fields that only the table reads.
OF_TABLE = {
    "preparing": {"checkpoints", "skip_requested"},
    "starting": {"checkpoints", "skip_requested", "started"},
    "initializing": {"checkpoints", "skip_requested"},
    "running": {"checkpoints", "skip_requested", "final_cost_set"},
    "completing_sentinels": {"checkpoints", "skip_requested", "final_cost_set", "completing"},
}


@pytest.mark.parametrize("state", STATES)
def test_each_states_type_has_the_fields_of_the_page_and_no_others(state: str) -> None:
    always, perhaps = fields(state)
    declared = TYPES[state].model_fields
    assert set(declared) == {"status", *always, *perhaps}
    given = {name for name, field in declared.items() if field.is_required()}
    assert given == {"status", *always}


def fill(codon: PureCodon) -> None:
    """Post every event that the codon accepts in its state."""
    if codon.state == "running":
        codon.post("CostsUpdated", cost=40, tokens=TOKENS)
    if codon.state in AT_WORK:
        codon.post("AssistantMessageCountUpdated", new_count=3)
        codon.post("CodonFinalCostSet", final_cost=50, final_tokens=TOKENS)
    if codon.state in WATCHED:
        codon.post("SentinelStatesUpdated", sentinel_states=[sentinel(9)])
    if codon.state in CHAIN:
        for kind in ("rig-setup", "completed", "error", "skipped"):
            codon.post("CheckpointCreated", checkpoint_type=kind, sha=kind, branch="run-1")
        codon.fire("skip_requested", reason="enough")


@pytest.mark.parametrize("path", list(paths()), ids="-".join)
def test_on_every_path_the_data_have_the_fields_of_their_state_only(
    path: tuple[str, ...],
) -> None:
    full, poor = PureCodon(loop_context=LOOP), PureCodon()
    for state, following in zip(path, (*path[1:], ""), strict=True):
        fill(full)
        for codon in (full, poor):
            typed = codon.codon
            always, perhaps = fields(state)
            assert type(typed) is TYPES[state]
            assert typed.status == state
            assert typed.start_time == CREATED_MS
            times = {"start_time", "end_time"}
            assert set(codon.data) - OF_TABLE.get(state, set()) <= always | perhaps
            assert always - times <= set(codon.data)
            if state in ENDS:
                assert typed.model_dump()["end_time"] == MOVED_MS
        if following:
            full.to(following)
            poor.move(state, following, bare(state, following))


def test_a_completed_codon_has_every_field_that_was_reported() -> None:
    full = PureCodon(loop_context=LOOP)
    for state in CHAIN[1:]:
        fill(full)
        full.to(state)
    fill(full)
    completed = full.to("completed", budget_exceeded=BUDGET, context_exceeded=True).codon

    found = completed.model_dump(mode="json", exclude_none=True)
    always, perhaps = fields("completed")
    assert set(found) == {"status", *always, *perhaps}
    assert (found["final_cost"], found["final_tokens"]) == (50, TOKENS)
    assert (found["exit_code"], found["completion_checkpoint"]) == (0, "done")
    assert found["budget_exceeded"] == BUDGET
    assert found["assistant_message_count"] == 3
    assert found["loop_context"] == LOOP


BUDGET = {"currency": "cost", "limit": 40, "used": 50}


def test_data_that_do_not_fit_their_state_are_refused_as_corrupt() -> None:
    codon = at("running")
    codon.record = CODON.decide(codon.record, "complete", {"checkpoint_sha": "x"}).after
    torn = {name: value for name, value in codon.data.items() if name != "final_cost"}

    with pytest.raises(InvalidPayloadError) as refused:
        codon_of(with_data(codon, torn))

    assert str(refused.value).startswith("codon data/1/1 in completed is invalid: ")
    assert "final_cost: this field is missing, add it" in str(refused.value)


def with_data(codon: PureCodon, data: dict[str, Any]) -> Any:
    return type(codon.record)(
        codon.record.id, "codon", codon.record.state, codon.record.version, data
    )


@pytest.mark.parametrize(
    ("kind", "field"),
    [("error", "error_checkpoint"), ("skipped", "skip_checkpoint")],
)
def test_a_checkpoint_is_kept_for_the_state_that_it_belongs_to(kind: str, field: str) -> None:
    end = {"error": "failed", "skipped": "skipped"}[kind]
    for state in CHAIN:
        codon = at(state)
        codon.post("CheckpointCreated", checkpoint_type=kind, sha="early", branch="run-1")
        codon.move(state, end, bare(state, end))
        assert codon.data[field] == "early"
        other = at(state).post("CheckpointCreated", checkpoint_type=kind, sha="e", branch="run-1")
        named = {**bare(state, end), "checkpoint_sha": "with the transition"}
        assert other.move(state, end, named).data[field] == "with the transition"


def test_the_checkpoint_of_the_rig_is_a_field_from_starting_on() -> None:
    codon = PureCodon().post(
        "CheckpointCreated", checkpoint_type="rig-setup", sha="r", branch="run-1"
    )
    assert "rig_setup_checkpoint" not in codon.data, "it is no field of a codon in preparation"
    codon.move("preparing", "starting", {})
    assert codon.data["rig_setup_checkpoint"] == "r"

    named = PureCodon().to("starting", checkpoint_sha="with the transition")
    assert named.data["rig_setup_checkpoint"] == "with the transition"
    late = at("running").post("CheckpointCreated", checkpoint_type="rig-setup", sha="l", branch="b")
    assert late.data["rig_setup_checkpoint"] == "l"
    for end in ENDS:
        assert at("running").to(end).data["rig_setup_checkpoint"] == "rig"


def test_a_completed_codon_has_the_checkpoint_of_its_transition() -> None:
    codon = at("running")
    codon.post("CheckpointCreated", checkpoint_type="completed", sha="taken", branch="run-1")

    assert codon.to("completed", checkpoint_sha="done").data["completion_checkpoint"] == "done"


@pytest.mark.parametrize("end", ENDS)
def test_sentinels_that_were_loaded_have_been_executed_when_it_ends(end: str) -> None:
    states = [sentinel(9), sentinel(4, id="other", status="unloaded", unload_reason="shutdown")]
    codon = at("running").post("SentinelStatesUpdated", sentinel_states=states)
    loaded = codon.codon
    assert isinstance(loaded, RunningCodon)
    assert loaded.sentinels is not None
    assert [state.id for state in loaded.sentinels.loaded] == ["watch", "other"]

    ended = codon.to(end).codon

    assert isinstance(ended, CompletedCodon | FailedCodon | SkippedCodon)
    assert ended.sentinels is not None
    assert ended.sentinels.executed == loaded.sentinels.loaded
    assert (ended.sentinels.total_cost, set(codon.data["sentinels"])) == (
        13,
        {"executed", "total_cost"},
    )


def test_a_sentinel_has_every_published_field() -> None:
    names = [*EVENTS["sentinel_state"], *EVENTS["ours"]["sentinel_state"]]
    reasons = [*EVENTS["unload_reasons"], *EVENTS["ours"]["unload_reasons"]]
    for reason in reasons:
        state = {"unloaded_at": 8, "unload_reason": reason, "failed_llm_calls": 3}
        state |= {"last_llm_call_at": 7, "total_triggers": 4, "status": "unloaded"}
        codon = at("starting").post("SentinelStatesUpdated", sentinel_states=[sentinel(1, **state)])
        assert sorted(codon.data["sentinels"]["loaded"][0]) == sorted(names)
    unknown = sentinel(1, unload_reason="bored")
    assert "unload_reason" in at("starting").refused(
        "SentinelStatesUpdated", sentinel_states=[unknown]
    )


def test_sentinels_are_accepted_from_starting_on() -> None:
    for state in CHAIN:
        if state in WATCHED:
            at(state).post("SentinelStatesUpdated", sentinel_states=[])
        else:
            assert "not allowed in preparing" in at(state).refused(
                "SentinelStatesUpdated", sentinel_states=[]
            )


@pytest.mark.parametrize(
    ("trigger", "payload", "message"),
    [
        ("lost", {"detail": "host is gone"}, "host is gone"),
        ("lost", {"code": "lost_worker"}, "who was at work on it is gone"),
        ("run_ended", {"reason": "the run crashed"}, "the run crashed"),
        ("run_ended", {}, "its run has ended"),
    ],
)
def test_a_codon_without_a_supervisor_fails_in_its_state(
    trigger: str, payload: dict[str, Any], message: str
) -> None:
    for state in CHAIN:
        codon = at(state)
        if state in AT_WORK:
            codon.post("CostsUpdated", cost=70)
        codon.fire(trigger, **payload)
        failed = codon.codon
        assert isinstance(failed, FailedCodon)
        assert (failed.failed_during, failed.exit_code) == (state, -1)
        assert failed.failure_reason.model_dump(exclude_none=True) == {
            "type": "unknown",
            "retriable": False,
            "message": message,
        }
        assert codon_cost(failed) == (70 if state in AT_WORK else 0)


def test_a_request_to_skip_interrupts_the_codon_and_is_kept_until_it_ends() -> None:
    for state in CHAIN:
        codon = at(state)
        assert codon.fire("skip_requested").interrupts
        assert (codon.state, codon.data["skip_requested"]) == (state, "skipped")
        assert codon.fire("skip_requested", reason="it is slow").after.data["skip_requested"] == (
            "it is slow"
        )
        assert "skip_requested" not in codon.to("failed", failure_reason=FAILURE).data


def test_the_terminal_states_are_the_published_ones() -> None:
    assert {str(status) for status in TERMINAL} == set(ENDS)
    assert [state for state in State if state.is_terminal] == [State(end) for end in ENDS]
