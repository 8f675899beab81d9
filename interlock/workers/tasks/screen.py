"""Tables and texts that the commands of coding tasks and agents print. Fetches nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from interlock.workers.terminal.screen import (
    REASON_LENGTH_MAX,
    age,
    clock,
    command_line,
    counts_text,
    grid,
    out,
    program,
    short,
    state_text,
)

PATHS_SHOWN = 5
TRIES_SHOWN = 10
TRUST_COLOURS = {
    "untrusted": "red",
    "probationary": "yellow",
    "trusted": "green",
    "elevated": "cyan",
}


def tasks(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print tasks with their states, the retries that are used, what comes next, and reasons."""
    table = grid("task", "state", "retries", "next", "title, and why")
    for row in rows:
        used = f"{row['retries']} of {row['max_retries']}"
        table.add_row(row["id"], state_text(row["state"]), used, next_text(row), title_and_why(row))
    out.print(table)
    if any(row["asks"] for row in rows):
        out.print(
            Text("asks you: `interlock show TASK` prints the question and its answers", "dim")
        )


def claim(value: Mapping[str, Any], lease_s: int) -> None:
    """Print a claimed task, and the commands with which its agent reports."""
    out.print(Text.assemble((value["id"], "bold"), " is claimed"))
    limit_s = value["claim"]["deadline_s"]
    facts = {
        "title": value["title"],
        "text": value["text"],
        "before": value["before"],
        "owns": ", ".join(value["owned_files"]),
        "deadline": f"{age(int(limit_s * 1_000))} after its start",
    }
    table = grid("", "")
    # Folded, because the agent needs the whole of it.
    table.columns[-1].no_wrap, table.columns[-1].overflow = False, "fold"
    for name, text in facts.items():
        if text:
            table.add_row(name, text)
    out.print(table)
    command_line(f"export INTERLOCK_KEY={value['key']} INTERLOCK_TOKEN={value['token']}")
    command_line(f"{program()} task start")
    out.print(Text("Do the work, and report how it ended:", "dim"))
    for verb in ("done --summary '...'", "fail --reason '...'"):
        command_line(f"{program()} task {verb}")
    beat = f"Renew the claim at least every {lease_s} s, or the task is offered to others:"
    out.print(Text(beat, "dim"))
    command_line(f"{program()} task heartbeat")


def unclaimed(backlog: str, found: Mapping[str, Mapping[str, int]]) -> None:
    """Print that no task can be claimed now, and why those that are open cannot."""
    states = counts_text(found["states"])
    out.print(Text(f"No task of {backlog} can be claimed by this agent now. Its tasks: {states}"))
    if found["reasons"]:
        counts = (f"{number} {reason}" for reason, number in found["reasons"].items())
        out.print(Text(f"Of those that are open: {', '.join(counts)}."), soft_wrap=True)
    out.print(Text("Why each of them waits:", "dim"))
    command_line(f"{program()} task list {backlog}")


def next_text(row: Mapping[str, Any]) -> Text:
    """Return what a task waits for: a person, or its next try."""
    if row["asks"]:
        return Text("asks you", "yellow")
    in_s = row["next_try_s"]
    return Text("" if in_s is None else f"try in {age(int(in_s * 1_000))}")


def title_and_why(row: Mapping[str, Any]) -> Text:
    """Return the title of a task, and why it failed or waits."""
    return Text.assemble(row["title"], (f"  {row['why']}" if row["why"] else "", "red"))


def backlogs(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the backlogs with the states of their tasks."""
    if not rows:
        out.print("there is no backlog", style="dim")
        return
    table = grid("backlog", "tasks", "states")
    for row in rows:
        table.add_row(row["backlog"], str(row["tasks"]), counts_text(row["states"]))
    out.print(table)


def failed_tasks(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print failed tasks: why each failed, how each try ended, and how to replay it."""
    if not rows:
        out.print("there are no failed tasks", style="dim")
    for row in rows:
        counts = f"{row['retries']} of {row['max_retries']} retries"
        crashes = f", {row['crashes']} crashes" if row["crashes"] else ""
        since = datetime.fromtimestamp(row["since"], UTC).strftime("%Y-%m-%d %H:%M:%S")
        details = f"  since {since} UTC, {counts}{crashes}"
        out.print(Text.assemble((row["id"], "bold"), f"  {row['title']}", (details, "dim")))
        reason = short(row["reason"] or "no reason was given", REASON_LENGTH_MAX)
        out.print(Text(f"  {reason}", style="red"))
        if codes := failure_codes(row):
            out.print(Text(f"  {codes}", style="dim"))
        if row["paths"]:
            out.print(Text(f"  in {', '.join(row['paths'][:PATHS_SHOWN])}", style="dim"))
        for failed_try in row["tries"][-TRIES_SHOWN:]:
            out.print(Text.assemble("    ", *try_text(failed_try)))
        command_line(row["replay"])


def try_text(failed_try: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return how one try failed, as parts of a line with their styles."""
    time = clock(int(failed_try["timestamp"] * 1_000))
    head = f"{time}  claim {failed_try['number']}  "
    cause = f"{failed_try['trigger']} by {failed_try['actor']}"
    reason = failed_try["reason"]
    why = f"  {short(reason, REASON_LENGTH_MAX)}" if reason else ""
    codes = failure_codes(failed_try)
    return (head, "dim"), (cause, ""), (why, "red"), (f"  ({codes})" if codes else "", "dim")


def failure_codes(failure: Mapping[str, Any]) -> str:
    """Return the codes of a failure, each once."""
    codes = (failure["code"], failure["transition_reason"], failure["abort_reason"])
    return ", ".join(dict.fromkeys(str(code) for code in codes if code))


def replayed(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print of each task whether it was replayed, and why."""
    if not rows:
        out.print("there is nothing to replay", style="dim")
        return
    table = grid("task", "answer", "why")
    for row in rows:
        done = bool(row["replayed"])
        result = Text("replayed" if done else "not replayed", style="green" if done else "red")
        table.add_row(row["id"], result, Text(row["reason"]))
    out.print(table)


def agents(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print agents with their states, processes and tasks."""
    table = grid("agent", "state", "process", "task")
    for row in rows:
        process = f"{row['pid']} on {row['host']}, {row['containment']}" if row["pid"] else "-"
        table.add_row(row["id"], state_text(row["state"]), process, row["task"])
    out.print(table)


def identities(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print identities with their trust, what they achieved, and their commands."""
    table = grid("identity", "trust", "good", "bad", "violations", "who")
    for row in rows:
        counts = [str(row[name]) for name in ("successes", "failures", "violations")]
        trust = Text(row["trust"], style=TRUST_COLOURS.get(row["trust"], "dim"))
        who = f"{row['name']} ({row['role']})  {short(row['command'])}"
        table.add_row(row["id"], trust, *counts, who)
    out.print(table)
