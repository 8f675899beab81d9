"""Calls a capability and waits for its end or its deadline; every outcome is a typed result."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from interlock.workers.gateways.capabilities.capability import Capability, CapabilityError, Steps
from interlock.workers.gateways.capabilities.result import (
    Failed,
    InvalidResultError,
    Result,
    SplitWork,
    Succeeded,
    check_split,
    fit,
)
from interlock.workers.redaction import without_secrets
from interlock.workers.text import one_line

CLEAN_UP_S_MAX = 10.0
STRAY_CALLS_MAX = 64
_THREAD = "interlock-capability-"
_STRAY = "interlock-stray-"


async def call_capability(
    capability: Capability,
    bound: Mapping[str, Any],
    *,
    deadline_s: float,
    on_step: Callable[[Mapping[str, str]], None] | None = None,
) -> Result:
    """Call a capability with the arguments from `bind`, and wait for its end or its deadline.

    `on_step` is called with each step as it is taken, in the thread that takes it. If this call is
    cancelled, it cancels an async capability and waits for its end, at most until ten seconds
    after the deadline. If the capability succeeded nevertheless, or still runs, this call returns
    that result instead of being cancelled.
    """
    steps = Steps(on_step)
    arguments = {**bound, "steps": steps} if "steps" in capability.runtime else dict(bound)
    if deadline_s <= 0:
        return Failed("deadline", f"{capability.name} was not started: its deadline had passed")
    if inspect.iscoroutinefunction(capability.call):
        result = await _call_async(capability, arguments, deadline_s)
    else:
        result = await _call_in_thread(capability, arguments, deadline_s)
    return result if result.steps else replace(result, steps=steps.taken())


async def _call_async(
    capability: Capability, arguments: dict[str, Any], deadline_s: float
) -> Result:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(_result_of_async(capability, arguments))
    until = loop.time() + deadline_s
    late = f"{capability.name} did not end within {deadline_s:g} s"
    running = Failed("deadline", f"{late} and does not stop; it may still be running")
    try:
        done, _ = await asyncio.wait({task}, timeout=deadline_s)
        if not done:
            task.cancel()
            # Awaited, so that the call can clean up before the failure is reported.
            await asyncio.wait({task}, timeout=CLEAN_UP_S_MAX)
    except asyncio.CancelledError:
        task.cancel()
        # If a call were reported as ended while it runs, a second one could run beside it.
        left_s = max(0.0, until - loop.time()) + CLEAN_UP_S_MAX
        await asyncio.wait({task}, timeout=left_s)
        if not task.done():
            return running
        if task.cancelled() or isinstance(task.result(), Failed):
            raise
        return task.result()
    if not task.done():
        return running
    if task.cancelled():
        stopped = Failed("deadline", f"{late}; it was stopped")
        return Failed("error", f"{capability.name} cancelled itself") if done else stopped
    # A call that succeeded while it was being stopped has taken effect, so it is a success.
    in_time = done or not isinstance(task.result(), Failed)
    return task.result() if in_time else Failed("deadline", f"{late}; it was stopped")


async def _result_of_async(capability: Capability, arguments: dict[str, Any]) -> Result:
    # One of the few places that catch everything: any error of user code is a result, shown to a
    # person in a sentence. SystemExit too, or one capability could end the whole worker.
    try:
        return _result(capability, await capability.call(**arguments))
    except (Exception, SystemExit) as error:  # noqa: BLE001
        return _failure(error)


async def _call_in_thread(
    capability: Capability, arguments: dict[str, Any], deadline_s: float
) -> Result:
    # A daemon thread for each call: a function that hangs can be neither killed nor waited for, so
    # it must not use up a pool's threads nor hold up the exit of the worker.
    strays = sum(thread.name.startswith(_STRAY) for thread in threading.enumerate())
    if strays >= STRAY_CALLS_MAX:
        return Failed("unavailable", f"{strays} calls hang in this worker; restart it")
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[Result] = loop.create_future()

    def answer() -> None:
        result = _result_of_sync(capability, arguments)
        with suppress(RuntimeError):  # the loop is closed, so the caller no longer waits
            loop.call_soon_threadsafe(_deliver, answered, result)

    context = contextvars.copy_context()
    name = _THREAD + capability.name
    thread = threading.Thread(target=context.run, args=(answer,), name=name, daemon=True)
    thread.start()
    try:
        done, _ = await asyncio.wait({answered}, timeout=deadline_s)
    finally:
        # From here on the caller waits no longer. If the thread still runs, its name marks a stray.
        thread.name = _STRAY + capability.name
    if done:
        return answered.result()
    late = f"{capability.name} did not end within {deadline_s:g} s"
    return Failed("deadline", f"{late}; it cannot be stopped and may still be running")


def _result_of_sync(capability: Capability, arguments: dict[str, Any]) -> Result:
    # As in _result_of_async. An exception that escaped here would leave the caller waiting.
    try:
        return _result(capability, capability.call(**arguments))
    except (Exception, SystemExit) as error:  # noqa: BLE001
        return _failure(error)


def _deliver(answered: asyncio.Future[Result], result: Result) -> None:
    if not answered.done():
        answered.set_result(result)


def _result(capability: Capability, value: object) -> Result:
    try:
        match value:
            case Failed():
                return replace(value, detail=one_line(without_secrets(value.detail)))
            case SplitWork():
                check_split(value)
                return value
            case Succeeded():
                plain, cut = fit(value.value)
                return replace(value, value=plain, truncated=cut or value.truncated)
            case _:
                plain, cut = fit(value)
                return Succeeded(plain, truncated=cut)
    except InvalidResultError as error:
        return Failed("invalid_result", one_line(f"{capability.name} returned no JSON: {error}"))


def _failure(error: BaseException) -> Failed:
    said = without_secrets(str(error))
    if isinstance(error, CapabilityError):
        return Failed("error", one_line(said) or "it failed without a reason")
    return Failed("error", one_line(f"{type(error).__name__}: {said}"))
