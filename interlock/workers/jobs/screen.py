"""Prints graphs and jobs to a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from interlock.workers.terminal.screen import (
    REASON_LENGTH_MAX,
    age,
    command_line,
    counts_text,
    grid,
    out,
    record_state,
    short,
    state_text,
)
from interlock.workers.text import dollars

CONDITION_STYLES = {
    "in progress": "green",
    "ended": "green",
    "waits for a person": "yellow",
    "starves": "red",
    "halted": "red",
    "empty": "bright_black",
}
CENT = 10_000  # in millionths of a dollar
UNITS = {"cost": "$", "time": "s", "iterations": "runs"}


def created(value: Mapping[str, Any]) -> None:
    """Print how many jobs were created, and the command to run next."""
    new = sum(not job["replayed"] for job in value["jobs"])
    known = len(value["jobs"]) - new
    text = f"{new} jobs created" + (f", {known} known already" if known else "")
    out.print(Text.assemble((value["graph"], "bold"), f": {text}"))
    command_line(shlex.join(("interlock", "job", "status", value["graph"])))


def many(value: Mapping[str, str]) -> None:
    """Print the states of several jobs after a command."""
    if not value:
        out.print("no job takes this now", style="dim")
    for job, state in value.items():
        record_state({"id": job, "state": state})


def status(value: Mapping[str, Any]) -> None:
    """Print the condition of a graph, its counts and limits, and the jobs that need a person."""
    condition = (value["stands"].upper(), f"bold {CONDITION_STYLES[value['stands']]}")
    done = value["counts"].get("success", 0)
    head = Text.assemble((value["graph"], "bold"), "  ", condition)
    out.print(Text.assemble(head, f"  {done} of {value['jobs']} succeeded"))
    counts = counts_text(value["counts"])
    out.print(Text(f"  {counts}", "dim"))
    if value["halted"]:
        out.print(Text(f"  {value['halted']}", "red"), soft_wrap=True)
    limits(value["limits"])
    if value["asks"]:
        table = grid("needs a person", "state", "why")
        for row in value["asks"]:
            table.add_row(row["id"], state_text(row["state"]), short(row["why"], REASON_LENGTH_MAX))
        out.print(table)
        if (more := value["asks_count"] - len(value["asks"])) > 0:
            out.print(Text(f"  and {more} more", "dim"))


def limits(found: Sequence[Mapping[str, Any]]) -> None:
    """Print the usage of each limit."""
    for usage in found:
        unit = UNITS[usage["limit"]]
        style = "red" if usage["reached"] else "yellow" if usage["warns"] else "dim"
        text = f"  {usage['limit']}: {usage['used']:g} of {usage['allowed']:g} {unit} used"
        out.print(Text(text, style))


def rows(value: Sequence[Mapping[str, Any]], now_ms: int) -> None:
    """Print the jobs of a graph, each with the reason why it waits."""
    table = grid("job", "state", "since", "runs", "why")
    for row in value:
        since = age(now_ms - row["since_ms"])
        why = short(row["why"], REASON_LENGTH_MAX)
        table.add_row(row["id"], state_text(row["state"]), since, str(row["runs"]), why)
    out.print(table)


def graphs(value: Sequence[Mapping[str, Any]]) -> None:
    """Print all graphs."""
    if not value:
        out.print("there is no graph yet; docs/jobs.md shows how to write one", style="dim")
        return
    table = grid("graph", "condition", "jobs", "succeeded", "need a person")
    for row in value:
        condition = Text(row["stands"], CONDITION_STYLES[row["stands"]])
        done = str(row["counts"].get("success", 0))
        table.add_row(row["graph"], condition, str(row["jobs"]), done, str(row["asks_count"]))
    out.print(table)


def job(value: Mapping[str, Any]) -> None:
    """Print everything about one job."""
    manifest = value["manifest"]
    head = Text.assemble((manifest["job_id"], "bold"), " is ", state_text(value["state"]))
    out.print(Text.assemble(head, f"  {value['why']}" if value["why"] else ""), soft_wrap=True)
    if manifest["description"]:
        out.print(Text(f"  {short(manifest['description'], REASON_LENGTH_MAX)}", "dim"))
    metrics = manifest["metrics"]
    cost, seconds = metrics["cumulative_cost"] * CENT, metrics["cumulative_time_seconds"]
    phase = (
        f"phase {manifest['current_phase']}, {value['runs']} run{'' if value['runs'] == 1 else 's'}"
    )
    out.print(Text(f"  {phase}, {dollars(cost)}, {seconds:g} s at work", "dim"))
    limits(value["limits"])
    for name, state in list(value["dependencies"].items())[:20]:
        out.print(Text.assemble("  after ", name, " ", state_text(state)))
    for entry in manifest["history"]:
        summary = f"  {short(entry['summary'], REASON_LENGTH_MAX)}" if entry["summary"] else ""
        line = Text.assemble(f"  {entry['phase']} ", state_text(entry["status"].lower()), summary)
        out.print(line, soft_wrap=True)
    _files(value)
    if value["question"]:
        out.print(Text(f"  {value['question']}", "yellow"), soft_wrap=True)
    if value["stewards"]:
        out.print(Text(f"  only these may decide: {', '.join(value['stewards'])}", "dim"))
    if value["legal"]:
        out.print(Text(f"  legal now: {', '.join(value['legal'])}", "dim"))
    if value["proposal"]:
        out.print(Text(f"  you see the proposal {value['proposal']}", "dim"), soft_wrap=True)


def _files(value: Mapping[str, Any]) -> None:
    """Print where a job's files are, and its evidence, each file with a command that shows it."""
    if value["dir"]:
        where = f" on {value['host']}" if value["host"] else ""
        out.print(Text(f"  files{where}: {value['dir']}", "dim"), soft_wrap=True)
    for file in value["evidence"]:
        text = f"  evidence {file['path']}  sha256 {file['sha256'][:12]}  {file['bytes']} bytes"
        out.print(Text(text, "dim"))
        if file["kept"]:
            command_line(shlex.join(("less", file["kept"])))
