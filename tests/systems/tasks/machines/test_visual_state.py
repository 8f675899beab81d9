"""How an agent is shown: the published mapping, exactly at its limits, and what it leaves open."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.errors import InvalidPayloadError
from interlock.systems.tasks.machines.visual_state import (
    APPEARANCES,
    PUBLISHED,
    Appearance,
    Thresholds,
    VisualState,
    classify,
)

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden/visual_states.json").read_text("utf-8")
)
look = partial(classify, activity=None, spawn_age_s=1000, heartbeat_age_s=1, has_pid=True)
WORDS = [(word, state) for state, words in GOLDEN["status_words"].items() for word in words]


def test_the_seven_states_have_the_published_symbols_and_colours() -> None:
    expected = {name: Appearance(symbol, colour) for name, symbol, colour in GOLDEN["states"]}

    assert list(APPEARANCES.items()) == list(expected.items())
    assert set(APPEARANCES) == set(VisualState)


def test_the_thresholds_are_the_published_ones() -> None:
    assert asdict(PUBLISHED) == GOLDEN["thresholds"]


@pytest.mark.parametrize(("state", "session", "expected"), GOLDEN["mapping"])
def test_each_row_of_the_published_mapping_holds_at_its_limit(
    state: str, session: dict[str, Any], expected: str
) -> None:
    assert look(state, **session) == expected


@pytest.mark.parametrize(("word", "expected"), WORDS)
def test_a_published_status_word_reads_as_its_state(word: str, expected: str) -> None:
    assert look(word) == expected


def test_the_limits_move_with_the_thresholds() -> None:
    patient = partial(look, thresholds=Thresholds(stall_s=900, spawn_s=120))

    assert patient("starting", spawn_age_s=119.999) is VisualState.SPAWNING
    assert patient("starting", spawn_age_s=120) is VisualState.DEAD
    assert patient("working", heartbeat_age_s=899.999) is VisualState.RUNNING
    assert patient("working", heartbeat_age_s=900) is VisualState.STALLED


@pytest.mark.parametrize("name", ["stall_s", "spawn_s"])
@pytest.mark.parametrize("value", [0, -1, math.nan])
def test_a_threshold_that_is_not_above_zero_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(InvalidPayloadError, match=f"{name} is {value}"):
        Thresholds(**{name: value})


def test_a_merge_shows_although_the_agent_is_silent_or_has_no_process() -> None:
    assert look("working", activity="pushing", heartbeat_age_s=5000) is VisualState.MERGING
    merging = look("working", activity="merging", heartbeat_age_s=None, has_pid=False)
    assert merging is VisualState.MERGING


def test_another_activity_changes_nothing() -> None:
    assert look("working", activity="testing") is VisualState.RUNNING
    assert look("working", activity="testing", heartbeat_age_s=300) is VisualState.STALLED


@pytest.mark.parametrize("state", ["starting", "idle", "dead", "napping"])
def test_only_an_agent_at_work_merges(state: str) -> None:
    assert look(state, activity="merging") is look(state)


def test_a_start_is_lost_after_the_same_time_without_a_process() -> None:
    assert look("starting", spawn_age_s=59, has_pid=False) is VisualState.SPAWNING
    assert look("starting", spawn_age_s=60, has_pid=False) is VisualState.DEAD


def test_an_agent_that_never_beat_is_silent_since_its_spawn() -> None:
    silent = partial(look, "working", heartbeat_age_s=None)

    assert silent(spawn_age_s=299.999) is VisualState.RUNNING
    assert silent(spawn_age_s=300) is VisualState.STALLED


def test_an_agent_at_work_without_heartbeat_and_process_is_unknown() -> None:
    for age in (1, 5000):
        seen = look("working", heartbeat_age_s=None, has_pid=False, spawn_age_s=age)
        assert seen is VisualState.UNKNOWN


@pytest.mark.parametrize(("age", "expected"), [(299, "running"), (300, "stalled")])
def test_a_heartbeat_counts_without_a_process_of_ours(age: int, expected: str) -> None:
    assert look("working", heartbeat_age_s=age, has_pid=False) == expected


@pytest.mark.parametrize("state", ["", "WORKING", "merging", "spawning", "unknown"])
def test_a_state_that_is_no_published_word_is_unknown(state: str) -> None:
    assert look(state, heartbeat_age_s=5000) is VisualState.UNKNOWN


@pytest.mark.parametrize("state", ["idle", "waiting", "paused", "unknown", ""])
def test_without_a_process_an_agent_that_is_not_active_is_dead(state: str) -> None:
    assert look(state, has_pid=False) is VisualState.DEAD
