"""The codon: the page's edges and fields, what its transitions must say, and what it costs."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.errors import (
    IllegalTransitionError,
    InvalidPayloadError,
    InvalidTransitionError,
    MetadataValidationError,
)
from interlock.kernel.machines.runs.codon.names import TERMINAL, State
from interlock.kernel.machines.runs.codon.table import CODON
from interlock.kernel.machines.runs.codon_types import (
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
from tests.kernel.runs.codons import (
    AT_WORK,
    BORN_MS,
    CHAIN,
    ENDS,
    LOOP,
    MOVED_MS,
    REQUIRED,
    STATES,
    WATCHED,
    Led,
    at,
    bare,
    fields,
    metadata,
    paths,
    sentinel,
)
from tests.kernel.samples import FAILURE, TOKENS

GOLDEN: dict[str, Any] = json.loads(
    Path(__file__).parents[2].joinpath("golden", "codon.json").read_text("utf-8")
)
EVENTS: dict[str, Any] = json.loads(
    Path(__file__).parents[2].joinpath("golden", "run_events.json").read_text("utf-8")
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


# --- which transitions there are -------------------------------------------------------------


def test_the_sixteen_published_edges_are_followed_and_every_other_pair_is_refused() -> None:
    followed = set()
    for source, target in product(STATES, STATES):
        codon = at(source)
        if (source, target) in EDGES:
            followed.add((source, codon.to(target).state))
            continue
        said = {"from": source, "to": target, "metadata": metadata(source, target)}
        told = codon.refused("CodonTransitioned", **said)
        assert told == f"Invalid transition from {source} to {target}"

    assert followed == EDGES
    assert len(EDGES) == 16


@pytest.mark.parametrize("state", STATES)
def test_where_a_transition_comes_from_must_be_where_the_codon_stands(state: str) -> None:
    for source, target in EDGES:
        if source != state:
            said = {"from": source, "to": target, "metadata": metadata(source, target)}
            told = at(state).refused("CodonTransitioned", **said)
            assert told == f"Invalid transition from {state} to {target}"


def test_a_refused_transition_is_the_callers_defect_and_says_which_it_is() -> None:
    with pytest.raises(InvalidTransitionError) as refused:
        at("completed").move("completed", "running", {"session_id": "s"})

    assert str(refused.value) == "Invalid transition from completed to running"
    assert (refused.value.source, refused.value.target) == ("completed", "running")


@pytest.mark.parametrize("end", ENDS)
def test_nothing_is_told_of_a_codon_that_has_ended(end: str) -> None:
    codon = at(end)
    for trigger in CODON.triggers:
        assert not CODON.rows(end, trigger)
    before = codon.record
    with pytest.raises(IllegalTransitionError, match="it has ended"):
        codon.tell("CostsIncremented", cost_delta=1)
    with pytest.raises(IllegalTransitionError, match="it has ended"):
        codon.tell("SentinelStatesUpdated", sentinel_states=[])
    assert codon.record == before


# --- what they must say ----------------------------------------------------------------------


def test_what_transitions_must_say_is_what_the_page_says() -> None:
    assert EVENTS["required_metadata"] == {to: list(names) for to, names in REQUIRED.items()}


@pytest.mark.parametrize(
    ("to", "name"), [(to, name) for to, names in REQUIRED.items() for name in names]
)
def test_what_is_not_said_is_named(to: str, name: str) -> None:
    for source in (source for source, target in EDGES if target == to):
        said = {**metadata(source, to)}
        del said[name]
        with pytest.raises(MetadataValidationError) as refused:
            at(source).move(source, to, said)

        told = f"Missing required metadata for transition to {to}: {name}"
        assert str(refused.value) == told
        assert (refused.value.target, refused.value.names) == (to, (name,))


@pytest.mark.parametrize("to", REQUIRED)
def test_all_that_is_not_said_is_named_at_once_and_in_order(to: str) -> None:
    source = next(source for source, target in sorted(EDGES) if target == to)
    told = at(source).refused("CodonTransitioned", **{"from": source, "to": to})

    names = ", ".join(REQUIRED[to])
    assert told == f"Missing required metadata for transition to {to}: {names}"


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_a_blank_checkpoint_is_none(blank: str) -> None:
    with pytest.raises(MetadataValidationError) as refused:
        at("running").to("completed", checkpoint_sha=blank)

    told = "Missing required metadata for transition to completed: checkpoint_sha"
    assert str(refused.value) == told


def test_an_impossible_transition_is_told_before_what_it_does_not_say() -> None:
    with pytest.raises(InvalidTransitionError):
        at("completed").move("completed", "running", {})


@pytest.mark.parametrize(
    ("to", "name"), [("failed", "failed_during"), ("skipped", "skipped_during")]
)
def test_while_what_it_ended_is_where_it_stands_and_nothing_else(to: str, name: str) -> None:
    for state, said in product(CHAIN, STATES):
        codon = at(state)
        if said == state:
            assert codon.to(to, **{name: said}).data[name] == state
            continue
        told = codon.refused(
            "CodonTransitioned",
            **{"from": state, "to": to, "metadata": {**metadata(state, to), name: said}},
        )
        assert told == f"Invalid transition from {said} to {to}"


@pytest.mark.parametrize("exit_code", [-1, 1, 130, 0])
def test_an_exit_code_of_minus_one_says_that_there_was_no_process(exit_code: int) -> None:
    failed = at("preparing").to("failed", exit_code=exit_code).codon

    assert isinstance(failed, FailedCodon)
    assert failed.exit_code == exit_code


def test_what_a_transition_does_not_take_is_refused() -> None:
    with pytest.raises(InvalidPayloadError, match="pid: Extra inputs"):
        at("initializing").to("running", pid=7)
    with pytest.raises(InvalidPayloadError, match=r"metadata\.failure_reason\.type"):
        at("running").to("failed", failure_reason={"type": "boredom", "retriable": True})


# --- what is known in which state ------------------------------------------------------------

# The table's own, while it lives: nobody else reads them.
OWN = {
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


def fill(codon: Led) -> None:
    """Tell a codon all that can be told where it stands."""
    if codon.state == "running":
        codon.tell("CostsUpdated", cost=40, tokens=TOKENS)
    if codon.state in AT_WORK:
        codon.tell("AssistantMessageCountUpdated", new_count=3)
        codon.tell("CodonFinalCostSet", final_cost=50, final_tokens=TOKENS)
    if codon.state in WATCHED:
        codon.tell("SentinelStatesUpdated", sentinel_states=[sentinel(9)])
    if codon.state in CHAIN:
        for kind in ("rig-setup", "completed", "error", "skipped"):
            codon.tell("CheckpointCreated", checkpoint_type=kind, sha=kind, branch="run-1")
        codon.fire("skip_requested", reason="enough")


@pytest.mark.parametrize("way", list(paths()), ids="-".join)
def test_no_field_of_another_state_is_left_on_any_way_however_much_is_told(
    way: tuple[str, ...],
) -> None:
    full, poor = Led(loop_context=LOOP), Led()
    for here, state in zip(way, (*way[1:], ""), strict=True):
        fill(full)
        for codon in (full, poor):
            kept = codon.codon
            always, perhaps = fields(here)
            assert type(kept) is TYPES[here]
            assert kept.status == here
            assert kept.start_time == BORN_MS
            told = {"start_time", "end_time"}
            assert set(codon.data) - OWN.get(here, set()) <= always | perhaps
            assert always - told <= set(codon.data)
            if here in ENDS:
                assert kept.model_dump()["end_time"] == MOVED_MS
        if state:
            full.to(state)
            poor.move(here, state, bare(here, state))


def test_what_was_told_on_the_way_is_there_at_the_end() -> None:
    full = Led(loop_context=LOOP)
    for state in CHAIN[1:]:
        fill(full)
        full.to(state)
    fill(full)
    completed = full.to("completed", budget_exceeded=BUDGET, context_exceeded=True).codon

    told = completed.model_dump(mode="json", exclude_none=True)
    always, perhaps = fields("completed")
    assert set(told) == {"status", *always, *perhaps}
    assert (told["final_cost"], told["final_tokens"]) == (50, TOKENS)
    assert (told["exit_code"], told["completion_checkpoint"]) == (0, "done")
    assert told["budget_exceeded"] == BUDGET
    assert told["loop_context"] == LOOP


BUDGET = {"currency": "cost", "limit": 40, "used": 50}


def test_data_that_is_not_what_its_state_has_is_corrupt_and_told_so() -> None:
    codon = at("running")
    codon.record = CODON.decide(codon.record, "complete", {"checkpoint_sha": "x"}).after
    torn = {name: value for name, value in codon.data.items() if name != "final_cost"}

    with pytest.raises(InvalidPayloadError) as refused:
        codon_of(with_data(codon, torn))

    assert str(refused.value).startswith("codon data/1/1 in completed is invalid: ")
    assert "final_cost: Field required" in str(refused.value)


def with_data(codon: Led, data: dict[str, Any]) -> Any:
    return type(codon.record)(
        codon.record.id, "codon", codon.record.state, codon.record.version, data
    )


# --- checkpoints, sentinels, messages --------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "field"),
    [("error", "error_checkpoint"), ("skipped", "skip_checkpoint")],
)
def test_a_checkpoint_ends_in_the_field_of_the_state_that_it_belongs_to(
    kind: str, field: str
) -> None:
    end = {"error": "failed", "skipped": "skipped"}[kind]
    for state in CHAIN:
        codon = at(state)
        codon.tell("CheckpointCreated", checkpoint_type=kind, sha="early", branch="run-1")
        codon.move(state, end, bare(state, end))
        assert codon.data[field] == "early"
        other = at(state).tell("CheckpointCreated", checkpoint_type=kind, sha="e", branch="run-1")
        said = {**bare(state, end), "checkpoint_sha": "told with the transition"}
        assert other.move(state, end, said).data[field] == "told with the transition"


def test_the_checkpoint_of_the_rig_is_known_from_where_the_agent_is_started() -> None:
    codon = Led().tell("CheckpointCreated", checkpoint_type="rig-setup", sha="r", branch="run-1")
    assert "rig_setup_checkpoint" not in codon.data, "it is no field of a codon in preparation"
    codon.move("preparing", "starting", {})
    assert codon.data["rig_setup_checkpoint"] == "r"

    told = Led().to("starting", checkpoint_sha="with the transition")
    assert told.data["rig_setup_checkpoint"] == "with the transition"
    late = at("running").tell("CheckpointCreated", checkpoint_type="rig-setup", sha="l", branch="b")
    assert late.data["rig_setup_checkpoint"] == "l"
    for end in ENDS:
        assert at("running").to(end).data["rig_setup_checkpoint"] == "rig"


def test_a_completed_codons_checkpoint_is_what_its_transition_says() -> None:
    codon = at("running")
    codon.tell("CheckpointCreated", checkpoint_type="completed", sha="taken", branch="run-1")

    assert codon.to("completed", checkpoint_sha="said").data["completion_checkpoint"] == "said"


@pytest.mark.parametrize("end", ENDS)
def test_sentinels_that_were_loaded_have_been_executed_when_it_ends(end: str) -> None:
    told = [sentinel(9), sentinel(4, id="other", status="unloaded", unload_reason="shutdown")]
    codon = at("running").tell("SentinelStatesUpdated", sentinel_states=told)
    loaded = codon.codon
    assert isinstance(loaded, RunningCodon)
    assert loaded.sentinels is not None
    assert [one.id for one in loaded.sentinels.loaded] == ["watch", "other"]

    ended = codon.to(end).codon

    assert isinstance(ended, CompletedCodon | FailedCodon | SkippedCodon)
    assert ended.sentinels is not None
    assert ended.sentinels.executed == loaded.sentinels.loaded
    assert (ended.sentinels.total_cost, set(codon.data["sentinels"])) == (
        13,
        {"executed", "total_cost"},
    )


def test_a_sentinel_is_told_with_every_field_of_the_page() -> None:
    names = [*EVENTS["sentinel_state"], *EVENTS["ours"]["sentinel_state"]]
    reasons = [*EVENTS["unload_reasons"], *EVENTS["ours"]["unload_reasons"]]
    for reason in reasons:
        told = {"unloaded_at": 8, "unload_reason": reason, "failed_llm_calls": 3}
        told |= {"last_llm_call_at": 7, "total_triggers": 4, "status": "unloaded"}
        codon = at("starting").tell("SentinelStatesUpdated", sentinel_states=[sentinel(1, **told)])
        assert sorted(codon.data["sentinels"]["loaded"][0]) == sorted(names)
    unknown = sentinel(1, unload_reason="bored")
    assert "unload_reason" in at("starting").refused(
        "SentinelStatesUpdated", sentinel_states=[unknown]
    )


def test_sentinels_are_told_of_from_where_they_can_be_loaded() -> None:
    for state in CHAIN:
        if state in WATCHED:
            at(state).tell("SentinelStatesUpdated", sentinel_states=[])
        else:
            assert "not allowed in preparing" in at(state).refused(
                "SentinelStatesUpdated", sentinel_states=[]
            )


# --- ours ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trigger", "payload", "message"),
    [
        ("lost", {"detail": "host is gone"}, "host is gone"),
        ("lost", {"code": "lost_worker"}, "who was at work on it is gone"),
        ("run_ended", {"reason": "the run crashed"}, "the run crashed"),
        ("run_ended", {}, "its run has ended"),
    ],
)
def test_what_nobody_can_end_any_more_has_failed_while_what_it_was(
    trigger: str, payload: dict[str, Any], message: str
) -> None:
    for state in CHAIN:
        codon = at(state)
        if state in AT_WORK:
            codon.tell("CostsUpdated", cost=70)
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


def test_a_wish_to_skip_is_kept_until_it_ends_and_interrupts_who_is_at_work() -> None:
    for state in CHAIN:
        codon = at(state)
        assert codon.fire("skip_requested").interrupts
        assert (codon.state, codon.data["skip_requested"]) == (state, "skipped")
        assert codon.fire("skip_requested", reason="it is slow").after.data["skip_requested"] == (
            "it is slow"
        )
        assert "skip_requested" not in codon.to("failed", failure_reason=FAILURE).data


def test_terminal_is_what_the_page_calls_so() -> None:
    assert {str(status) for status in TERMINAL} == set(ENDS)
    assert [state for state in State if state.is_terminal] == [State(end) for end in ENDS]
