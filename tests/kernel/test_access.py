"""What an agent may fire at which level of trust, and how trust is earned and lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.access import NEEDED, TrackRecord, Trust, allowed, needed, refusal
from kernel.errors import UnknownTriggerError

U, P, T, E = Trust.UNTRUSTED, Trust.PROBATIONARY, Trust.TRUSTED, Trust.ELEVATED
# fmt: off
TABLE = {  # trigger: allowed as untrusted, probationary, trusted, elevated
    "claim":        (True,  True,  True,  True),
    "start":        (True,  True,  True,  True),
    "complete":     (True,  True,  True,  True),
    "fail":         (True,  True,  True,  True),
    "block":        (False, True,  True,  True),
    "split":        (False, False, True,  True),
    "release":      (False, False, True,  True),
    "cancel_child": (False, False, False, True),
}
# fmt: on
CELLS = [(lv, act, cell) for act, row in TABLE.items() for lv, cell in zip(Trust, row, strict=True)]
NOBODYS = ["approve", "close", "", "CLAIM"]


def after(record: TrackRecord, *, successes: int) -> TrackRecord:
    for _ in range(successes):
        record = record.succeeded()
    return record


def test_the_table_covers_exactly_the_triggers_of_an_agent() -> None:
    assert set(NEEDED) == set(TABLE)
    assert list(Trust) == [U, P, T, E]


@pytest.mark.parametrize(("level", "trigger", "expected"), CELLS)
def test_each_cell_of_the_table_is_decided_and_explained(
    *, level: Trust, trigger: str, expected: bool
) -> None:
    lowest = next(lv for lv, cell in zip(Trust, TABLE[trigger], strict=True) if cell)

    assert allowed(level, trigger) is expected
    assert needed(trigger) is lowest
    assert bool(refusal(level, trigger)) is not expected


def test_a_refusal_names_the_level_that_would_do() -> None:
    assert refusal(U, "split") == ("split needs the trust level trusted; this agent's is untrusted")


@pytest.mark.parametrize("trigger", NOBODYS)
def test_a_trigger_outside_the_table_is_no_agents_to_fire(trigger: str) -> None:
    assert not any(allowed(level, trigger) for level in Trust)
    assert refusal(E, trigger) == f"no level of trust lets an agent fire {trigger}"
    with pytest.raises(UnknownTriggerError, match="its triggers: block, cancel_child"):
        needed(trigger)


def test_a_new_agent_starts_untrusted_and_empty() -> None:
    assert TrackRecord() == TrackRecord(level=U, successes=0, failures=0, violations=0)


def test_trust_is_earned_at_1_3_and_10_successes() -> None:
    levels = [after(TrackRecord(), successes=count).level for count in range(13)]

    assert levels == [U, P, P, T, T, T, T, T, T, T, E, E, E]


def test_a_success_lifts_by_one_level_however_many_there_are() -> None:
    rich = TrackRecord(level=U, successes=50)

    assert [after(rich, successes=count).level for count in range(5)] == [U, P, T, E, E]


def test_a_failure_is_counted_and_costs_no_trust() -> None:
    before = TrackRecord(level=T, successes=5, failures=1, violations=2)

    assert before.failed() == TrackRecord(level=T, successes=5, failures=2, violations=2)


@pytest.mark.parametrize(("level", "lower"), [(E, T), (T, P), (P, U), (U, U)])
def test_a_violation_demotes_by_one_and_is_neither_success_nor_failure(
    level: Trust, lower: Trust
) -> None:
    before = TrackRecord(level=level, successes=20, failures=3, violations=1)

    assert before.violated() == TrackRecord(level=lower, successes=0, failures=3, violations=2)


@pytest.mark.parametrize(("level", "anew"), [(E, 10), (T, 3), (P, 1)])
def test_lost_trust_is_earned_again_by_as_many_successes_since_the_violation(
    level: Trust, anew: int
) -> None:
    demoted = TrackRecord(level=level, successes=100).violated()

    assert after(demoted, successes=anew - 1).level < level
    assert after(demoted, successes=anew).level is level


def test_what_happens_makes_a_new_record_and_leaves_the_old_one() -> None:
    before = TrackRecord(level=P, successes=2)
    before.succeeded(), before.failed(), before.violated()

    assert before == TrackRecord(level=P, successes=2)


@given(deeds=st.lists(st.sampled_from(["succeeded", "failed", "violated"]), max_size=60))
def test_a_level_moves_by_at_most_one_and_nothing_is_lost_from_the_count(deeds: list[str]) -> None:
    record = TrackRecord()
    for deed in deeds:
        earlier, record = record, getattr(record, deed)()
        assert abs(record.level.rank - earlier.level.rank) <= 1
        assert deed != "failed" or record.level is earlier.level

    since = deeds[len(deeds) - deeds[::-1].index("violated") :] if "violated" in deeds else deeds
    assert record.successes == since.count("succeeded")
    assert record.failures == deeds.count("failed")
    assert record.violations == deeds.count("violated")
