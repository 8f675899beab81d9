"""Capabilities: found, checked, bound and run; whatever they do is one typed result."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from interlock.kernel.scales import Level
from interlock.workers.gateways.capabilities.capability import CapabilityDefectError
from interlock.workers.gateways.capabilities.extension import ExtensionError
from interlock.workers.gateways.capabilities.registry import (
    STRAY_CALLS_MAX,
    Capability,
    CapabilityError,
    Failed,
    InvalidParametersError,
    MissingRuntimeError,
    Registry,
    Result,
    Split,
    Steps,
    Succeeded,
    UnknownCapabilityError,
    capability,
    load_registry,
    run,
)
from interlock.workers.processes.group import run_command

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


def result_of(one: Capability, *, deadline_s: float = 10, **bound: Any) -> Result:
    """Run a capability to its result."""
    return asyncio.run(run(one, bound, deadline_s=deadline_s))


async def cancelled(one: Capability, entered: asyncio.Event, *, deadline_s: float = 60) -> Result:
    """Cancel a capability as soon as it runs, and return what it says of its end."""
    task = asyncio.create_task(run(one, {}, deadline_s=deadline_s))
    await entered.wait()
    task.cancel()
    return await task


def test_a_name_finds_its_capability() -> None:
    assert REGISTRY["echo"] is echo
    assert "echo" in REGISTRY
    assert "other" not in REGISTRY


def test_an_unknown_name_is_answered_with_the_near_ones() -> None:
    with pytest.raises(UnknownCapabilityError, match="did you mean echo") as raised:
        _ = REGISTRY["ecco"]
    assert raised.value.near == ("echo",)
    with pytest.raises(UnknownCapabilityError, match="see the catalog"):
        REGISTRY.check("zzz", {})


def test_two_of_one_name_are_refused() -> None:
    @capability(idempotent=True, irreversibility=Level.LOW, deadline_s=1, name="echo")
    def other() -> None:
        """Be another."""

    with pytest.raises(CapabilityDefectError, match="the same name"):
        Registry([echo, other])


def test_all_problems_of_the_parameters_are_told_at_once() -> None:
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
def test_parameters_that_json_cannot_carry_are_refused(value: object) -> None:
    with pytest.raises(InvalidParametersError, match=r"parameters\.times"):
        REGISTRY.check("echo", {"text": "a", "times": value})


def test_binding_gives_a_capability_the_run_time_values_it_declares() -> None:
    bound = REGISTRY.bind("echo", {"text": "a"}, RUNTIME)

    assert bound == {"text": "a", "key": "thread-1:4.0:n", "record_id": "thread-1"}
    assert result_of(echo, **bound) == Succeeded(["a", 1, "thread-1:4.0:n", "thread-1"])


def test_a_worker_that_forgets_a_run_time_value_is_told() -> None:
    with pytest.raises(MissingRuntimeError, match="'key'"):
        REGISTRY.bind("echo", {"text": "a"}, {"record_id": "thread-1"})


def test_an_expected_failure_is_its_sentence() -> None:
    @LOW
    def fails() -> None:
        """Fail."""
        raise CapabilityError("the printer\nis offline")

    assert result_of(fails) == Failed("error", "the printer is offline")


@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(3), StopIteration(), RecursionError()])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_whatever_a_capability_raises_is_a_failure_with_its_type(
    error: BaseException, kind: str
) -> None:
    @LOW
    def sync_fails() -> None:
        """Fail."""
        raise error

    @LOW
    async def async_fails() -> None:
        """Fail."""
        raise error

    result = result_of(sync_fails if kind == "sync" else async_fails)

    assert isinstance(result, Failed)
    assert result.code == "error"
    # Python itself turns a StopIteration in a coroutine into a RuntimeError.
    assert result.detail.startswith((type(error).__name__, "RuntimeError"))


def test_a_capability_that_cancels_itself_is_a_failure_not_a_cancellation() -> None:
    @LOW
    async def cancels() -> None:
        """Cancel."""
        raise asyncio.CancelledError

    assert result_of(cancels) == Failed("error", "cancels cancelled itself")


@pytest.mark.parametrize("value", [float("nan"), b"", object(), {1: 1}, {"a": {1, 2}}, "\ud800"])
def test_a_result_that_is_not_json_is_no_success(value: object) -> None:
    @LOW
    def gives() -> object:
        """Give."""
        return value

    result = result_of(gives)

    assert isinstance(result, Failed)
    assert result.code == "invalid_result"


def test_a_large_result_is_cut_and_says_so() -> None:
    @LOW
    def talks() -> str:
        """Talk."""
        return "x" * 100_000

    result = result_of(talks)

    assert isinstance(result, Succeeded)
    assert result.truncated
    assert 16_000 < len(result.value) < 16_384


def test_steps_stay_with_a_result_of_any_kind() -> None:
    told: list[Any] = []

    @LOW
    def acts(*, fail: bool, steps: Steps) -> None:
        """Act."""
        steps.add("first", "did it")
        if fail:
            raise CapabilityError("no")

    async def both() -> list[Result]:
        return [
            await run(acts, {"fail": fail}, deadline_s=5, on_step=told.append)
            for fail in (False, True)
        ]

    first = {"name": "first", "detail": "did it"}
    assert [result.steps for result in asyncio.run(both())] == [(first,), (first,)]
    assert told == [first, first]


def test_a_plain_function_runs_in_a_thread_of_its_own() -> None:
    @LOW
    def where() -> list[Any]:
        """Say where."""
        return [threading.current_thread().name, threading.current_thread().daemon]

    assert result_of(where) == Succeeded(["interlock-capability-where", True])


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Hold calls up until the test is over."""
    event = threading.Event()
    yield event
    event.set()
    for thread in threading.enumerate():
        if thread.name.startswith("interlock-"):
            thread.join()


def test_a_plain_function_past_its_deadline_is_told_to_be_still_running(
    gate: threading.Event,
) -> None:
    @LOW
    def hangs() -> None:
        """Hang."""
        gate.wait()

    result = result_of(hangs, deadline_s=0.05)

    assert result == Failed(
        "deadline",
        "hangs did not end within 0.05 s; it cannot be stopped and may still be running",
    )


def test_many_plain_functions_at_once_are_no_strays() -> None:
    together = threading.Barrier(2 * STRAY_CALLS_MAX, timeout=30)

    @LOW
    def meets() -> None:
        """Meet all the others."""
        together.wait()

    async def all_at_once() -> list[Result]:
        calls = [run(meets, {}, deadline_s=30) for _ in range(2 * STRAY_CALLS_MAX)]
        return await asyncio.gather(*calls)

    assert set(map(type, asyncio.run(all_at_once()))) == {Succeeded}


def test_hanging_functions_are_bounded(gate: threading.Event) -> None:
    @LOW
    def hangs() -> None:
        """Hang."""
        gate.wait()

    async def too_many() -> Result:
        for _ in range(STRAY_CALLS_MAX):
            await run(hangs, {}, deadline_s=0.001)
        return await run(hangs, {}, deadline_s=5)

    result = asyncio.run(too_many())

    assert isinstance(result, Failed)
    assert result.code == "unavailable"
    assert "restart" in result.detail


def test_an_async_capability_past_its_deadline_cleans_up_first() -> None:
    cleaned: list[bool] = []

    @LOW
    async def hangs() -> None:
        """Hang."""
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    result = result_of(hangs, deadline_s=0.05)

    assert result == Failed("deadline", "hangs did not end within 0.05 s; it was stopped")
    assert cleaned == [True]


def test_a_timeout_of_its_own_is_not_our_deadline() -> None:
    @LOW
    async def times_out() -> None:
        """Time out."""
        raise TimeoutError("the bank does not answer")

    assert result_of(times_out) == Failed("error", "TimeoutError: the bank does not answer")


def test_what_succeeds_while_it_is_being_stopped_has_succeeded() -> None:
    @LOW
    async def finishes() -> str:
        """Finish."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "paid"
        return "never"

    assert result_of(finishes, deadline_s=0.05) == Succeeded("paid")


def test_what_fails_because_it_is_being_stopped_missed_its_deadline() -> None:
    @LOW
    async def breaks() -> None:
        """Break."""
        try:
            await asyncio.Event().wait()
        finally:
            raise LookupError

    result = result_of(breaks, deadline_s=0.05)

    assert isinstance(result, Failed)
    assert result.code == "deadline"


def test_a_capability_that_does_not_stop_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.workers.gateways.capabilities.registry.CLEAN_UP_S_MAX", 0.05)
    released = asyncio.Event()

    @LOW
    async def stubborn() -> None:
        """Refuse to stop."""
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    async def bounded() -> Result:
        result = await run(stubborn, {}, deadline_s=0.05)
        released.set()
        return result

    result = asyncio.run(bounded())

    assert isinstance(result, Failed)
    assert "may still be running" in result.detail


def test_a_deadline_that_has_passed_starts_nothing() -> None:
    called: list[bool] = []

    @LOW
    def call() -> None:
        """Call."""
        called.append(True)

    result = result_of(call, deadline_s=0)

    assert isinstance(result, Failed)
    assert (result.code, called) == ("deadline", [])


def test_a_cancellation_goes_on_after_the_clean_up() -> None:
    cleaned: list[bool] = []

    @LOW
    async def hangs() -> None:
        """Hang."""
        try:
            entered.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    entered = asyncio.Event()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled(hangs, entered))
    assert cleaned == [True]


def test_a_capability_that_succeeds_although_it_was_cancelled_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("interlock.workers.gateways.capabilities.registry.CLEAN_UP_S_MAX", 0.0)

    @LOW
    async def stubborn() -> str:
        """Go on."""
        try:
            entered.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.02)
        return "done all the same"

    entered = asyncio.Event()
    assert asyncio.run(cancelled(stubborn, entered)) == Succeeded("done all the same")


def test_a_capability_that_is_deaf_to_a_stop_is_waited_for_within_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("interlock.workers.gateways.capabilities.registry.CLEAN_UP_S_MAX", 0.05)

    @LOW
    async def deaf() -> None:
        """Go on for ever."""
        entered.set()
        while not over.is_set():
            with suppress(asyncio.CancelledError):
                await over.wait()

    async def until_it_is_over() -> Result:
        try:
            return await cancelled(deaf, entered, deadline_s=0.05)
        finally:
            over.set()

    entered, over = asyncio.Event(), asyncio.Event()
    result = asyncio.run(until_it_is_over())
    assert isinstance(result, Failed)
    assert "may still be running" in result.detail


def test_a_deadline_ends_the_grandchildren_of_a_command(tmp_path: Path) -> None:
    @LOW
    async def shell(*, command: str) -> int:
        """Run a command."""
        return (await run_command(["bash", "-c", command], folder=tmp_path)).exit_code

    command = "(sleep 300 & echo $! > pid; wait) & wait"
    result = result_of(shell, command=command, deadline_s=1.0)

    assert isinstance(result, Failed)
    assert result.code == "deadline"
    assert not alive(int((tmp_path / "pid").read_text()))


def alive(pid: int) -> bool:
    """Tell whether a process runs; one that only waits to be reaped does not."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_decompose_is_always_there_and_splits() -> None:
    registry = load_registry(None)
    children = [{"title": "a", "text": "b"}, {"title": "c", "text": "d", "fields": {"x": 1}}]
    bound = registry.bind("decompose", {"children": children}, RUNTIME)

    result = result_of(registry["decompose"], **bound)

    assert result == Split(
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


def test_a_module_may_say_which_of_them(module: ModuleType) -> None:
    module.__dict__.update(first=echo, CAPABILITIES=[])

    assert "echo" not in load_registry("some_desk")


def test_a_listed_function_without_the_decorator_is_refused(module: ModuleType) -> None:
    module.__dict__.update(CAPABILITIES=[len])

    with pytest.raises(ExtensionError, match="without @capability"):
        load_registry("some_desk")
