"""Prints deliveries as tables, from plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from interlock.workers.terminal.screen import clock, grid, one_line, out

Row = Mapping[str, Any]


def dead(rows: Sequence[Row]) -> None:
    """Print the deliveries that failed for good, and why."""
    if not rows:
        out.print("every delivery was taken, or is still tried", style="dim")
        return
    table = grid("delivery", "endpoint", "message", "record", "since", "why")
    for row in rows:
        since = clock(row["at_ms"])
        why = one_line(row["why"])
        table.add_row(row["id"], row["endpoint"], row["kind"], row["record"], since, why)
    out.print(table)


def replayed(rows: Sequence[Row]) -> None:
    """Print of each delivery whether it is sent again."""
    if not rows:
        out.print("there is nothing to send again", style="dim")
        return
    table = grid("delivery", "answer", "why")
    for row in rows:
        done = bool(row["replayed"])
        result = Text("sent again" if done else "refused", style="green" if done else "red")
        table.add_row(row["id"], result, one_line(row["reason"]))
    out.print(table)
