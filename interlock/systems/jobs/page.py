"""Graphs and jobs as people see them: conditions, a drawing, limits, sign-offs, starved jobs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from interlock import Client
from interlock.system.pages import (
    Bar,
    Drawing,
    Link,
    Part,
    Section,
    Sentence,
    StateName,
    SystemPage,
    Table,
    Time,
    Verbatim,
)
from interlock.system.tables import MICRO, Record, dollars
from interlock.system.text import duration
from interlock.systems.jobs.client import GraphRecords, Graphs
from interlock.systems.jobs.drawing.drawing import svg
from interlock.systems.jobs.machines.job.names import State
from interlock.systems.jobs.status import GraphView

GRAPHS_MAX = 20
JOBS_MAX = 200
DRAWN_MAX = 100
CENT = 10_000  # in millionths of a dollar
STANDS = {
    "in progress": Sentence("in progress", "good"),
    "ended": Sentence("ended", "good"),
    "waits for a person": Sentence("waits for a person", "ask"),
    "starves": Sentence("starves", "bad"),
    "halted": Sentence("halted", "bad"),
    "empty": Sentence("empty", "soft"),
}
# How an amount of what a limit counts is written: dollars, seconds, runs.
WRITTEN: Mapping[str, Callable[[float], str]] = {
    "cost": lambda usd: dollars(usd * MICRO),
    "time": lambda seconds: duration(seconds * 1_000),
    "iterations": lambda number: f"{number:g}",
}
Row = Mapping[str, Any]


def view(client: Client, query: Mapping[str, str]) -> list[Section]:
    """Return the newest graphs, or everything about one `graph`."""
    graphs = Graphs(client)
    shown = GraphView(graphs)
    if graph := query.get("graph"):
        return _graph(shown, graphs.read_one(graph))
    found = graphs.read(client.page(machine="graph", limit=GRAPHS_MAX).ids)
    table = graphs_table(shown.status_of(each) for each in found)
    more = [Sentence(f"These are the newest {GRAPHS_MAX}.", "soft")] * (len(found) == GRAPHS_MAX)
    return [Section("Graphs", (table, *more))]


def panel_of_graph(client: Client, record: Record) -> list[Section]:
    """Return the condition of a graph, and its limits."""
    value = GraphView(Graphs(client)).status(record.id)
    link = Sentence(Link({"graph": record.id}, "Its drawing and its jobs"))
    return [Section("Graph", (link, *_condition(value)))]


def status(value: Row) -> list[Section]:
    """Return how a graph stands, its limits, and the jobs that need a person."""
    return [Section(value["graph"], list(_condition(value))), *_asking(value)]


def graphs_table(rows: Iterable[Row]) -> Table:
    """Return graphs, each with its condition."""
    return Table(
        ("Graph", "Condition", "Jobs", "Succeeded", "Need a person", "Starved"),
        [_graph_row(row) for row in rows],
        "There is no graph yet. docs/jobs.md shows how to write one.",
    )


def jobs_table(rows: Iterable[Row]) -> Table:
    """Return jobs, each with the reason why it waits."""
    found = [
        (
            Link(one["id"]),
            StateName("job", one["state"], asks=one["asks"]),
            Time(one["since_ms"]),
            one["runs"],
            one["why"],
        )
        for one in rows
    ]
    return Table(("Job", "State", "For", "Runs", "Why"), found)


def job(value: Row) -> Iterator[Part]:
    """Yield why a job waits, its limits, its dependencies, its history and its evidence."""
    if value["why"]:
        state = value["state"].replace("_", " ").capitalize()
        yield Sentence(f"{state}: {value['why']}.")
    yield from _limits(value["limits"])
    yield _facts(value)
    if value["dependencies"]:
        rows = [_dependency(*pair) for pair in islice(value["dependencies"].items(), JOBS_MAX)]
        yield Table(("Depends on", "State"), rows)
    history = value["manifest"]["history"]
    if history:
        phases = [
            (one["phase"], StateName("job", one["status"].lower()), one["summary"])
            for one in history
        ]
        yield Table(("Phase", "Result", "Summary"), phases)
    if value["evidence"]:
        files = [
            (
                file["path"],
                file["sha256"][:12],
                file["bytes"],
                Verbatim(shlex.join(("less", file["kept"]))) if file["kept"] else "",
            )
            for file in value["evidence"]
        ]
        copy = f"Copy on {value['host'] or 'its computer'}"
        yield Table(("Evidence", "SHA-256", "Bytes", copy), files)


def created(value: Row) -> Iterator[Part]:
    """Yield how many jobs were created, and the command to run next."""
    new = sum(not one["replayed"] for one in value["jobs"])
    known = len(value["jobs"]) - new
    text = f"{_counted(new, 'job')} created" + (f", {known} known already" if known else "")
    yield Sentence(f"{value['graph']}: {text}")
    yield Sentence(Verbatim(shlex.join(("interlock", "job", "status", value["graph"]))))


def states(value: Mapping[str, str]) -> Table:
    """Return the states of several jobs after a command."""
    rows = [(Link(one), StateName("job", state)) for one, state in value.items()]
    return Table(("Job", "State"), rows, "no job takes this now")


def panel_of_job(client: Client, record: Record) -> list[Section]:
    """Return why a job waits, its dependencies, its limits, its sign-off and its evidence."""
    value = GraphView(Graphs(client)).show(record.id)
    graph = record.root
    link = Sentence(Link({"graph": graph}, f"The graph {graph}"))
    return [Section("Job", (link, *job(value)))]


def _graph_row(value: Row) -> tuple[object, ...]:
    return (
        Link({"graph": value["graph"]}, value["graph"]),
        STANDS[value["stands"]],
        value["jobs"],
        value["counts"].get(State.SUCCESS, 0),
        value["asks_count"],
        value["starved"],
    )


def _graph(shown: GraphView, graph: GraphRecords) -> list[Section]:
    value = shown.status_of(graph)
    sections = [Section("Graph", (*_condition(value), *_drawing(shown, graph))), *_asking(value)]
    jobs = shown.rows_of(graph.jobs[:JOBS_MAX])
    starved = [row for row in jobs if row["why"].startswith("starved")]
    if starved:
        table = Table(("Job", "Why"), [(Link(one["id"]), one["why"]) for one in starved])
        sections.append(Section("Starved: these never start by themselves", (table,)))
    return [*sections, Section("Jobs", [jobs_table(jobs)])]


def _asking(value: Row) -> Iterator[Section]:
    """Yield the jobs of a graph that need a person, if any does."""
    if value["asks"]:
        columns = ("Job", "State", "Needs", "Why")
        parts: list[Part] = [Table(columns, [_asks(row) for row in value["asks"]])]
        if (more := value["asks_count"] - len(value["asks"])) > 0:
            parts.append(Sentence(f"and {more} more", "soft"))
        yield Section("Waits for a person", parts)


def _asks(row: Row) -> tuple[object, ...]:
    needs = "a sign-off" if row["state"] == State.APPROVAL_REQUIRED else "a decision"
    return (Link(row["id"]), StateName("job", row["state"], asks=True), needs, row["why"])


def _condition(value: Row) -> Iterator[Part]:
    """Yield how a graph stands, and its limits as bars."""
    done = f"{value['counts'].get(State.SUCCESS, 0)} of {value['jobs']} jobs succeeded"
    yield Sentence(f"{value['stands'].capitalize()}: {done}.", STANDS[value["stands"]].tone)
    counts = (f"{number} {state.replace('_', ' ')}" for state, number in value["counts"].items())
    yield Sentence(", ".join(counts), "soft")
    if value["halted"]:
        yield Sentence(value["halted"], "bad")
    yield from _limits(value["limits"])


def _drawing(shown: GraphView, graph: GraphRecords) -> Iterator[Part]:
    if not graph.jobs:
        return
    if len(graph.jobs) > DRAWN_MAX:
        yield Sentence(
            f"It has more than {DRAWN_MAX} jobs: `interlock job graph` draws them.", "soft"
        )
        return
    try:
        yield Drawing(svg("", shown.drawn_jobs_of(graph)))
    except ValueError as refusal:
        yield Sentence(f"It cannot be drawn: {refusal}.", "bad")


def _limits(found: Iterable[Mapping[str, Any]]) -> Iterator[Bar]:
    for usage in found:
        name, used, allowed = usage["limit"], usage["used"], usage["allowed"]
        written = WRITTEN[name]
        what = " runs" if name == "iterations" else ""
        text = f"{written(used)} of {written(allowed)}{what} used"
        yield Bar(
            f"Limit of {name}",
            used,
            allowed,
            text,
            tone="bad" if usage["reached"] else "ask" if usage["warns"] else "",
        )


def _facts(value: Row) -> dict[str, object]:
    review, manifest = value["review"] or {}, value["manifest"]
    metrics = manifest["metrics"]
    return {
        "description": manifest["description"],
        "phase": f"{manifest['current_phase']}, {_counted(value['runs'], 'run')}",
        "cost": dollars(metrics["cumulative_cost"] * CENT),
        "at work": duration(metrics["cumulative_time_seconds"] * 1_000),
        "stewards": ", ".join(value["stewards"]),
        "asks": value["question"],
        "review": str(review.get("summary") or ""),
        "guidance": "; ".join(str(each) for each in value["guidance"]),
        "folder": Verbatim(value["dir"]) if value["dir"] else "",
        "computer": value["host"] if value["dir"] else "",
    }


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _dependency(name: str, state: str) -> tuple[object, ...]:
    link: object = name if state == "missing" else Link(name)
    return (link, StateName("job", state))


PAGE = SystemPage(
    title="Jobs",
    question="How far are the graphs?",
    machines=("graph", "job"),
    view=view,
    panels={"graph": panel_of_graph, "job": panel_of_job},
)
