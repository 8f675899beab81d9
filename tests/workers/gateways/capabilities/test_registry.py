"""The registry: capabilities are found, offered, checked and bound."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest

from interlock.kernel.scales import Level
from interlock.workers.gateways.capabilities.call import call_capability
from interlock.workers.gateways.capabilities.capability import (
    Capability,
    CapabilityDefectError,
    capability,
)
from interlock.workers.gateways.capabilities.extension import ExtensionError
from interlock.workers.gateways.capabilities.registry import (
    InvalidParametersError,
    MissingRuntimeError,
    Registry,
    UnknownCapabilityError,
    load_registry,
)
from interlock.workers.gateways.capabilities.result import Result, SplitWork, Succeeded

RUNTIME: Mapping[str, Any] = {
    "record_id": "thread-1",
    "key": "thread-1:4.0:n",
    "item_ids": ["a"],
    "token_number": 7,
}
LOW = capability(idempotent=True, irreversibility=Level.LOW, deadline_s=5)


@LOW
def echo(*, text: str, times: int = 1, key: str, record_id: str) -> list[Any]:
    """Say something back."""
    return [text, times, key, record_id]


REGISTRY = Registry([echo])


def call(called: Capability, **bound: Any) -> Result:
    """Call a capability and return its result."""
    return asyncio.run(call_capability(called, bound, deadline_s=60))


def test_a_name_finds_its_capability() -> None:
    assert REGISTRY["echo"] is echo
    assert "echo" in REGISTRY
    assert "other" not in REGISTRY


def test_an_unknown_name_is_refused_with_similar_names() -> None:
    with pytest.raises(UnknownCapabilityError, match="did you mean echo") as raised:
        _ = REGISTRY["ecco"]
    assert raised.value.near == ("echo",)
    with pytest.raises(UnknownCapabilityError, match="is loaded; `interlock capabilities` lists"):
        REGISTRY.check("zzz", {})


def test_two_capabilities_of_one_name_are_refused() -> None:
    @capability(idempotent=True, irreversibility=Level.LOW, deadline_s=1, name="echo")
    def other() -> None:
        """Be another."""

    with pytest.raises(CapabilityDefectError, match="the same name"):
        Registry([echo, other])


def test_all_problems_of_the_parameters_are_named_at_once() -> None:
    with pytest.raises(InvalidParametersError) as raised:
        REGISTRY.check("echo", {"text": 1, "times": "x", "more": True})

    assert len(raised.value.problems) == 3


@pytest.mark.parametrize("name", ["record_id", "key", "item_ids", "token_number", "steps"])
def test_nobody_but_the_worker_sets_a_run_time_parameter(name: str) -> None:
    with pytest.raises(InvalidParametersError, match=f"{name}: it is filled in at run time"):
        REGISTRY.check("echo", {"text": "a", name: "mine"})
    with pytest.raises(InvalidParametersError, match=name):
        REGISTRY.bind("echo", {"text": "a", name: "mine"}, RUNTIME)


@pytest.mark.parametrize("value", [float("nan"), "\ud800"])
def test_parameters_that_json_cannot_express_are_refused(value: object) -> None:
    with pytest.raises(InvalidParametersError, match=r"parameters\.times"):
        REGISTRY.check("echo", {"text": "a", "times": value})


def test_binding_gives_a_capability_the_run_time_values_it_declares() -> None:
    bound = REGISTRY.bind("echo", {"text": "a"}, RUNTIME)

    assert bound == {"text": "a", "key": "thread-1:4.0:n", "record_id": "thread-1"}
    assert call(echo, **bound) == Succeeded(["a", 1, "thread-1:4.0:n", "thread-1"])


def test_a_run_time_value_that_is_missing_is_named() -> None:
    with pytest.raises(MissingRuntimeError, match="'key'"):
        REGISTRY.bind("echo", {"text": "a"}, {"record_id": "thread-1"})


def test_decompose_is_always_there_and_splits() -> None:
    registry = load_registry(None)
    children = [{"title": "a", "text": "b"}, {"title": "c", "text": "d", "fields": {"x": 1}}]
    bound = registry.bind("decompose", {"children": children}, RUNTIME)

    result = call(registry["decompose"], **bound)

    assert result == SplitWork(
        (
            {"title": "a", "text": "b"},
            {"title": "c", "text": "d", "fields": {"x": 1}},
        ),
        "decompose",
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"children": []},
        {"children": [{"title": "a", "text": ""}] * 10_001},
        {"children": [{"title": "", "text": "a"}]},
        {"children": [{"title": "a"}]},
        {"children": [{"title": "a", "text": "b", "capability": "echo"}]},
        {"children": [{"title": "a", "text": "b"}], "relationship": "siblings"},
    ],
)
def test_a_split_that_makes_no_sense_is_refused_before_it_runs(parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidParametersError):
        load_registry(None).check("decompose", parameters)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Give an empty module that a specification can name."""
    empty = ModuleType("some_desk")
    monkeypatch.setitem(sys.modules, "some_desk", empty)
    return empty


def test_every_capability_a_module_holds_is_offered_by_name(module: ModuleType) -> None:
    module.__dict__.update(first=echo, again=echo, something="else")

    assert [one.name for one in load_registry("some_desk").catalog()] == ["decompose", "echo"]


def test_a_module_may_list_the_capabilities_to_offer(module: ModuleType) -> None:
    module.__dict__.update(first=echo, CAPABILITIES=[])

    assert "echo" not in load_registry("some_desk")


def test_a_listed_function_without_the_decorator_is_refused(module: ModuleType) -> None:
    module.__dict__.update(CAPABILITIES=[len])

    with pytest.raises(ExtensionError, match="without @capability"):
        load_registry("some_desk")
