"""How a function becomes a capability."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import date, datetime
from threading import Event, Semaphore
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from interlock.kernel.scales import Level
from interlock.workers.gateways.capabilities import cost as cost_module
from interlock.workers.gateways.capabilities.capability import (
    PROBLEMS_MAX,
    Capability,
    CapabilityDefectError,
    Steps,
    capability,
    problems_of,
)
from interlock.workers.gateways.capabilities.cost import (
    CALLS_MAX,
    CostCalculation,
    CostEstimate,
)
from tests.waiting import until

LOW = capability(idempotent=True, irreversibility=Level.LOW, deadline_s=1)


class Guest(BaseModel):
    name: str


@LOW
def invite(
    *,
    title: Annotated[str, Field(description="What for.", json_schema_extra={"x-from": "title"})],
    on: date,
    guests: list[Guest],
    copy: int = 1,
    json: bool = False,
    key: str,
    steps: Steps,
) -> list[Any]:
    """Invite some guests to something.

    This is for the reader of the code.
    """
    steps.add("invited", title)
    return [title, on, guests, copy, json, key]


def test_the_signature_is_the_schema_and_run_time_parameters_are_not_in_it() -> None:
    schema = invite.parameters

    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["title", "on", "guests"]
    assert list(schema["properties"]) == ["title", "on", "guests", "copy", "json"]
    assert schema["properties"]["title"] == {
        "type": "string",
        "description": "What for.",
        "x-from": "title",
    }
    assert schema["properties"]["on"] == {"type": "string", "format": "date"}
    assert invite.runtime == {"key", "steps"}


def test_the_first_paragraph_is_the_description_and_the_function_gives_the_name() -> None:
    assert (invite.name, invite.description) == (
        "invite",
        "Invite some guests to something.",
    )


def test_parameters_arrive_with_their_types() -> None:
    title, on, guests, copy, json, key = invite.call(
        title="Tea", on="2026-03-04", guests=[{"name": "Ann"}], key="k", steps=Steps()
    )

    assert (title, on, guests) == ("Tea", date(2026, 3, 4), [Guest(name="Ann")])
    assert (copy, json, key) == (1, False, "k")


def test_an_async_function_stays_one() -> None:
    @LOW
    async def wait(*, at: datetime) -> datetime:
        """Wait."""
        return at

    assert asyncio.iscoroutinefunction(wait.call)
    assert asyncio.run(wait.call(at="2026-03-04T10:00")) == datetime(2026, 3, 4, 10)  # noqa: DTZ001


def test_regret_is_as_high_as_irreversibility_unless_declared() -> None:
    high = capability(idempotent=False, irreversibility=Level.HIGH, deadline_s=1)

    assert high(described()).regret_potential is Level.HIGH
    assert invite.regret_potential is Level.LOW


@pytest.mark.parametrize(
    ("cost", "known", "problem"),
    [
        (None, None, ""),
        (0.5, 0.5, ""),
        (lambda pages: 0.02 * pages, 0.06, ""),
        (lambda pages: -pages, None, "did not return an amount of dollars"),
        (lambda pages: pages * 10**400, None, "did not return an amount of dollars"),
        (lambda: 1.0, None, "failed"),
    ],
)
def test_a_cost_is_a_number_or_a_function_of_the_parameters_else_it_is_unknown(
    cost: Any, known: float | None, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost_module, "COST_S_MAX", 60)

    def copy(*, pages: int, key: str) -> None:
        """Copy pages."""

    made = capability(idempotent=True, irreversibility=Level.LOW, deadline_s=1, cost=cost)(copy)

    found = made.cost_of({"pages": "3"})

    assert (found.dollars, problem in found.problem) == (known, True)
    assert bool(found.problem) == bool(problem)


def test_nobody_waits_long_for_a_cost_and_slow_calculations_do_not_pile_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls, goes_on = Semaphore(0), Event()

    def slow() -> float:
        calls.release()
        goes_on.wait(180)  # not for ever, so that a missing limit fails this test
        return 1.0

    def copy() -> None:
        """Copy pages."""

    monkeypatch.setattr(cost_module, "COST_S_MAX", 0.001)
    made = capability(idempotent=True, irreversibility=Level.LOW, deadline_s=1, cost=slow)(copy)
    found = {made.cost_of({}) for _ in range(CALLS_MAX + 2)}
    for _ in range(CALLS_MAX):
        assert calls.acquire(timeout=180)
    goes_on.set()

    assert found == {CostEstimate(None, "its cost function takes longer than 1 s")}
    assert not calls.acquire(blocking=False), "it was not called again"
    monkeypatch.setattr(cost_module, "COST_S_MAX", 60)
    until(lambda: made.cost_of({}) == CostEstimate(1.0), what="a calculation has ended")


def test_a_cost_is_calculated_for_all_who_look_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, goes_on = Semaphore(0), Event()

    def waits() -> float:
        begun.release()
        goes_on.wait(180)
        return 1.0

    monkeypatch.setattr(cost_module, "COST_S_MAX", 60)
    calculation = CostCalculation()
    with ThreadPoolExecutor(CALLS_MAX + 1) as pool:
        found = [pool.submit(calculation.estimate, waits, {}) for _ in range(CALLS_MAX)]
        for _ in found:
            assert begun.acquire(timeout=180)
        found.append(pool.submit(calculation.estimate, waits, {}))
        wait(found, timeout=0.05)  # the last one has come while all others are at work
        goes_on.set()

    assert [one.result() for one in found] == [CostEstimate(1.0)] * (CALLS_MAX + 1)


def described(**annotations: Any) -> Callable[..., None]:
    def function() -> None:
        """Describe itself."""

    function.__annotations__.update(annotations)
    return function


def positional(title: str, /) -> None:
    """Describe itself."""
    del title


def untyped(title: str) -> None:
    """Describe itself."""
    del title


untyped.__annotations__.clear()


def silent() -> None:
    pass


def odd_default(title: Any = object) -> None:
    """Describe itself."""
    del title


def callback(*, done: Callable[[], None]) -> None:
    """Describe itself."""
    done()


def Shouting() -> None:  # noqa: N802
    """Describe itself."""


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (positional, "cannot be passed by name"),
        (untyped, "title has no type"),
        (silent, "no description"),
        (Shouting, "small letters"),
        (odd_default, "cannot be described in JSON: non-serializable-default"),
        (callback, "cannot be described in JSON"),
    ],
)
def test_a_function_that_cannot_be_a_capability_is_refused(
    function: Callable[..., Any], problem: str
) -> None:
    with pytest.raises(CapabilityDefectError, match=problem):
        LOW(function)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"deadline_s": 0}, "deadline_s is 0"),
        ({"deadline_s": float("inf")}, "deadline_s is inf"),
        ({"cost": -0.1}, "cost is -0.1, give dollars"),
        ({"runtime": frozenset({"thread_id"})}, "'thread_id' is not a run-time parameter"),
        ({"parameters": {"type": "object"}}, "additionalProperties"),
        ({"parameters": {"type": "objekt"}}, "not a JSON schema"),
        (
            {
                "parameters": {
                    "type": "object",
                    "properties": {"key": {}},
                    "additionalProperties": False,
                }
            },
            "'key' is filled in at run time",
        ),
    ],
)
def test_a_declaration_that_could_not_be_checked_later_is_refused(
    change: dict[str, Any], problem: str
) -> None:
    with pytest.raises(CapabilityDefectError, match=problem):
        replace(invite, **change)


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({}, ["'guests' is a required", "'on' is a required", "'title' is a required"]),
        ({"title": 1, "on": "2026-03-04", "guests": []}, ["title: 1 is not of type 'string'"]),
        ({"title": "", "on": "20260304", "guests": []}, ["on: '20260304' is not a 'date'"]),
        ({"title": "", "on": "2026-02-30", "guests": []}, ["on: '2026-02-30' is not a 'date'"]),
        (
            {"title": "", "on": "2026-03-04", "guests": [{"name": 1}], "x": 1},
            ["Additional properties", "guests[0].name: 1 is not of type"],
        ),
    ],
)
def test_every_problem_is_told_with_its_path(
    parameters: dict[str, Any], problem: list[str]
) -> None:
    problems = problems_of(invite.parameters, parameters)

    assert len(problems) == len(problem)
    assert all(part in problem for part, problem in zip(problem, problems, strict=True))


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("2026-03-04T10:00", True),
        ("2026-03-04T10:00:00.5+01:00", True),
        ("2026-03-04 10:00Z", True),
        ("2026-03-04", True),
        ("2026-03-04T25:00", False),
        ("1772611200", False),
        ("tomorrow", False),
    ],
)
def test_a_date_and_time_is_one_that_the_call_understands_too(text: str, good: bool) -> None:  # noqa: FBT001
    @LOW
    def at(*, at: datetime) -> None:
        """Take a time."""
        assert isinstance(at, datetime)

    assert (problems_of(at.parameters, {"at": text}) == ()) is good
    if good:
        at.call(at=text)


def test_no_more_than_twenty_problems_are_told() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "string"}}

    problems = problems_of(schema, {f"p{n}": n for n in range(100)})

    assert len(problems) == PROBLEMS_MAX


def test_a_schema_cannot_make_us_fetch_an_address_or_loop() -> None:
    away = {"properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}}
    loop = {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}

    assert "does not contain" in problems_of(away, {"a": 1})[0]
    assert "without end" in problems_of(loop, {"a": 1})[0]


def test_steps_are_bounded_and_told_as_they_are_taken() -> None:
    problem: list[Any] = []
    steps = Steps(problem.append)
    for number in range(150):
        steps.add(f"step\n{number}", "x" * 1000)

    assert len(steps.taken()) == 100
    assert problem == list(steps.taken())
    assert steps.taken()[0]["name"] == "step 0"
    assert len(steps.taken()[0]["detail"]) == 500


def test_a_listener_that_fails_does_not_end_the_work(caplog: pytest.LogCaptureFixture) -> None:
    def fails(step: Any) -> None:
        raise ConnectionError(step)

    steps = Steps(fails)
    steps.add("paid", "1 euro")

    assert steps.taken() == ({"name": "paid", "detail": "1 euro"},)
    assert "a step was not passed on: paid" in caplog.text


def test_a_capability_is_a_value_that_cannot_change() -> None:
    anything: Any = invite

    with pytest.raises(AttributeError):
        anything.name = "other"
    assert type(invite) is Capability
