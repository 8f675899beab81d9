"""The published shape of an event: who it names, and which reasons come out of which row."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.kernel.event import Cause, Event
from interlock.kernel.machines import MACHINES
from interlock.kernel.published_event import (
    CONTRADICTED,
    OF_ABORT,
    PARTS,
    REASONS,
    Actor,
    LifecycleEvent,
    actor_of,
    exported,
)
from interlock.kernel.reason import AbortReason, TransitionReason
from interlock.kernel.record import RecordId, Version

PUBLISHED = (
    "timestamp",
    "entity_type",
    "entity_id",
    "from_status",
    "to_status",
    "actor",
    "reason",
    "transition_reason",
    "abort_reason",
)
OF_AGENTS = ("task", "agent", "turn")
Said = Mapping[str, Any]


def golden(name: str) -> Any:
    return json.loads((Path(__file__).parents[1] / f"golden/{name}.json").read_text("utf-8"))


def event(
    trigger: str,
    target: str,
    payload: Said | None = None,
    *,
    source: str = "",
    actor: str = "agent",
    reason: str = "",
) -> Event:
    return Event(
        record_id=RecordId("b/one"),
        version=Version(7),
        trigger=trigger,
        source=source,
        target=target,
        payload=payload or {},
        cause=Cause(actor, reason),
        at_ms=1_767_225_600_250,
    )


def rows() -> Iterator[tuple[str, str, str, str, str]]:
    """Yield every row of the coding machines with each of those who fire it."""
    for name in OF_AGENTS:
        for row in MACHINES[name].transitions:
            for actor in row.by:
                yield name, str(row.source), str(row.trigger), str(row.target), actor


def test_it_has_the_published_fields_then_ours() -> None:
    assert tuple(one.name for one in fields(LifecycleEvent)) == (*PUBLISHED, "version", "trigger")


def test_an_event_is_told_in_the_published_words() -> None:
    told = event(
        "failed",
        "failed",
        {"reason": "too long", "why": "prompt_too_long", "abort": None},
        source="in_progress",
        reason="as its agent said",
    )

    assert exported(told, "task") == LifecycleEvent(
        timestamp=1_767_225_600.25,
        entity_type="task",
        entity_id="b/one",
        from_status="in_progress",
        to_status="failed",
        actor="agent",
        reason="too long",
        transition_reason=TransitionReason.PROMPT_TOO_LONG,
        abort_reason=None,
        version=7,
        trigger="failed",
    )


def test_every_row_of_the_coding_machines_has_its_line_and_no_line_is_left_over() -> None:
    known = {
        (name, str(row.trigger), str(row.target))
        for name in OF_AGENTS
        for row in MACHINES[name].transitions
    }

    assert set(REASONS) == known


def test_whoever_fires_a_row_is_in_the_closed_list() -> None:
    by = {actor for one in MACHINES.values() for row in one.transitions for actor in row.by}
    effects = {effect for machine in MACHINES.values() for effect in machine.effects}

    assert by | effects <= set(Actor)
    assert by - PARTS == {"person", "producer"}


@pytest.mark.parametrize(("machine", "source", "trigger", "target", "actor"), list(rows()))
def test_a_row_without_words_of_its_own_says_what_the_table_says(
    machine: str, source: str, trigger: str, target: str, actor: str
) -> None:
    told = exported(event(trigger, target, source=source, actor=actor), machine)

    by_part, by_person = REASONS[machine, trigger, target]
    assert told.transition_reason is (by_part if actor in PARTS else by_person)
    assert (told.abort_reason, told.actor) == (None, actor)
    if target in CONTRADICTED:
        assert told.transition_reason not in CONTRADICTED[target]


@pytest.mark.parametrize(
    ("machine", "trigger", "target", "actor", "payload", "reason", "abort"),
    [tuple(case) for case in golden("lifecycle_events")],
)
def test_the_reasons_of_what_happens(
    machine: str,
    trigger: str,
    target: str,
    actor: str,
    payload: Said,
    reason: str | None,
    abort: str | None,
) -> None:
    told = exported(event(trigger, target, payload, actor=actor), machine)

    assert (told.transition_reason, told.abort_reason) == (reason, abort)


def test_every_published_reason_can_come_out() -> None:
    told = [
        exported(event("failed", "failed", {"why": why}), "task") for why in TransitionReason
    ] + [exported(event("ended", "dead", {"abort": abort}), "agent") for abort in AbortReason]
    told += [
        exported(event(trigger, target, actor=actor), machine)
        for machine, _, trigger, target, actor in rows()
    ]

    published = golden("reasons")
    reasons = {one.transition_reason for one in told} - {None}
    aborts = {one.abort_reason for one in told} - {None}
    assert sorted(map(str, reasons)) == sorted(published["transition_reasons"])
    assert sorted(map(str, aborts)) == sorted(published["abort_reasons"])
    assert set(OF_ABORT) == set(AbortReason)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("stalls", "stalls"),
        ("person", "person"),
        ("producer", "producer"),
        ("", "person"),
        ("ann", "person:ann"),
        ("Stalls", "person:Stalls"),
        ("person:ann", "person:ann"),
        ("mail adapter 7", "person:mail adapter 7"),
    ],
)
def test_an_actor_is_of_the_closed_list_or_a_person(name: str, expected: str) -> None:
    assert actor_of(name) == expected


@pytest.mark.parametrize(
    ("payload", "cause", "expected"),
    [
        ({"reason": "it took too long"}, "deadline is due", "it took too long"),
        ({}, "deadline is due", "deadline is due"),
        ({"reason": ""}, "", ""),
        ({"detail": "lost"}, "", "lost"),
        ({"summary": "mended"}, "", "mended"),
    ],
)
def test_the_reason_is_the_words_closest_to_the_matter(
    payload: Said, cause: str, expected: str
) -> None:
    assert exported(event("failed", "failed", payload, reason=cause), "task").reason == expected


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
reasons = st.sampled_from([*map(str, TransitionReason), *map(str, AbortReason)])
payloads = st.dictionaries(
    st.sampled_from(["why", "abort", "reason", "detail", "summary", "code"]) | st.text(max_size=5),
    reasons | json_values,
    max_size=6,
)
words = st.text(max_size=12)
known = st.sampled_from(sorted(REASONS))
cells = known | st.tuples(words, words, words)
actors = st.sampled_from(sorted(Actor)) | words


@given(cell=cells, source=words, actor=actors, reason=words, payload=payloads)
def test_any_event_can_be_told(
    cell: tuple[str, str, str], source: str, actor: str, reason: str, payload: Said
) -> None:
    machine, trigger, target = cell

    told = exported(
        event(trigger, target, payload, source=source, actor=actor, reason=reason), machine
    )

    assert (told.entity_type, told.from_status, told.to_status) == (machine, source, target)
    assert told.actor in set(Actor) or told.actor.startswith("person:")
    assert told.transition_reason is None or told.transition_reason in set(TransitionReason)
    assert told.abort_reason is None or told.abort_reason in set(AbortReason)
    assert told.transition_reason not in CONTRADICTED.get(target, ())
    json.dumps([told.reason, told.transition_reason, told.abort_reason])
