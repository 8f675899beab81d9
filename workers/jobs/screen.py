"""What people see of jobs in a terminal: a graph at a glance, one job whole. It fetches nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from interlock.workers.terminal.screen import age, grid, out, short, state_text

STANDS = {
    "flows": "green",
    "ended": "green",
    "waits for a person": "yellow",
    "starves": "red",
    "halted": "red",
    "empty": "bright_black",
}
WORDS = 160
UNITS = {"cost": "$", "time": "s", "iterations": "runs"}


def created(value: Mapping[str, Any]) -> None:
    """Show what became of a graph's jobs, and what to do next."""
    new = sum(not one["replayed"] for one in value["jobs"])
    known = len(value["jobs"]) - new
    told = f"{new} jobs created" + (f", {known} known already" if known else "")
    out.print(Text.assemble((value["graph"], "bold"), f": {told}"))
    out.print(Text(f"  interlock job status {value['graph']}", "dim"), soft_wrap=True)


def moved(value: Mapping[str, Any]) -> None:
    """Show where a job stands now."""
    out.print(Text.assemble((value["id"], "bold"), " is ", state_text(value["state"])))


def many(value: Mapping[str, str]) -> None:
    """Show where several jobs stand now."""
    if not value:
        out.print("no job takes this now", style="dim")
    for job, state in value.items():
        moved({"id": job, "state": state})


def status(value: Mapping[str, Any]) -> None:
    """Show how a graph stands, what runs, and what needs a person."""
    stands = (value["stands"].upper(), f"bold {STANDS[value['stands']]}")
    done = value["counts"].get("success", 0)
    head = Text.assemble((value["graph"], "bold"), "  ", stands)
    out.print(Text.assemble(head, f"  {done} of {value['jobs']} succeeded"))
    counts = "  ".join(f"{state} {number}" for state, number in value["counts"].items())
    out.print(Text(f"  {counts}", "dim"))
    if value["halted"]:
        out.print(Text(f"  {value['halted']}", "red"), soft_wrap=True)
    limits(value["limits"])
    if value["asks"]:
        table = grid("needs a person", "state", "why")
        for row in value["asks"]:
            table.add_row(row["id"], state_text(row["state"]), short(row["why"], WORDS))
        out.print(table)
        if (more := value["asks_count"] - len(value["asks"])) > 0:
            out.print(Text(f"  and {more} more", "dim"))


def limits(found: Sequence[Mapping[str, Any]]) -> None:
    """Show what is used of each limit."""
    for one in found:
        unit = UNITS[one["limit"]]
        style = "red" if one["reached"] else "yellow" if one["warns"] else "dim"
        told = f"  {one['limit']}: {one['used']:g} of {one['allowed']:g} {unit} used"
        out.print(Text(told, style))


def rows(value: Sequence[Mapping[str, Any]], now_ms: int) -> None:
    """Show the jobs of a graph, each with why it waits."""
    table = grid("job", "state", "since", "runs", "why")
    for row in value:
        since = age(now_ms - row["since_ms"])
        why = short(row["why"], WORDS)
        table.add_row(row["id"], state_text(row["state"]), since, str(row["runs"]), why)
    out.print(table)


def graphs(value: Sequence[Mapping[str, Any]]) -> None:
    """Show the graphs that there are."""
    if not value:
        out.print("there is no graph yet; docs/jobs.md shows how to write one", style="dim")
        return
    table = grid("graph", "stands", "jobs", "succeeded", "need a person")
    for row in value:
        stands = Text(row["stands"], STANDS[row["stands"]])
        done = str(row["counts"].get("success", 0))
        table.add_row(row["graph"], stands, str(row["jobs"]), done, str(row["asks_count"]))
    out.print(table)


def job(value: Mapping[str, Any]) -> None:
    """Show one job whole."""
    manifest = value["manifest"]
    head = Text.assemble((manifest["job_id"], "bold"), " is ", state_text(value["state"]))
    out.print(Text.assemble(head, f"  {value['why']}" if value["why"] else ""), soft_wrap=True)
    if manifest["description"]:
        out.print(Text(f"  {short(manifest['description'], WORDS)}", "dim"))
    metrics = manifest["metrics"]
    cost, seconds = metrics["cumulative_cost"] / 100, metrics["cumulative_time_seconds"]
    phase = (
        f"phase {manifest['current_phase']}, {value['runs']} run{'' if value['runs'] == 1 else 's'}"
    )
    out.print(Text(f"  {phase}, {cost:.2f} $, {seconds:g} s at work", "dim"))
    limits(value["limits"])
    for name, state in list(value["dependencies"].items())[:20]:
        out.print(Text.assemble("  after ", name, " ", state_text(state)))
    for entry in manifest["history"]:
        said = f"  {short(entry['summary'], WORDS)}" if entry["summary"] else ""
        line = Text.assemble(f"  {entry['phase']} ", state_text(entry["status"].lower()), said)
        out.print(line, soft_wrap=True)
    for one in value["evidence"]:
        told = f"  evidence {one['path']}  sha256 {one['sha256'][:12]}  {one['bytes']} bytes"
        out.print(Text(told, "dim"))
    if value["question"]:
        out.print(Text(f"  {value['question']}", "yellow"), soft_wrap=True)
    if value["legal"]:
        out.print(Text(f"  legal now: {', '.join(value['legal'])}", "dim"))
    if value["proposal"]:
        out.print(Text(f"  you see the proposal {value['proposal']}", "dim"), soft_wrap=True)
