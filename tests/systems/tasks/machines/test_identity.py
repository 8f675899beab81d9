"""How an identity earns trust and loses it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.kernel.machine import Machine
from interlock.kernel.record import Record, RecordId, Version
from interlock.systems.tasks.machines.identity.table import IDENTITY
from interlock.systems.tasks.machines.trust import Trust

U, P, T, E = Trust.UNTRUSTED, Trust.PROBATIONARY, Trust.TRUSTED, Trust.ELEVATED
NOTHING = {"successes": 0, "failures": 0, "violations": 0}


def identity(level: str = U, **counts: int) -> Record:
    machine: Machine = IDENTITY
    data = machine.initial_data({"name": "agent", "role": "any", "command": "make"})
    assert {name: data[name] for name in NOTHING} == NOTHING
    return Record(RecordId("b/identity~1"), "identity", level, Version(1), {**data, **counts})


def fired(record: Record, *triggers: str) -> Record:
    for trigger in triggers:
        payload = {} if trigger in {"promoted", "unused", "retired"} else {"task": "b/t"}
        record = IDENTITY.decide(record, trigger, IDENTITY.admit(trigger, payload)).after
    return record


def test_trust_is_earned_at_1_3_and_10_successes() -> None:
    levels = [fired(identity(), *["succeeded"] * count).state for count in range(13)]

    assert levels == [U, P, P, T, T, T, T, T, T, T, E, E, E]


def test_a_success_lifts_by_one_level_at_most() -> None:
    rich = identity(P, successes=50)

    assert [fired(rich, *["succeeded"] * count).state for count in range(4)] == [P, T, E, E]


def test_a_failure_is_counted_and_costs_no_trust() -> None:
    after = fired(identity(T, successes=5, failures=1), "failed")

    assert (after.state, after.data["failures"], after.data["successes"]) == (T, 2, 5)


@pytest.mark.parametrize(("level", "lower"), [(E, T), (T, P), (P, U), (U, U)])
def test_a_violation_demotes_by_one_and_is_neither_success_nor_failure(
    level: Trust, lower: Trust
) -> None:
    after = fired(identity(level, successes=20, failures=3, violations=1), "violated")

    counts = {name: after.data[name] for name in NOTHING}
    assert (after.state, counts) == (lower, {"successes": 0, "failures": 3, "violations": 2})


@pytest.mark.parametrize(("level", "anew"), [(E, 10), (T, 3), (P, 1)])
def test_lost_trust_is_earned_again_by_as_many_successes_since_the_violation(
    level: Trust, anew: int
) -> None:
    demoted = fired(identity(level, successes=100), "violated")

    assert Trust(fired(demoted, *["succeeded"] * (anew - 1)).state) < level
    assert fired(demoted, *["succeeded"] * anew).state == level


@pytest.mark.parametrize(("level", "lower"), [(E, T), (T, P), (P, U)])
def test_unused_trust_is_lost_by_its_timer(level: Trust, lower: Trust) -> None:
    stage = IDENTITY.stage(level)

    assert [timer.delay_ms for timer in stage.due({})] == [90 * 86_400_000]
    after = fired(identity(level, successes=9), "unused")
    assert (after.state, after.data["successes"]) == (lower, 0)


@given(outcomes=st.lists(st.sampled_from(["succeeded", "failed", "violated"]), max_size=60))
def test_a_level_moves_by_at_most_one_and_every_outcome_is_counted(outcomes: list[str]) -> None:
    record = identity()
    for outcome in outcomes:
        earlier, record = record, fired(record, outcome)
        assert abs(Trust(record.state).rank - Trust(earlier.state).rank) <= 1
        assert outcome != "failed" or record.state == earlier.state
        record = replace(record, version=Version(1))

    since = (
        outcomes[len(outcomes) - outcomes[::-1].index("violated") :]
        if "violated" in outcomes
        else outcomes
    )
    assert record.data["successes"] == since.count("succeeded")
    assert record.data["failures"] == outcomes.count("failed")
    assert record.data["violations"] == outcomes.count("violated")
