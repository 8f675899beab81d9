"""The page's own names, states and units are read and written, by one table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from interlock.kernel.errors import InvalidPayloadError
from interlock.systems.runs.machines.codon.names import State
from interlock.systems.runs.machines.codon_types import Codon
from interlock.systems.runs.machines.events import RunEvent, published_form, run_event
from interlock.systems.runs.machines.published_names import (
    NAMES,
    from_published,
    is_published,
    published_name,
    to_published,
)
from interlock.systems.runs.machines.workspace.table import WORKSPACE
from tests.systems.runs.machines.test_events import EVERY, event

IDS = {"runId": "data/1", "codonId": "clean"}
OUR_IDS = {"run_id": "data/1", "codon_id": "clean"}
# Events as the page has them, and as ours.
OF_PAGE: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    (
        "CostsUpdated",
        {"cost": 0.0234, "tokens": {"inputTokens": 1500, "outputTokens": 800}},
        {"cost": 23_400, "tokens": {"input_tokens": 1500, "output_tokens": 800}},
    ),
    (
        "CostsIncremented",
        {"costDelta": 0.0012, "tokensDelta": {"inputTokens": 100, "outputTokens": 50}},
        {"cost_delta": 1_200, "tokens_delta": {"input_tokens": 100, "output_tokens": 50}},
    ),
    (
        "CodonTransitioned",
        {
            "from": "starting",
            "to": "initializing",
            "metadata": {"claudePid": 7, "claudeLogPath": "a.log", "previousSessionId": "s-0"},
        },
        {
            "from": "starting",
            "to": "initializing",
            "metadata": {"pid": 7, "log_path": "a.log", "previous_session_id": "s-0"},
        },
    ),
    (
        "CodonTransitioned",
        {"from": "initializing", "to": "running", "metadata": {"claudeSessionId": "s-1"}},
        {"from": "initializing", "to": "running", "metadata": {"session_id": "s-1"}},
    ),
    (
        "CodonTransitioned",
        {"from": "completing-sentinels", "to": "completed", "metadata": {"checkpointSha": "a"}},
        {"from": "completing_sentinels", "to": "completed", "metadata": {"checkpoint_sha": "a"}},
    ),
    (
        "CodonTransitioned",
        {"from": "running", "to": "skipped", "metadata": {"skippedDuring": "completing-sentinels"}},
        {
            "from": "running",
            "to": "skipped",
            "metadata": {"skipped_during": "completing_sentinels"},
        },
    ),
    (
        "CodonTransitioned",
        {
            "from": "running",
            "to": "completed",
            "metadata": {"budgetExceeded": {"currency": "cost", "limit": 0.5, "used": 0.75}},
        },
        {
            "from": "running",
            "to": "completed",
            "metadata": {
                "budget_exceeded": {"currency": "cost", "limit": 500_000, "used": 750_000}
            },
        },
    ),
    (
        "CodonTransitioned",
        {
            "from": "running",
            "to": "completed",
            "metadata": {"budgetExceeded": {"currency": "duration", "limit": 500, "used": 750}},
        },
        {
            "from": "running",
            "to": "completed",
            "metadata": {"budget_exceeded": {"currency": "duration", "limit": 500, "used": 750}},
        },
    ),
    (
        "SentinelStatesUpdated",
        {
            "sentinelStates": [
                {
                    "id": "eye",
                    "model": "m",
                    "loadedAt": "2026-11-23T08:00:00.250Z",
                    "llmCallCount": 2,
                    "failedLLMCalls": 1,
                    "totalCost": 0.5,
                    "status": "active",
                }
            ]
        },
        {
            "sentinel_states": [
                {
                    "id": "eye",
                    "model": "m",
                    "loaded_at": 1_795_420_800_250,
                    "llm_call_count": 2,
                    "failed_llm_calls": 1,
                    "total_cost": 500_000,
                    "status": "active",
                }
            ]
        },
    ),
)


def fields(kind: Any) -> Iterator[str]:
    """Yield the name of every field of a type, also of the types of its fields."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            yield field.alias or name
            yield from fields(field.annotation)
    for part in get_args(kind):
        yield from fields(part)


def problem(data: dict[str, Any]) -> str:
    with pytest.raises(InvalidPayloadError) as refused:
        run_event(data)
    return "; ".join(refused.value.problems)


def test_the_table_has_every_field_whose_name_differs_and_each_once() -> None:
    named = {name.ours: name.published for name in NAMES}

    known = {*fields(RunEvent), *fields(Codon)}
    assert {name for name in known if "_" in name} <= set(named)
    assert len(named) == len(set(named.values())) == len(NAMES)
    assert not any("_" in published for published in named.values())


@pytest.mark.parametrize(("name", "theirs", "ours"), OF_PAGE)
def test_an_event_of_the_page_is_read_and_written(
    name: str, theirs: dict[str, Any], ours: dict[str, Any]
) -> None:
    of_page = {"type": name, "data": {**IDS, **theirs}}

    read = run_event(of_page)

    assert read == run_event({"type": name, "data": {**OUR_IDS, **ours}})
    assert to_published({**OUR_IDS, **ours}) == {**IDS, **theirs}


@pytest.mark.parametrize("name", EVERY)
def test_an_event_that_is_written_in_the_pages_form_is_read_as_the_same(name: str) -> None:
    read = run_event(event(name, full=True))

    written = json.loads(json.dumps(to_published(published_form(read))))

    assert is_published(written)
    assert run_event(written) == read


def test_a_time_that_has_no_date_is_written_as_the_last_one() -> None:
    crash = run_event({"type": "RunCrashed", "data": {"run_id": "1", "detected_at": 2**53}})

    assert to_published(published_form(crash))["data"]["detectedAt"] == "9999-12-31T23:59:59.000Z"


def test_a_state_may_be_written_either_way() -> None:
    moved = {"from": "running", "to": "completing-sentinels"}
    assert run_event({"type": "CodonTransitioned", "data": {**OUR_IDS, **moved}}).data.to == (  # type: ignore[union-attr]
        "completing_sentinels"
    )


@pytest.mark.parametrize("field", ["status", "failed_during", "skipped_during"])
@pytest.mark.parametrize("state", State)
def test_a_state_in_a_list_of_codons_is_written_and_read(field: str, state: State) -> None:
    run = {"codons": [{"codon_id": "clean", field: str(state)}]}

    written = to_published(run)

    assert written["codons"][0][published_name(field)] == str(state).replace("_", "-")
    assert from_published(written) == run


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        (
            "CostsIncremented",
            {"codonId": "c", "costDelta": 1},
            "data.runId: this field is missing, add it",
        ),
        ("CostsUpdated", {**IDS, "cost": "1"}, "data.cost: '1' is not a number of dollars"),
        ("CostsUpdated", {**IDS, "cost": True}, "data.cost: True is not a number of dollars"),
        ("CostsUpdated", {**IDS, "cost": float("nan")}, "data.cost: nan is not a number"),
        ("CostsIncremented", {**IDS, "costDelta": -1}, "data.costDelta: Input should be greater"),
        ("RunCrashed", {"runId": "1", "detectedAt": 5}, "data.detectedAt: 5 is not a time with"),
        ("RunCrashed", {"runId": "1", "detectedAt": "2026-11-23T08:00:00"}, "is not a time with"),
        (
            "CodonTransitioned",
            {**OUR_IDS, "from": "starting", "to": "initializing", "metadata": {"claudePid": 7}},
            "claudePid is a name of the page, run_id is not; write all in one form",
        ),
        ("CostsUpdated", {**IDS, "cost": 1, "surprise": 1}, "data.surprise: Extra inputs"),
    ],
)
def test_what_is_wrong_is_named_as_the_event_names_it(
    name: str, data: dict[str, Any], expected: str
) -> None:
    assert expected in problem({"type": name, "data": data})


def test_an_event_that_is_nested_without_end_is_refused() -> None:
    nested: dict[str, Any] = {}
    for _ in range(100_000):
        nested = {"data": nested}

    assert problem({"type": "RunFailed", "data": nested}) == "it is nested too deeply"


@pytest.mark.parametrize("depth", [100, 300, 100_000])
@pytest.mark.parametrize("ids", [IDS, OUR_IDS])
def test_a_posted_event_that_is_nested_deeply_is_refused(ids: dict[str, str], depth: int) -> None:
    nested: dict[str, Any] = {}
    for _ in range(depth):
        nested = {"reason": nested}

    with pytest.raises(InvalidPayloadError):
        WORKSPACE.inbox_data(
            {"sender": "s", "event": {"type": "RunFailed", "data": {**ids, **nested}}}
        )


@pytest.mark.parametrize("event", [None, [], "RunFailed"])
def test_a_posted_event_that_is_no_object_is_refused(event: Any) -> None:
    with pytest.raises(InvalidPayloadError, match="event: "):
        WORKSPACE.inbox_data({"sender": "s", "event": event})


@pytest.mark.parametrize(("ids", "kept"), [(IDS, {"names": "hankweave"}), (OUR_IDS, {})])
def test_an_event_is_kept_in_our_names_with_the_form_in_which_it_came(
    ids: dict[str, str], kept: dict[str, str]
) -> None:
    moved = {"from": "running", "to": "completing-sentinels"}
    sent = {"sender": "s", "event": {"type": "CodonTransitioned", "data": {**ids, **moved}}}

    mail = WORKSPACE.inbox_data(sent)

    assert mail["event"]["data"]["run_id"] == "data/1"
    assert {name: mail[name] for name in mail if name not in ("sender", "event")} == kept
