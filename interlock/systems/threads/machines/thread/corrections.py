"""What a person's words change: calls that were turned down, and when a call is shown first.

A call is a capability with its parameters. It is turned down if it failed, or if a person wanted
something else instead. Pure functions of a thread's data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.systems.threads.machines.autonomy import ActionKind
from interlock.systems.threads.machines.thread import limits
from interlock.systems.threads.machines.thread.data import ThreadData, TurnedDownCall
from interlock.systems.threads.machines.thread.names import Trigger

OTHER_WANTED = "a person wanted something else"


def proposed_action(data: ThreadData) -> Mapping[str, Any]:
    """Return the proposed action of a thread, or nothing."""
    proposal = data["proposals"].get("action")
    return (proposal and proposal["payload"]) or {}


def is_call(action: Mapping[str, Any]) -> bool:
    """Whether an action is a call that could run."""
    return bool(action.get("kind") == ActionKind.STANDARD and action.get("capability"))


def is_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two actions have the same capability and the same parameters."""
    return _call(one) == _call(other)


def turned_down(data: ThreadData, why: str) -> ThreadData:
    """Return the data with the proposed call noted as turned down, and why; the newest is last.

    Where it failed, that remains the reason: a person wants something else because of it.
    """
    action = proposed_action(data)
    if not is_call(action):
        return data
    if why == OTHER_WANTED:
        why = why_turned_down(data, action) or why
    noted: TurnedDownCall = {
        "capability": action.get("capability"),
        "parameters": action.get("parameters") or {},
        "why": why[: limits.WHY_LENGTH_MAX],
    }
    others = [call for call in data.get("turned_down", []) if not is_same(call, action)]
    return {**data, "turned_down": [*others, noted][-limits.TURNED_DOWN_MAX :]}


def why_turned_down(data: ThreadData, action: Mapping[str, Any]) -> str:
    """Return why the same call was turned down before, or ''."""
    calls = data.get("turned_down", [])
    return next((call["why"] for call in calls if is_same(call, action)), "")


def is_corrected(data: ThreadData) -> bool:
    """Whether a person said in words what is wanted: what was made of them is shown first."""
    return any(
        line["kind"] == Trigger.REDIRECTED or (line["kind"] == Trigger.PROVIDED and line["text"])
        for line in data["feedback"]
    )


def repeats_proposed(data: ThreadData, answer: Mapping[str, Any]) -> bool:
    """Whether the action of an answer is the proposed one: a form had it filled in."""
    proposed = proposed_action(data)
    given = {"parameters": proposed.get("parameters"), **answer}
    return bool(answer.get("capability")) and is_same(given, proposed)


def _call(action: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "capability": action.get("capability"),
        "parameters": action.get("parameters") or {},
    }
