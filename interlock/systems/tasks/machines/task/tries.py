"""What the agent of the next try is told about the last one. Pure functions of data and payload.

The field `last_try` of a task has why the last try did not succeed, and what people said to that.
"""

from __future__ import annotations

from typing import Any

from interlock import Ask
from interlock.system.tables import RecordData as Data
from interlock.systems.tasks.machines.task import limits
from interlock.systems.tasks.machines.task.changes import REJECTED, requeued, unclaimed
from interlock.systems.tasks.machines.task.data import TaskData


def retried(ask: Ask[TaskData]) -> Data:
    """Count the retry, and keep how the last try failed. Claims and crashes count from 0 again."""
    counts = {"retries": ask.data["retries"] + 1, "claims": 0, "crashes": 0, "given_up": False}
    failure = ask.data.get("failure") or {}
    told: dict[str, Any] = {}
    if failure.get("code") != REJECTED:  # the reasons of all rejections are told anyway
        told = _told(failure, ask.data.get("checked", ()))
    return {**unclaimed(ask), **counts, "last_try": _with_answer(told, ask)}


def lost_and_followed(ask: Ask[TaskData]) -> Data:
    """Open the task of a lost agent again, and keep what is known of its end."""
    lost = ask.data.get("lost") or {}
    told = _told({**ask.payload, **lost}, ask.payload.get("results", ()))
    return {**unclaimed(ask), "last_try": told}


def taken_away(ask: Ask[TaskData]) -> Data:
    """Forget the claim that a person ended, and keep what the person said."""
    after = requeued(ask)
    if not ask.payload.get("reason"):
        return after
    taken = {"reason": "a person took the task from its agent"} if "claim" in ask.data else {}
    return {**after, "last_try": _with_answer(taken, ask)}


def unblocked(ask: Ask[TaskData]) -> Data:
    """Forget the claim, and keep what the task waited for and what a person answered to it."""
    waited = f"it waited for this, which is settled now: {ask.data['blocked_on']['on']}"
    return {**unclaimed(ask), "last_try": _with_answer({"reason": waited}, ask)}


def _told(failure: Data, results: Any) -> dict[str, Any]:
    kept = {name: failure[name] for name in ("reason", "why", "paths") if failure.get(name)}
    failed = [
        {name: str(result.get(name, "")) for name in ("type", "value", "detail")}
        for result in results
        if not result.get("passed")
    ]
    return {**kept, "signals": failed[: limits.SIGNALS_TOLD_MAX]} if failed else kept


def _with_answer(told: dict[str, Any], ask: Ask[TaskData]) -> dict[str, Any]:
    answer = ask.payload.get("reason")
    return {**told, "answer": answer} if answer else told
