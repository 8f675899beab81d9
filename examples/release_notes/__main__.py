"""Runs the ten jobs and plays the steward: `python -m examples.release_notes`.

It starts a store, workers and beat of its own below .interlock/release_notes, and stops them again.
The files of the jobs stay, for you to look at.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

from interlock.kernel.record import Record
from interlock.systems.jobs import page
from interlock.systems.jobs.client import Graphs
from interlock.systems.jobs.drawing.drawing import svg
from interlock.systems.jobs.file.file import read_graph
from interlock.systems.jobs.status import GraphView
from interlock.workers.client import Client
from interlock.workers.config import read_settings
from interlock.workers.ops.deployment import Deployment
from interlock.workers.ops.home import new_home
from interlock.workers.terminal import screen
from interlock.workers.terminal.printed_page import PagePrinter

HERE = Path(__file__).resolve().parent
REPOSITORY = "RELEASE_NOTES_REPO"
LAST = "release-notes/publish"
NOTES = "RELEASE_NOTES.md"
ENDS = ("success", "canceled")
PATIENCE_S = 150.0
POLL_S = 0.1
WISH = "put a summary on top: how much there is of each kind, and where"


def main() -> None:
    """Run the example."""
    began = time.monotonic()
    home = new_home(Path(os.environ.get("INTERLOCK_HOME", ".interlock")) / "release_notes")
    repository = Path(os.environ.get(REPOSITORY) or HERE.parents[1]).absolute()
    # The steps run with the same Python interpreter as this example.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    os.environ[REPOSITORY] = str(repository)
    settings = read_settings({"INTERLOCK_HOME": str(home)})
    screen.out.rule("[bold]Interlock[/]: release notes from a git history, by ten jobs")
    screen.out.print(f"of {repository}", style="dim", soft_wrap=True)
    with Deployment(settings, pages=False) as deployment:
        graphs = Graphs(Client(deployment.settings, actor="ann"))
        file = read_graph(HERE / "graph.yaml")
        graphs.submit(file)
        stuck = steer(graphs, [f"{file.name}/{step.name}" for step in file.steps])
        report(graphs, file.name, home, stuck=stuck)
    screen.out.print(f"after {time.monotonic() - began:.0f} s", style="dim")
    if stuck:
        raise SystemExit(1)


def steer(graphs: Graphs, jobs: list[str]) -> str:
    """Print the states of the jobs, and decide in place of the steward, until all have ended.

    Returns why a job cannot go on, or ''.
    """
    seen: dict[str, int] = {}
    decided: set[str] = set()
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        records = [graphs.job(job_id) for job_id in jobs]
        for record in records:
            if seen.get(record.id) != record.entered:
                seen[record.id] = record.entered
                screen.out.print(f"  {record.id:32} {record.state}", highlight=False)
        if all(record.state in ENDS for record in records):
            return ""
        for record in records:
            if why := decide(graphs, record, decided):
                return why
        time.sleep(POLL_S)
    return f"not all jobs ended within {PATIENCE_S:g} s"


def decide(graphs: Graphs, record: Record, decided: set[str]) -> str:
    """Decide about a job that asks its steward; return why the job cannot go on, or ''."""
    if record.state == "intervention_required":
        why = str(record.data["failure"]["detail"])
        screen.out.print(f"    the reviewer: {why}", style="yellow", soft_wrap=True)
        if record.id in decided:
            return f"{record.id}: {why}"
        decided.add(record.id)
        screen.out.print("    the steward resubmits it; the reasons are in its brief")
        graphs.command(record.id, "resubmit", proposal=record.proposal)
    elif record.state == "approval_required" and record.id == LAST:
        verb = "approve" if record.id in decided else "reject"
        decided.add(record.id)
        action = {"approve": "approves it", "reject": f"rejects it: {WISH}"}[verb]
        screen.out.print(f"    the steward {action}", style="yellow", soft_wrap=True)
        fields = {"reason": WISH} if verb == "reject" else {}
        graphs.command(record.id, verb, fields, proposal=record.proposal)
    return ""


def report(graphs: Graphs, graph: str, home: Path, *, stuck: str) -> None:
    """Print the status of the graph, and where its files are."""
    view = GraphView(graphs)
    screen.out.rule("the condition of the graph")
    PagePrinter().print(page.status(view.status(graph)))
    drawing = home / "graph.svg"
    drawing.write_text(svg(graph, view.drawn_jobs(graph)), "utf-8")
    if stuck:
        screen.error(stuck)
        return
    screen.out.rule("everything about one job: interlock job show " + LAST)
    PagePrinter().print(page.job(view.show(LAST)))
    notes = home / NOTES
    shutil.copyfile(home / "jobs" / LAST / NOTES, notes)
    screen.out.rule("the result")
    screen.out.print(f"{notes}\n{drawing}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
