"""A thread in plain words and values: its proposals, and the runs of its actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock import Event, Note
from interlock.systems.threads.machines.thread import questions


def runs_of(lines: Sequence[Event | Note]) -> list[dict[str, Any]]:
    """Return the start, the steps and the end of each run of an action, from its notes."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        if not isinstance(line, Note) or not line.kind.startswith("execution_"):
            continue
        detail = {name: value for name, value in line.detail.items() if name != "effect"}
        key = str(line.detail.get("effect"))
        run = found.setdefault(key, {"effect": key, "started": [], "steps": [], "finished": []})
        part = {"execution_started": "started", "execution_step": "steps"}.get(
            line.kind, "finished"
        )
        run[part].append({"at_ms": line.at_ms, **detail})
    return list(found.values())


def words_for(data: Mapping[str, Any], phase: str) -> list[str]:
    """Return what people wrote that the proposal of a phase rests on.

    Who picked a capability from those that were suggested wrote nothing.
    """
    phases = (questions.INTENT, questions.CONTEXT, questions.ACTION)
    before = phases[: phases.index(phase) + 1]
    picked = questions.proposed(data, phase).get("capability")
    return [
        str(line["text"])
        for line in data.get("feedback") or ()
        if line["kind"] != "edited" and line["phase"] in before and line["text"] not in ("", picked)
    ]


def request_text(data: Mapping[str, Any]) -> str:
    """Return what was asked for, as it came: the title and the text of the request."""
    inciting = data.get("inciting") or {}
    return "\n\n".join(filter(None, (inciting.get("title"), inciting.get("text"))))


def proposal_text(phase: str, proposal: Mapping[str, Any]) -> str:
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
            shown = questions.action_line(payload)
            return f"{shown}, irreversibility {risk}" if risk else shown
