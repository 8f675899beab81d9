"""What people see of coding tasks in a terminal: lists, dead letters. It fetches nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from interlock.workers.terminal.screen import clock, grid, out, short, state_text

WORDS = 160
PATHS_SHOWN = 5
TRIES_SHOWN = 10


def tasks(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print tasks, each with where it stands and why."""
    table = grid("task", "state", "retries", "title, and why")
    for row in rows:
        told = Text.assemble(row["title"], (f"  {row['why']}" if row["why"] else "", "red"))
        table.add_row(row["id"], state_text(row["state"]), str(row["retries"]), told)
    out.print(table)


def dead_letters(letters: Sequence[Mapping[str, Any]]) -> None:
    """Print dead letters: why each is one, what its tries said, and how it is replayed."""
    if not letters:
        out.print("there are no dead letters", style="dim")
    for letter in letters:
        counts = f"{letter['retries']} of {letter['max_retries']} retries"
        crashes = f", {letter['crashes']} crashes" if letter["crashes"] else ""
        since = datetime.fromtimestamp(letter["since"], UTC).strftime("%Y-%m-%d %H:%M:%S")
        at = f"  since {since} UTC, {counts}{crashes}"
        out.print(Text.assemble((letter["id"], "bold"), f"  {letter['title']}", (at, "dim")))
        out.print(Text(f"  {short(letter['reason'] or 'nobody said why', WORDS)}", style="red"))
        if named := codes(letter):
            out.print(Text(f"  {named}", style="dim"))
        if letter["paths"]:
            out.print(Text(f"  in {', '.join(letter['paths'][:PATHS_SHOWN])}", style="dim"))
        for one in letter["tries"][-TRIES_SHOWN:]:
            out.print(Text.assemble("    ", *tried(one)))
        out.print(Text(f"  {letter['replay']}", style="dim"), soft_wrap=True)


def tried(one: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return how a try came to grief, in words and styles."""
    head = f"{clock(int(one['timestamp'] * 1_000))}  claim {one['number']}  "
    named = codes(one)
    why = f"  {short(one['reason'], WORDS)}" if one["reason"] else ""
    by = f"{one['trigger']} by {one['actor']}"
    return (head, "dim"), (by, ""), (why, "red"), (f"  ({named})" if named else "", "dim")


def codes(one: Mapping[str, Any]) -> str:
    """Return the codes that a failure was given, each once."""
    given = (one["code"], one["transition_reason"], one["abort_reason"])
    return ", ".join(dict.fromkeys(str(code) for code in given if code))


def replayed(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print what was replayed and what was not, each with its reason."""
    if not rows:
        out.print("there is nothing to replay", style="dim")
        return
    table = grid("task", "answer", "why")
    for row in rows:
        done = bool(row["replayed"])
        said = Text("replayed" if done else "not replayed", style="green" if done else "red")
        table.add_row(row["id"], said, Text(row["reason"]))
    out.print(table)
