"""What people see of long-lived agents in a terminal. Fetches nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from interlock.workers.terminal.screen import age, clock, grid, out, short, state_text

Row = Mapping[str, Any]


def loops(rows: Sequence[Row], now_ms: int) -> None:
    """Print agents: where each stands and since when, its errors, the mail that waits for it."""
    table = grid("agent", "state", "since", "session", "errors", "mail", "host", "why")
    for row in rows:
        urgent = f", {row['urgent_waiting']} urgent" if row["urgent_waiting"] else ""
        table.add_row(
            row["name"],
            state_text(row["state"]),
            age(now_ms - row["since_ms"]),
            str(row["session"]),
            f"{row['errors']} in a row, {row['errors_in_all']} in all",
            f"{row['mail_waiting']} waiting{urgent}" if row["mail_waiting"] else "-",
            row["host"] or "-",
            said(row["why"]),
        )
    out.print(table)


def loop(value: Row) -> None:
    """Print one agent whole, its newest mail last."""
    table = grid("agent", value["name"])
    shown = ("state", "id", "session", "attempt", "host", "pid", "repo", "branch", "worktree")
    for word in (*shown, "command", "next"):
        if value.get(word) not in (None, ""):
            table.add_row(word, said(value[word]))
    table.add_row("errors", f"{value['errors']} in a row, {value['errors_in_all']} in all")
    if last := value.get("last"):
        detail = last.get("detail") or ""
        table.add_row("last session", said(f"{last['outcome']} {detail}".strip()))
    if stopped := value.get("stopped"):
        table.add_row("stopped", said(f"{stopped['by']}: {stopped['reason']}"))
    for name, at_ms in value["due"].items():
        table.add_row(f"due: {name}", clock(at_ms))
    out.print(table)
    if value["mail"]:
        letters(value["mail"])


def letters(rows: Sequence[Row]) -> None:
    """Print mail, the newest last, each with when it was delivered."""
    table = grid("mail", "from", "kind", "delivered", "text")
    for row in reversed(rows):
        kind = f"urgent {row['kind']}" if row["urgent"] else row["kind"]
        at_ms = row["delivered_at_ms"]
        table.add_row(
            row["id"],
            said(row["sender"]),
            kind,
            (clock(at_ms) if at_ms else "before") if row["delivered"] else "waits",
            said(row["text"]),
        )
    out.print(table)


def said(words: Any) -> Text:
    """Return what others wrote as one line; brackets in it are no markup of ours."""
    return Text(short(words))
