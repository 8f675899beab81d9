"""What people see of agents in a terminal: who is at work, and who is trusted. Fetches nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from interlock.workers.terminal.screen import grid, out, short, state_text

COLOURS = {"untrusted": "red", "probationary": "yellow", "trusted": "green", "elevated": "cyan"}


def agents(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print agents: where each stands, its process, and its task."""
    table = grid("agent", "state", "process", "task")
    for row in rows:
        where = f"{row['pid']} on {row['host']}, {row['containment']}" if row["pid"] else "-"
        table.add_row(row["id"], state_text(row["state"]), where, row["task"])
    out.print(table)


def identities(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print identities: how far each is trusted, what it did, and who it is."""
    table = grid("identity", "trust", "good", "bad", "violations", "who")
    for row in rows:
        counts = [str(row[name]) for name in ("successes", "failures", "violations")]
        trust = Text(row["trust"], style=COLOURS.get(row["trust"], "dim"))
        who = f"{row['name']} ({row['role']})  {short(row['command'])}"
        table.add_row(row["id"], trust, *counts, who)
    out.print(table)
