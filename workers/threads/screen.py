"""What people see of threads: the runs of their actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape

from interlock.kernel.event import Event, Note
from interlock.workers.terminal.screen import grid, out, short


def runs_of(lines: Sequence[Event | Note]) -> list[dict[str, Any]]:
    """Return the run record of each action: its start, its steps, its end, from the notes."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        if not isinstance(line, Note) or not line.kind.startswith("execution_"):
            continue
        detail = {name: value for name, value in line.detail.items() if name != "effect"}
        key = str(line.detail.get("effect"))
        kept = found.setdefault(key, {"effect": key, "started": [], "steps": [], "finished": []})
        part = {"execution_started": "started", "execution_step": "steps"}.get(
            line.kind, "finished"
        )
        kept[part].append({"at_ms": line.at_ms, **detail})
    return list(found.values())


def runs(found: Sequence[Mapping[str, Any]]) -> None:
    """Show the run records."""
    table = grid("run", "what", "detail")
    for one in found:
        for part in ("started", "steps", "finished"):
            for row in one[part]:
                detail = {name: value for name, value in row.items() if name != "at_ms"}
                table.add_row(one["effect"], part.removesuffix("s"), escape(short(detail)))
    out.print(table)
