"""Calls the capability that was approved, with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from interlock import CallError, EffectWork, Failed, Note, Outcome, Succeeded
from interlock.system.models import CapabilityCall, SplitWork
from interlock.system.text import one_line
from interlock.systems.threads.machines.thread.data import ThreadData
from interlock.systems.threads.machines.thread.names import Trigger

STALL_MARGIN_MS = 60_000

Result = Succeeded | SplitWork | Failed


async def execution(work: EffectWork[ThreadData]) -> Outcome:
    """Call the approved capability once, and return how the call ended."""
    action = work.record.data["proposals"].get("action")
    if not action or action.get("cleared") or not action["payload"].get("capability"):
        return execution_failed("no_action", "there is no action to run: the proposal was cleared")
    payload = action["payload"]
    try:
        call = await asyncio.to_thread(call_of, work, payload)
    except CallError as refusal:
        return execution_failed("invalid_parameters", str(refusal))
    if work.interrupted.is_set():
        return Outcome(Trigger.CANCEL_CONFIRMED, {"reason": "it was not started again"})
    if work.attempt > 1 and not call.capability.idempotent:
        # The kernel restarts no such execution. This check holds even if a record says otherwise.
        detail = f"{call.capability.name} was started before and may have taken effect"
        return execution_failed("lost_worker", detail)
    await asyncio.to_thread(note_start, work, call)
    try:
        result = await run_with_notes(work, call)
    except Exception as failure:
        # The runner records the failure; the start in the log still needs its end.
        fields = {"success": False, "error": "failed", "detail": one_line(repr(failure))}
        fields = {"capability": call.capability.name} | fields
        await asyncio.to_thread(work.audit, "execution_finished", fields)
        raise
    await asyncio.to_thread(note_end, work, call, result)
    return outcome_of(work, result)


def call_of(work: EffectWork[ThreadData], payload: Mapping[str, Any]) -> CapabilityCall:
    """Return the call of the action, about the items of its thread by the confirmed context."""
    context = work.record.data["proposals"].get("context")
    item_ids = context["payload"].get("item_ids", []) if context else []
    return CapabilityCall(work, payload["capability"], payload.get("parameters", {}), item_ids)


def note_start(work: EffectWork[ThreadData], call: CapabilityCall) -> None:
    """Note the start. If an earlier attempt has no noted end, note that its worker was lost."""
    if work.attempt > 1:
        history = work.records.views.history(work.record.id)
        notes = [line for line in history if isinstance(line, Note)]
        kinds = [note.kind for note in notes if note.detail.get("effect") == work.lease.suffix]
        if kinds.count("execution_started") > kinds.count("execution_finished"):
            lost = {"capability": call.capability.name, "success": False, "error": "lost_worker"}
            work.note("execution_finished", lost)
    deadline_ms = int(call.capability.deadline_s * 1_000) + STALL_MARGIN_MS
    detail = {
        "capability": call.capability.name,
        "parameters": call.parameters,
        "attempt": work.attempt,
    }
    work.note("execution_started", detail, stall_ms=deadline_ms)


async def run_with_notes(work: EffectWork[ThreadData], call: CapabilityCall) -> Result | None:
    """Run the call to its end, and note each step. Return None if an order stopped it."""
    # One thread writes the notes: their order is kept, and the event loop never waits for them.
    notes = ThreadPoolExecutor(1, "steps")

    def note_step(step: Mapping[str, str]) -> None:
        notes.submit(work.audit, "execution_step", step)

    try:
        return await call.run(note_step)
    except asyncio.CancelledError:
        if work.interrupted.is_set() and not work.stopped.is_set():
            return None
        await asyncio.to_thread(
            work.audit, "execution_finished", {"success": False, "error": "stopped"}
        )
        raise
    finally:
        await asyncio.to_thread(notes.shutdown)


def note_end(work: EffectWork[ThreadData], call: CapabilityCall, result: Result | None) -> None:
    """Note the end of the call."""
    detail: dict[str, Any] = {
        "capability": call.capability.name,
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
        return execution_failed("invalid_result", one_line(str(refusal)))
    return Outcome(Trigger.DECOMPOSED, payload)


def execution_failed(code: str, detail: str, fields: Mapping[str, Any] | None = None) -> Outcome:
    """Return the outcome of an action that did not succeed."""
    payload = {"code": code, "detail": detail, **(fields or {})}
    return Outcome(Trigger.EXECUTION_FAILED, payload)
