"""Prints the tables and texts of the commands `interlock plan ...`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from interlock.workers.tasks.screen import title_and_why
from interlock.workers.terminal.screen import command_line, counts_text, grid, out, state_text

ANSWERS = {"approved": "green", "rejected": "yellow", "unseen": "red", "refused": "red"}


def checked(value: Mapping[str, Any]) -> None:
    """Print that a plan is valid, and how many of its tasks are new."""
    head = (f"{value['plan']}", "bold"), f" in {value['backlog']} is valid: "
    out.print(Text.assemble(*head, f"{value['tasks']} tasks, {len(value['new'])} of them new"))
    starved(value)


def submitted(value: Mapping[str, Any]) -> None:
    """Print whether each task of a plan is new, and what to do next."""
    table = grid("task", "answer")
    for row in value["tasks"]:
        result = ("known already", "white") if row["replayed"] else ("accepted", "green")
        table.add_row(row["id"], Text(*result))
    out.print(table)
    if value["others"]:
        names = ", ".join(value["others"])
        out.print(Text(f"the plan has tasks that the file does not have: {names}", "yellow"))
    starved(value)
    command = shlex.join(("interlock", "plan", "show", value["backlog"], value["plan"]))
    out.print(Text(f"no task runs before it is approved: {command}", "dim"), soft_wrap=True)


def starved(value: Mapping[str, Any]) -> None:
    """Print which tasks of a plan wait for one that has failed and is not tried again."""
    for name, dependency in value["starved"].items():
        if dependency in value["starved"]:
            sentence = f"so {name}, which depends on {dependency}, waits as well"
        else:
            retry = shlex.join(("interlock", "task", "retry", f"{value['backlog']}/{dependency}"))
            why = "which has failed and is not tried again"
            sentence = f"{name} depends on {dependency}, {why}: {retry}, or remove the dependency"
        out.print(Text(sentence, "yellow"), soft_wrap=True)


def plan(value: Mapping[str, Any]) -> None:
    """Print the tasks of a plan, and the commands to approve or reject it."""
    table = grid("task", "state", "role", "after", "title, and why")
    for row in value["tasks"]:
        names = (row["name"], state_text(row["state"]), row["role"], ", ".join(row["after"]))
        table.add_row(*names, title_and_why(row))
    out.print(table)
    if not any(row["proposal"] for row in value["tasks"]):
        return
    for choice in ("approve", "reject"):
        words = (value["backlog"], value["name"], "--seen", value["seen"])
        command_line(shlex.join(("interlock", "plan", choice, *words)))


def plans(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the plans of a backlog."""
    if not rows:
        out.print("there is no plan in this backlog", style="dim")
        return
    table = grid("plan", "tasks", "states")
    for row in rows:
        states = counts_text(row["states"])
        table.add_row(row["plan"], str(row["tasks"]), states)
    out.print(table)


def decided(value: Mapping[str, Any]) -> None:
    """Print the decision on each task, and the tasks that can then never be done."""
    table = grid("task", "answer", "state", "why")
    for row in value["tasks"]:
        result = "decided already" if row["answer"] == "already" else row["answer"]
        colour = ANSWERS.get(row["answer"], "white")
        table.add_row(row["id"], Text(result, style=colour), state_text(row["state"]), row["why"])
    out.print(table)
    for name, rejected in value["starved"].items():
        sentence = f"{name} depends on {rejected}: reject it too, or submit {rejected} anew"
        out.print(Text(sentence, "yellow"), soft_wrap=True)
