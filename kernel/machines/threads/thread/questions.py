"""The questions that a thread's cards ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from interlock.kernel.machines.threads.thread.changes import host
from interlock.kernel.question import failure_detail, value_text
from interlock.kernel.table import Data

INTENT, CONTEXT, ACTION = "intent", "context", "action"
UNBEGUN = "unbegun"  # the code of a clean-up that no worker began


def proposed(data: Data, phase: str) -> Mapping[str, Any]:
    """Return what a phase has proposed, without what is known about the proposal."""
    return ((data.get("proposals") or {}).get(phase) or {}).get("payload") or {}


def is_intent_right(data: Data) -> str:
    """Ask whether the intent was understood."""
    intent = proposed(data, INTENT).get("intent", "nothing was understood")
    return f"Is this what is wanted: {intent}?"


def is_context_right(data: Data) -> str:
    """Ask whether the right items were found."""
    items = ", ".join(proposed(data, CONTEXT).get("item_ids", [])) or "no items"
    return f"Do these belong to it: {items}?"


def what_is(phase: str) -> Callable[[Data], str]:
    """Ask for what could not be inferred in a phase."""
    return lambda data: (
        proposed(data, phase).get("blocked_on")
        or f"{failure_detail(data)} What is the {phase}?".lstrip()
    )


def may_it_be_done(data: Data) -> str:
    """Ask for consent to the action."""
    if ((data.get("proposals") or {}).get(ACTION) or {}).get("cleared"):
        return "The proposed action was taken back. Edit in another, redirect, or reject."
    return f"May this be done: {action_line(proposed(data, ACTION))}?"


def is_result_right(data: Data) -> str:
    """Ask whether the result of the action is right."""
    return f"It was done: {action_line(proposed(data, ACTION))}. Is it right?"


def what_now(data: Data) -> str:
    """Ask how to go on after the action failed."""
    return f"It failed: {failure_detail(data) or 'no reason was given.'} What now?"


def try_cleanup_again(data: Data) -> str:
    """Ask whether to try again to tidy up the source."""
    failed = f"Tidying up the source failed: {failure_detail(data)}"
    computer = host(data)
    if computer and data["failure"]["code"] == UNBEGUN:
        return (
            f"{failed} The request is on the computer {computer}, and only a worker of {computer}"
            " removes it. Start one there and try again, or accept that it stays?"
        )
    return f"{failed} Try again, or accept it?"


def action_line(payload: Mapping[str, Any]) -> str:
    """Return an action as one line."""
    parameters = payload.get("parameters") or {}
    shown = ", ".join(f"{name}={value_text(value)}" for name, value in sorted(parameters.items()))
    return f"{payload.get('capability') or payload.get('summary') or payload.get('kind')}({shown})"
