"""Runs the capability that was approved, with a deadline; it chooses nothing."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from interlock.kernel.errors import CallError
from interlock.kernel.event import Note
from interlock.kernel.record import ID_DEPTH_MAX, ancestors
from interlock.workers.engine.work import Outcome, Work
from interlock.workers.gateways.capabilities.capability import Capability
from interlock.workers.gateways.capabilities.registry import run
from interlock.workers.gateways.capabilities.result import Failed, Result, Split, Succeeded
from interlock.workers.text import sentence

STALL_MARGIN_MS = 60_000


async def execution(work: Work) -> Outcome:
    """Bind the run-time parameters, call once, and say how it ended, whatever happens."""
    action = work.record.data["proposals"].get("action") or {}
    if action.get("cleared") or not action.get("payload", {}).get("capability"):
        return failed("no_action", "there is no action to run: the proposal was cleared")
    payload = action["payload"]
    try:
        one, bound = await asyncio.to_thread(prepared, work, payload)
    except CallError as refusal:
        return failed("invalid_parameters", str(refusal))
    if work.interrupted.is_set():
        return Outcome("cancel_confirmed", {"reason": "it was not started again"})
    if work.attempt > 1 and not one.idempotent:
        # The kernel does not restart it; this holds even where a record was told otherwise.
        return failed("lost_worker", f"{one.name} was begun before and may have taken effect")
    await asyncio.to_thread(begin, work, one, payload)
    try:
        result = await watched(work, one, bound)
    except Exception as failure:
        # Whatever it is, the runner hears of it, and the log of the end of what it saw begin.
        why = {"success": False, "error": "failed", "detail": sentence(repr(failure))}
        await asyncio.to_thread(work.audit, "execution_finished", {"capability": one.name} | why)
        raise
    await asyncio.to_thread(finish, work, one, result)
    return concluded(work, result)


def prepared(work: Work, payload: Mapping[str, Any]) -> tuple[Capability, Mapping[str, Any]]:
    """Return the capability and all its arguments; the schema is checked once more."""
    registry, parameters = work.resources.registry, payload.get("parameters", {})
    one = registry[payload["capability"]]
    registry.check(one.name, parameters)
    runtime = {
        "record_id": work.record.id,
        "key": work.key,
        "token_number": work.lease.token_number,
        "item_ids": items_of(work),
    }
    return one, registry.bind(one.name, parameters, runtime)


def items_of(work: Work) -> list[str]:
    """Return the ids of the items that were found to belong to the matter."""
    context = work.record.data["proposals"].get("context") or {}
    return list(context.get("payload", {}).get("item_ids", []))


def begin(work: Work, one: Capability, payload: Mapping[str, Any]) -> None:
    """Note the start; an earlier attempt that never said how it ended is said to be lost."""
    if work.attempt > 1:
        notes = [n for n in work.dispatch.views.history(work.record.id) if isinstance(n, Note)]
        ours = [n for n in notes if n.detail.get("effect") == work.lease.suffix]
        open_ones = sum(n.kind == "execution_started" for n in ours) - sum(
            n.kind == "execution_finished" for n in ours
        )
        if open_ones > 0:
            lost = {"capability": one.name, "success": False, "error": "lost_worker"}
            work.note("execution_finished", lost)
    deadline_ms = int(one.deadline_s * 1_000) + STALL_MARGIN_MS
    detail = {
        "capability": one.name,
        "parameters": payload.get("parameters", {}),
        "attempt": work.attempt,
    }
    work.note("execution_started", detail, stall_ms=deadline_ms)


async def watched(work: Work, one: Capability, bound: Mapping[str, Any]) -> Result | None:
    """Run to the end, note each step as it is taken; None where it stopped as it was asked."""
    # One thread, so that steps keep their order; never the caller's, which may be the event loop.
    notes = ThreadPoolExecutor(1, "steps")

    def stepped(step: Mapping[str, str]) -> None:
        notes.submit(work.audit, "execution_step", step)

    task = asyncio.ensure_future(run(one, bound, deadline_s=one.deadline_s, on_step=stepped))
    try:
        return await stoppable(work, task, can_stop=inspect.iscoroutinefunction(one.call))
    except asyncio.CancelledError:
        if work.interrupted.is_set() and not work.stopped.is_set():
            return None
        await asyncio.to_thread(
            work.audit, "execution_finished", {"success": False, "error": "stopped"}
        )
        raise
    finally:
        await asyncio.to_thread(notes.shutdown)


async def stoppable(work: Work, task: asyncio.Future[Result], *, can_stop: bool) -> Result:
    """Wait until the task is really over, and pass one order to stop on to it.

    A thread cannot be stopped: a synchronous capability goes on to its end, and whoever revoked it
    hears of that end. To say earlier that it is gone would let two run at once.
    """
    loop = asyncio.get_running_loop()
    ordered = False

    def order() -> None:
        nonlocal ordered
        if can_stop and not ordered:
            ordered = True
            task.cancel()

    def pass_on() -> None:
        loop.call_soon_threadsafe(order)

    work.call_on_order(pass_on)
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            order()
    return task.result()


def finish(work: Work, one: Capability, result: Result | None) -> None:
    """Note the end."""
    detail: dict[str, Any] = {
        "capability": one.name,
        "success": isinstance(result, Succeeded | Split),
    }
    match result:
        case None:
            detail["error"] = "cancelled"
        case Failed():
            detail |= {"error": result.code, "detail": result.detail, "exit_code": result.exit_code}
        case Succeeded():
            detail |= {"result": result.value, "truncated": result.truncated}
        case Split():
            detail["children"] = len(result.children)
    work.audit("execution_finished", detail)


def concluded(work: Work, result: Result | None) -> Outcome:
    """Return the outcome of a result."""
    suffix = work.lease.suffix
    match result:
        case None:
            return Outcome("cancel_confirmed", {"reason": "stopped as asked"})
        case Succeeded():
            done = {"result": result.value, "run": suffix, "truncated": result.truncated}
            return Outcome("execution_done", done)
        case Split() if len(ancestors(work.record.id)) + 1 >= ID_DEPTH_MAX:
            return failed("too_deep", f"a matter can be split {ID_DEPTH_MAX - 1} times, not again")
        case Split():
            children = [dict(child) for child in result.children]
            split = {"children": children, "relationship": result.relationship, "run": suffix}
            return Outcome("decomposed", split)
        case Failed():
            kept = {"run": suffix} | (
                {"exit_code": result.exit_code} if result.exit_code is not None else {}
            )
            return failed(str(result.code), result.detail, kept)


def failed(code: str, detail: str, also: Mapping[str, Any] | None = None) -> Outcome:
    """Return the outcome of an action that did not succeed."""
    return Outcome(
        "execution_failed", {"code": code, "detail": detail, **(also or {})}, reason=detail
    )
