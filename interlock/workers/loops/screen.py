"""Prints long-lived agents and their mail as tables, from plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.workers.terminal.screen import age, clock, grid, one_line, out, state_text

Row = Mapping[str, Any]


def agents(rows: Sequence[Row], now_ms: int) -> None:
    """Print agents: the state of each and since when, its errors, and its waiting mail."""
    table = grid("agent", "state", "since", "session", "errors", "mail", "host", "why")
    for row in rows:
        table.add_row(
            row["name"],
            state_text(row["state"]),
            age(now_ms - row["since_ms"]),
            str(row["session"]),
            f"{row['errors']} in a row, {row['errors_in_all']} in all",
            waiting_mail(row) or "-",
            row["host"] or "-",
            one_line(row["why"]),
        )
    out.print(table)


def waiting_mail(row: Row) -> str:
    """Return how much mail waits for an agent, or '' if none does."""
    least = "at least " if row["mail_is_minimum"] else ""
    urgent = f", {row['urgent_waiting']} urgent" if row["urgent_waiting"] else ""
    return f"{least}{row['mail_waiting']} waiting{urgent}" if row["mail_waiting"] else ""


def agent(value: Row) -> None:
    """Print everything about one agent, its newest mail last."""
    table = grid("agent", value["name"])
    shown = ("state", "id", "session", "attempt", "host", "pid", "repo", "branch", "worktree")
    for name in (*shown, "command", "next"):
        if value.get(name) not in (None, ""):
            table.add_row(name, one_line(value[name]))
    table.add_row("errors", f"{value['errors']} in a row, {value['errors_in_all']} in all")
    if last := value.get("last"):
        detail = last.get("detail") or ""
        table.add_row("last session", one_line(f"{last['outcome']} {detail}".strip()))
    if stopped := value.get("stopped"):
        table.add_row("stopped", one_line(f"{stopped['by']}: {stopped['reason']}"))
    for name, at_ms in value["due"].items():
        table.add_row(f"due: {name}", clock(at_ms))
    out.print(table)
    if value["mail"]:
        mail(value["mail"])


def mail(rows: Sequence[Row]) -> None:
    """Print mail, the newest last, each with when it was delivered."""
    table = grid("mail", "from", "kind", "delivered", "text")
    for row in reversed(rows):
        kind = f"urgent {row['kind']}" if row["urgent"] else row["kind"]
        at_ms = row["delivered_at_ms"]
        table.add_row(
            row["id"],
            one_line(row["sender"]),
            kind,
            (clock(at_ms) if at_ms else "before") if row["delivered"] else "waits",
            one_line(row["text"]),
        )
    out.print(table)
