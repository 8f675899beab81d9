"""What people see of a thread: its proposals, and the runs of its actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.kernel.event import Event, Note
from interlock.kernel.machines.threads.thread import questions
from interlock.workers.terminal.screen import grid, out, short


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


def runs(found: Sequence[Mapping[str, Any]]) -> None:
    """Show the runs."""
    table = grid("run", "what", "detail")
    for run in found:
        for part in ("started", "steps", "finished"):
            for row in run[part]:
                detail = {name: value for name, value in row.items() if name != "at_ms"}
                table.add_row(run["effect"], part.removesuffix("s"), short(detail))
    out.print(table)
