"""A thread in plain words: its request, its proposals, and what people wrote of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.system.tables import action_line
from interlock.system.text import LINE_LENGTH_MAX, one_line
from interlock.systems.threads.machines.thread import questions
from interlock.systems.threads.machines.thread.data import (
    ProposalData,
    ThreadData,
    thread_data,
)
from interlock.systems.threads.machines.thread.names import Trigger


def in_words(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the data of a thread say in words, also of damaged data that lack fields."""
    data = thread_data(found)
    return {
        "request": request_text(data),
        "sender": data.get("inciting", {}).get("source") or "",
        "said": words_for(data, questions.ACTION),
        "proposals": {
            phase: _with_confidence(phase, proposal)
            for phase, proposal in (data.get("proposals") or {}).items()
        },
    }


def _with_confidence(phase: str, proposal: ProposalData) -> str:
    shown = (
        "taken back"
        if proposal.get("cleared")
        else one_line(proposal_text(phase, proposal), length_max=LINE_LENGTH_MAX)
    )
    return f"{shown}  (confidence {proposal['confidence']:.2f})"


def words_for(data: ThreadData, phase: str) -> list[str]:
    """Return what people wrote that the proposal of a phase rests on.

    Who picked a capability from those that were suggested wrote nothing.
    """
    phases = (questions.INTENT, questions.CONTEXT, questions.ACTION)
    before = phases[: phases.index(phase) + 1]
    picked = questions.proposed(data, phase).get("capability")
    return [
        line["text"]
        for line in data.get("feedback") or ()
        if line["kind"] != Trigger.EDITED
        and line["phase"] in before
        and line["text"] not in ("", picked)
    ]


def request_text(data: ThreadData) -> str:
    """Return what was asked for, as it came: the title and the text of the request."""
    inciting = data.get("inciting", {})
    return "\n\n".join(filter(None, (inciting.get("title"), inciting.get("text"))))


def proposal_text(phase: str, proposal: ProposalData) -> str:
    """Return what a phase proposes: the intent, the items of the context, or the action."""
    payload = proposal["payload"]
    match phase:
        case questions.INTENT:
            return str(payload.get("intent", ""))
        case questions.CONTEXT:
            items = ", ".join(payload.get("item_ids", ())) or "no items"
            return "; ".join(filter(None, (items, payload.get("reasoning"))))
        case _ if payload.get("kind") == "clarification":
            return str(payload.get("blocked_on") or payload.get("summary"))
        case _:
            risk = payload.get("irreversibility", "")
            shown = action_line(payload)
            return f"{shown}, irreversibility {risk}" if risk else shown
