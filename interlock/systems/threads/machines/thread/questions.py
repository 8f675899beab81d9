"""The questions that a thread's cards ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from interlock.system.tables import action_line, as_sentence, shortened
from interlock.systems.threads.machines.thread import limits
from interlock.systems.threads.machines.thread.changes import host, why_failed
from interlock.systems.threads.machines.thread.corrections import is_call, why_turned_down
from interlock.systems.threads.machines.thread.data import ThreadData

INTENT: str = "intent"
CONTEXT: str = "context"
ACTION: str = "action"
# What a person is asked for where a phase came to nothing.
SOUGHT = {
    INTENT: "What is wanted?",
    CONTEXT: "Which items belong to it?",
    ACTION: "What should be done?",
}
UNBEGUN = "unbegun"  # the code of a clean-up that no worker began


def proposed(data: ThreadData, phase: str) -> Mapping[str, Any]:
    """Return what a phase has proposed, without what is known about the proposal."""
    proposal = (data.get("proposals") or {}).get(phase)
    return (proposal and proposal.get("payload")) or {}


def is_intent_right(data: ThreadData) -> str:
    """Ask whether the intent was understood."""
    intent = proposed(data, INTENT).get("intent", "nothing was understood")
    return f"Is this what is wanted: {intent}?"


def is_context_right(data: ThreadData) -> str:
    """Ask whether the right items were found."""
    items = ", ".join(proposed(data, CONTEXT).get("item_ids", [])) or "no items"
    return f"Do these belong to it: {items}?"


def what_is(phase: str) -> Callable[[ThreadData], str]:
    """Ask for what could not be inferred in a phase."""
    return lambda data: (
        proposed(data, phase).get("blocked_on") or f"{why_failed(data)} {SOUGHT[phase]}".lstrip()
    )


def what_is_the_action(data: ThreadData) -> str:
    """Ask for the action: for what could not be inferred, or for what should be different."""
    action = proposed(data, ACTION)
    why = why_turned_down(data, action) if is_call(action) and not data.get("failure") else ""
    if not why:
        return what_is(ACTION)(data)
    return (
        f"Your answer changed nothing: it would be {action_line(action)} again, {_but(why)}"
        " What should be different? Say it in other words, or give the exact parameters."
    )


def may_it_be_done(data: ThreadData) -> str:
    """Ask for consent to the action."""
    proposal = (data.get("proposals") or {}).get(ACTION)
    if proposal and proposal.get("cleared"):
        return "The proposed action was taken back. Edit in another, redirect, or reject."
    action = proposed(data, ACTION)
    asks = f"May this be done: {action_line(action)}?"
    if why := why_turned_down(data, action):
        return f"{asks} It was the same before, {_but(why)}"
    if before := data.get("turned_down"):
        return f"{asks} Before, it was {action_line(before[-1])}, {_but(before[-1]['why'])}"
    return asks


def _but(why: str) -> str:
    return as_sentence(f"but {shortened(why, limits.WHY_SHOWN_MAX)}")


def is_result_right(data: ThreadData) -> str:
    """Ask whether the result of the action is right."""
    return f"It was done: {action_line(proposed(data, ACTION))}. Is it right?"


def what_now(data: ThreadData) -> str:
    """Ask how to go on after the action failed."""
    return f"It failed: {why_failed(data) or 'no reason was given.'} What now?"


def try_cleanup_again(data: ThreadData) -> str:
    """Ask whether to try again to tidy up the source."""
    failed = f"Tidying up the source failed: {why_failed(data)}"
    computer = host(data)
    if computer and data["failure"]["code"] == UNBEGUN:
        return (
            f"{failed} The request is on the computer {computer}, and only a worker of {computer}"
            " removes it. Start one there and try again, or accept that it stays?"
        )
    return f"{failed} Try again, or accept it?"
