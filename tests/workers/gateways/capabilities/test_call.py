"""Calls of capabilities: whatever a capability does, the call returns one typed result."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.scales import Level
from interlock.workers.gateways.capabilities.call import STRAY_CALLS_MAX, call_capability
from interlock.workers.gateways.capabilities.capability import (
    Capability,
    CapabilityError,
    Steps,
    capability,
)
from interlock.workers.gateways.capabilities.result import Failed, Result, Succeeded
from interlock.workers.processes.process_group import run_command
from tests.processes import is_alive
from tests.waiting import until

LOW = capability(idempotent=True, irreversibility=Level.LOW, deadline_s=5)


def result_of(called: Capability, *, deadline_s: float = 60, **bound: Any) -> Result:
    """Call a capability and return its result."""
    return asyncio.run(call_capability(called, bound, deadline_s=deadline_s))


async def cancelled(
    called: Capability, entered: asyncio.Event, *, deadline_s: float = 60
) -> Result:
    """Cancel a call as soon as the capability runs, and return its result."""
    task = asyncio.create_task(call_capability(called, {}, deadline_s=deadline_s))
    await entered.wait()
    task.cancel()
    return await task


def test_an_expected_failure_is_its_sentence() -> None:
    @LOW
    def fails() -> None:
        """Fail."""
        raise CapabilityError("the printer\nis offline")

    assert result_of(fails) == Failed("error", "the printer is offline")


@pytest.mark.parametrize("raised", [CapabilityError, ValueError])
def test_a_failure_repeats_no_secret_of_this_process(
    monkeypatch: pytest.MonkeyPatch, raised: type[Exception]
) -> None:
    monkeypatch.setenv("PRINTER_PASSWORD", "hunter2hunter2")

    @LOW
    def fails() -> None:
        """Fail."""
        raise raised("wrong password: hunter2hunter2")

    @LOW
    def returns() -> Failed:
        """Fail as well."""
        return Failed("error", "wrong password: hunter2hunter2")

    for function in (fails, returns):
        assert "wrong password: *****" in str(result_of(function))
        assert "hunter2" not in str(result_of(function))


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


def test_a_large_result_is_cut_and_marked() -> None:
    @LOW
    def talks() -> str:
        """Talk."""
        return "x" * 100_000

    result = result_of(talks)

    assert isinstance(result, Succeeded)
    assert result.truncated
    assert 16_000 < len(result.value) < 16_384


def test_steps_stay_with_a_result_of_any_kind() -> None:
    steps_seen: list[Any] = []

    @LOW
    def acts(*, fail: bool, steps: Steps) -> None:
        """Act."""
        steps.add("first", "did it")
        if fail:
            raise CapabilityError("no")

    async def both() -> list[Result]:
        return [
            await call_capability(acts, {"fail": fail}, deadline_s=60, on_step=steps_seen.append)
            for fail in (False, True)
        ]

    first = {"name": "first", "detail": "did it"}
    assert [result.steps for result in asyncio.run(both())] == [(first,), (first,)]
    assert steps_seen == [first, first]


def test_a_plain_function_runs_in_a_separate_thread() -> None:
    @LOW
    def where() -> list[Any]:
        """Say where."""
        return [threading.current_thread().name, threading.current_thread().daemon]

    assert result_of(where) == Succeeded(["interlock-capability-where", True])


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Give an event that calls wait for until the test is over."""
    event = threading.Event()
    yield event
    event.set()
    for thread in threading.enumerate():
        if thread.name.startswith("interlock-"):
            thread.join()


def test_a_plain_function_past_its_deadline_is_reported_as_still_running(
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
    together = threading.Barrier(2 * STRAY_CALLS_MAX, timeout=180)

    @LOW
    def meets() -> None:
        """Meet all the others."""
        together.wait()

    async def all_at_once() -> list[Result]:
        calls = [call_capability(meets, {}, deadline_s=60) for _ in range(2 * STRAY_CALLS_MAX)]
        return await asyncio.gather(*calls)

    assert set(map(type, asyncio.run(all_at_once()))) == {Succeeded}


def test_hanging_functions_are_bounded(gate: threading.Event) -> None:
    @LOW
    def hangs() -> None:
        """Hang."""
        gate.wait()

    async def too_many() -> Result:
        for _ in range(STRAY_CALLS_MAX):
            await call_capability(hangs, {}, deadline_s=0.001)
        return await call_capability(hangs, {}, deadline_s=60)

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


def test_a_timeout_that_a_capability_raises_is_not_our_deadline() -> None:
    @LOW
    async def times_out() -> None:
        """Time out."""
        raise TimeoutError("the bank does not answer")

    assert result_of(times_out) == Failed("error", "TimeoutError: the bank does not answer")


def test_a_call_that_succeeds_while_it_is_stopped_has_succeeded() -> None:
    @LOW
    async def finishes() -> str:
        """Finish."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "paid"
        return "never"

    assert result_of(finishes, deadline_s=0.05) == Succeeded("paid")


def test_a_call_that_fails_while_it_is_stopped_missed_its_deadline() -> None:
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
    monkeypatch.setattr("interlock.workers.gateways.capabilities.call.CLEAN_UP_S_MAX", 0.05)
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
        result = await call_capability(stubborn, {}, deadline_s=0.05)
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


def test_a_capability_that_succeeds_although_it_was_cancelled_has_succeeded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("interlock.workers.gateways.capabilities.call.CLEAN_UP_S_MAX", 0.0)

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


def test_a_capability_that_ignores_a_stop_is_waited_for_within_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("interlock.workers.gateways.capabilities.call.CLEAN_UP_S_MAX", 0.05)

    @LOW
    async def ignores() -> None:
        """Go on for ever."""
        entered.set()
        while not over.is_set():
            with suppress(asyncio.CancelledError):
                await over.wait()

    async def until_it_is_over() -> Result:
        try:
            return await cancelled(ignores, entered, deadline_s=0.05)
        finally:
            over.set()

    entered, over = asyncio.Event(), asyncio.Event()
    result = asyncio.run(until_it_is_over())
    assert isinstance(result, Failed)
    assert "may still be running" in result.detail


def test_a_deadline_ends_the_grandchildren_of_a_command(tmp_path: Path) -> None:
    @LOW
    async def shell(*, command: str) -> int | None:
        """Run a command."""
        return (await run_command(["bash", "-c", command], folder=tmp_path)).exit_code

    command, pid = "(sleep 300 & echo $! > pid; wait) & wait", tmp_path / "pid"
    # A busy computer may not start the grandchild in time: try again with a longer deadline.
    for deadline_s in (0.5, 5.0, 60.0):
        result = result_of(shell, command=command, deadline_s=deadline_s)
        if pid.exists() and pid.read_text():
            break

    assert isinstance(result, Failed)
    assert result.code == "deadline"
    until(lambda: not is_alive(int(pid.read_text())), what="the end of the grandchild")
