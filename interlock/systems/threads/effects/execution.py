"""Calls the capability that was approved, with a deadline."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from interlock import CallError, EffectWork, Failed, Note, Outcome, Succeeded
from interlock.system.models import Capability, Result, SplitWork, call_capability, open_registry
from interlock.system.records import traced_tool
from interlock.system.text import sentence
from interlock.systems.threads.machines.thread.data import ThreadData
from interlock.systems.threads.machines.thread.names import Trigger

STALL_MARGIN_MS = 60_000


async def execution(work: EffectWork[ThreadData]) -> Outcome:
    """Call the approved capability once, and return how the call ended."""
    action = work.record.data["proposals"].get("action")
    if not action or action.get("cleared") or not action["payload"].get("capability"):
        return execution_failed("no_action", "there is no action to run: the proposal was cleared")
    payload = action["payload"]
    try:
        capability, bound = await asyncio.to_thread(prepared, work, payload)
    except CallError as refusal:
        return execution_failed("invalid_parameters", str(refusal))
    if work.interrupted.is_set():
        return Outcome(Trigger.CANCEL_CONFIRMED, {"reason": "it was not started again"})
    if work.attempt > 1 and not capability.idempotent:
        # The kernel restarts no such execution. This check holds even if a record says otherwise.
        detail = f"{capability.name} was started before and may have taken effect"
        return execution_failed("lost_worker", detail)
    await asyncio.to_thread(note_start, work, capability, payload)
    try:
        result = await call_with_notes(work, capability, bound)
    except Exception as failure:
        # The runner records the failure; the start in the log still needs its end.
        fields = {"success": False, "error": "failed", "detail": sentence(repr(failure))}
        fields = {"capability": capability.name} | fields
        await asyncio.to_thread(work.audit, "execution_finished", fields)
        raise
    await asyncio.to_thread(note_end, work, capability, result)
    return outcome_of(work, result)


def prepared(
    work: EffectWork[ThreadData], payload: Mapping[str, Any]
) -> tuple[Capability, Mapping[str, Any]]:
    """Return the capability and all its arguments, checked once more against its schema."""
    registry, parameters = work.resources.get(open_registry), payload.get("parameters", {})
    capability = registry[payload["capability"]]
    registry.check(capability.name, parameters)
    runtime = {
        "record_id": work.record.id,
        "key": work.key,
        "token_number": work.lease.token_number,
        "item_ids": confirmed_item_ids(work),
    }
    return capability, registry.bind(capability.name, parameters, runtime)


def confirmed_item_ids(work: EffectWork[ThreadData]) -> list[str]:
    """Return the ids of the items that belong to the thread by its confirmed context."""
    context = work.record.data["proposals"].get("context")
    return list(context["payload"].get("item_ids", [])) if context else []


def note_start(
    work: EffectWork[ThreadData], capability: Capability, payload: Mapping[str, Any]
) -> None:
    """Note the start. If an earlier attempt has no noted end, note that its worker was lost."""
    if work.attempt > 1:
        history = work.records.views.history(work.record.id)
        notes = [line for line in history if isinstance(line, Note)]
        kinds = [note.kind for note in notes if note.detail.get("effect") == work.lease.suffix]
        if kinds.count("execution_started") > kinds.count("execution_finished"):
            lost = {"capability": capability.name, "success": False, "error": "lost_worker"}
            work.note("execution_finished", lost)
    deadline_ms = int(capability.deadline_s * 1_000) + STALL_MARGIN_MS
    detail = {
        "capability": capability.name,
        "parameters": payload.get("parameters", {}),
        "attempt": work.attempt,
    }
    work.note("execution_started", detail, stall_ms=deadline_ms)


async def call_with_notes(
    work: EffectWork[ThreadData], capability: Capability, bound: Mapping[str, Any]
) -> Result | None:
    """Run the call to its end, and note each step. Return None if an order stopped it."""
    # One thread writes the notes: their order is kept, and the event loop never waits for them.
    notes = ThreadPoolExecutor(1, "steps")

    def note_step(step: Mapping[str, str]) -> None:
        notes.submit(work.audit, "execution_step", step)

    call = partial(call_capability, deadline_s=capability.deadline_s, on_step=note_step)
    called = traced_tool(capability.name, partial(call, capability, bound))
    can_stop = inspect.iscoroutinefunction(capability.call)
    try:
        return await stoppable(work, asyncio.ensure_future(called), can_stop=can_stop)
    except asyncio.CancelledError:
        if work.interrupted.is_set() and not work.stopped.is_set():
            return None
        await asyncio.to_thread(
            work.audit, "execution_finished", {"success": False, "error": "stopped"}
        )
        raise
    finally:
        await asyncio.to_thread(notes.shutdown)


async def stoppable(
    work: EffectWork[ThreadData], task: asyncio.Future[Result], *, can_stop: bool
) -> Result:
    """Wait until the task has ended; cancel it at the first order to stop.

    A thread cannot be stopped: a synchronous capability runs to its end, and its result is
    reported even to a person who revoked it. Reporting it as stopped earlier would let the next
    execution run beside it.
    """
    loop = asyncio.get_running_loop()
    ordered = False

    def stop() -> None:
        nonlocal ordered
        if can_stop and not ordered:
            ordered = True
            task.cancel()

    def pass_on() -> None:
        loop.call_soon_threadsafe(stop)

    work.call_on_order(pass_on)
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            stop()
    return task.result()


def note_end(work: EffectWork[ThreadData], capability: Capability, result: Result | None) -> None:
    """Note the end of the call."""
    detail: dict[str, Any] = {
        "capability": capability.name,
        "success": isinstance(result, Succeeded | SplitWork),
    }
    match result:
        case None:
            detail["error"] = "cancelled"
        case Failed():
            detail |= {"error": result.code, "detail": result.detail, "exit_code": result.exit_code}
        case Succeeded():
            detail |= {"result": result.value, "truncated": result.truncated}
        case SplitWork():
            detail["children"] = len(result.children)
    work.audit("execution_finished", detail)


def outcome_of(work: EffectWork[ThreadData], result: Result | None) -> Outcome:
    """Return the outcome of a result."""
    suffix = work.lease.suffix
    match result:
        case None:
            return Outcome(Trigger.CANCEL_CONFIRMED, {"reason": "stopped as asked"})
        case Succeeded():
            done = {"result": result.value, "run": suffix, "truncated": result.truncated}
            return Outcome(Trigger.EXECUTION_DONE, done)
        case SplitWork():
            return split_outcome(work, result)
        case Failed():
            fields: dict[str, Any] = {"run": suffix}
            if result.exit_code is not None:
                fields["exit_code"] = result.exit_code
            return execution_failed(str(result.code), result.detail, fields)


def split_outcome(work: EffectWork[ThreadData], split: SplitWork) -> Outcome:
    """Return the outcome of a split; a failure where the record cannot take these children."""
    if not work.record.levels_left:
        detail = f"a thread can be split at most {len(work.record.ancestors)} levels deep"
        return execution_failed("too_deep", detail)
    children = [dict(child) for child in split.children]
    payload = {
        "children": children,
        "relationship": split.relationship,
        "run": work.lease.suffix,
    }
    try:
        work.machine.admit(Trigger.DECOMPOSED, payload)
    except CallError as refusal:
        return execution_failed("invalid_result", sentence(str(refusal)))
    return Outcome(Trigger.DECOMPOSED, payload)


def execution_failed(code: str, detail: str, fields: Mapping[str, Any] | None = None) -> Outcome:
    """Return the outcome of an action that did not succeed."""
    payload = {"code": code, "detail": detail, **(fields or {})}
    return Outcome(Trigger.EXECUTION_FAILED, payload)
