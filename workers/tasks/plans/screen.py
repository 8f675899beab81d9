"""What people see of plans in a terminal: tables made of plain data. It fetches nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from interlock.workers.terminal.screen import grid, out, state_text

ANSWERS = {"approved": "green", "rejected": "yellow", "unseen": "red", "refused": "red"}


def checked(value: Mapping[str, Any]) -> None:
    """Show that a plan is fit, and which of its tasks are new."""
    head = (f"{value['plan']}", "bold"), f" in {value['backlog']} is fit: "
    out.print(Text.assemble(*head, f"{value['tasks']} tasks, {len(value['new'])} of them new"))


def submitted(value: Mapping[str, Any]) -> None:
    """Show what became of each task of a plan, and what to do next."""
    table = grid("task", "answer")
    for row in value["tasks"]:
        said = ("known already", "white") if row["replayed"] else ("accepted", "green")
        table.add_row(row["id"], Text(*said))
    out.print(table)
    if value["others"]:
        names = ", ".join(value["others"])
        out.print(Text(f"the plan also has these, which the file has not: {names}", "yellow"))
    command = f"interlock plan show {value['backlog']} {value['plan']}"
    out.print(Text(f"nothing runs before it is approved: {command}", "dim"), soft_wrap=True)


def plan(value: Mapping[str, Any]) -> None:
    """Show a plan: each task after those that it waits for, and how to decide."""
    table = grid("task", "state", "role", "after", "title, and why")
    for row in value["tasks"]:
        told = Text.assemble(row["title"], (f"  {row['why']}" if row["why"] else "", "red"))
        after = ", ".join(row["after"])
        table.add_row(row["name"], state_text(row["state"]), row["role"], after, told)
    out.print(table)
    if not any(row["proposal"] for row in value["tasks"]):
        return
    for word in ("approve", "reject"):
        command = f"interlock plan {word} {value['backlog']} {value['name']} --seen {value['seen']}"
        out.print(Text(f"  {command}", "dim"), soft_wrap=True)


def plans(rows: Sequence[Mapping[str, Any]]) -> None:
    """Show the plans of a backlog."""
    if not rows:
        out.print("there is no plan in this backlog", style="dim")
        return
    table = grid("plan", "tasks", "states")
    for row in rows:
        states = "  ".join(f"{state} {number}" for state, number in row["states"].items())
        table.add_row(row["plan"], str(row["tasks"]), states)
    out.print(table)


def decided(value: Mapping[str, Any]) -> None:
    """Show what became of the decision on each task, and whom it starves."""
    table = grid("task", "answer", "state", "why")
    for row in value["tasks"]:
        said = "decided already" if row["answer"] == "already" else row["answer"]
        colour = ANSWERS.get(row["answer"], "white")
        table.add_row(row["id"], Text(said, style=colour), state_text(row["state"]), row["why"])
    out.print(table)
    for name, of in value["starved"].items():
        sentence = f"{name} waits in vain for {of}: reject it as well, or submit another"
        out.print(Text(sentence, "yellow"), soft_wrap=True)
