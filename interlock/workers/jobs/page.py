"""The page of jobs in the console: graphs and their drawing, limits, sign-offs, starved jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from interlock.kernel.record import Record, root_of
from interlock.workers.client import Client
from interlock.workers.jobs.client import GraphRecords, Graphs
from interlock.workers.jobs.drawing.drawing import svg
from interlock.workers.jobs.screen import UNITS
from interlock.workers.jobs.status import GraphView
from interlock.workers.terminal.page import (
    Bar,
    Cell,
    CopyableText,
    Drawing,
    NamedCells,
    Part,
    Query,
    RecordLink,
    Section,
    Sentence,
    Since,
    StateName,
    SystemPage,
    Table,
    Tone,
    ViewLink,
)

GRAPHS_MAX = 20
JOBS_MAX = 200
DRAWN_MAX = 100
TONES: Mapping[str, Tone] = {"starves": "bad", "halted": "bad", "waits for a person": "ask"}


def view(client: Client, query: Query) -> list[Section]:
    """Return the newest graphs, or everything about one `graph`."""
    graphs = Graphs(client)
    shown = GraphView(graphs)
    if graph := query.get("graph"):
        return _graph(shown, graphs.read_one(graph))
    found = graphs.read(client.page(machine="graph", limit=GRAPHS_MAX).ids)
    table = Table(
        ("Graph", "Condition", "Jobs", "Succeeded", "Need a person", "Starved"),
        [_graph_row(shown.status_of(each)) for each in found],
        "There is no graph yet. docs/jobs.md shows how to write one.",
    )
    more = [Sentence(f"These are the newest {GRAPHS_MAX}.", "soft")] * (len(found) == GRAPHS_MAX)
    return [Section("Graphs", (table, *more))]


def panel_of_graph(client: Client, record: Record) -> list[Section]:
    """Return the condition of a graph, and its limits."""
    value = GraphView(Graphs(client)).status(record.id)
    link = Sentence(ViewLink("Its drawing and its jobs", {"graph": record.id}))
    return [Section("Graph", (link, *_condition(value)))]


def panel_of_job(client: Client, record: Record) -> list[Section]:
    """Return why a job waits, its dependencies, its limits, its sign-off and its evidence."""
    value = GraphView(Graphs(client)).show(record.id)
    graph = root_of(record.id)
    parts: list[Part] = [Sentence(ViewLink(f"The graph {graph}", {"graph": graph}))]
    if value["why"]:
        state = record.state.replace("_", " ").capitalize()
        parts.append(Sentence(f"{state}: {value['why']}."))
    parts += _limits(value["limits"])
    parts.append(NamedCells(_facts(value)))
    if value["dependencies"]:
        rows = [_dependency(*pair) for pair in islice(value["dependencies"].items(), JOBS_MAX)]
        parts.append(Table(("Depends on", "State"), rows))
    history = value["manifest"]["history"]
    if history:
        phases = [(one["phase"], one["status"].lower(), one["summary"]) for one in history]
        parts.append(Table(("Phase", "Result", "Summary"), phases))
    if value["evidence"]:
        files = [(file["path"], file["kept"] or "not kept") for file in value["evidence"]]
        parts.append(Table(("Evidence", f"Copy on {value['host'] or 'its computer'}"), files))
    return [Section("Job", parts)]


def _graph_row(value: Mapping[str, Any]) -> tuple[Cell, ...]:
    return (
        ViewLink(value["graph"], {"graph": value["graph"]}),
        value["stands"],
        value["jobs"],
        value["counts"].get("success", 0),
        value["asks_count"],
        value["starved"],
    )


def _graph(shown: GraphView, graph: GraphRecords) -> list[Section]:
    value = shown.status_of(graph)
    sections = [Section("Graph", (*_condition(value), *_drawing(shown, graph)))]
    if value["asks"]:
        rows = [_asks(row) for row in value["asks"]]
        table = Table(("Job", "State", "Why", "Needs"), rows)
        sections.append(Section("Waits for a person", (table,)))
    jobs = shown.rows_of(graph.jobs[:JOBS_MAX])
    starved = [row for row in jobs if row["why"].startswith("starved")]
    if starved:
        table = Table(("Job", "Why"), [(RecordLink(one["id"]), one["why"]) for one in starved])
        sections.append(Section("Starved: these never start by themselves", (table,)))
    rows = [
        (
            RecordLink(one["id"]),
            StateName(one["state"]),
            Since(one["since_ms"]),
            one["runs"],
            one["why"],
        )
        for one in jobs
    ]
    sections.append(Section("Jobs", (Table(("Job", "State", "For", "Runs", "Why"), rows),)))
    return sections


def _asks(row: Mapping[str, Any]) -> tuple[Cell, ...]:
    needs = "a sign-off" if row["state"] == "approval_required" else "a decision"
    return (RecordLink(row["id"]), StateName(row["state"]), row["why"], needs)


def _condition(value: Mapping[str, Any]) -> Iterator[Part]:
    """Yield how a graph stands, and its limits as bars."""
    done = f"{value['counts'].get('success', 0)} of {value['jobs']} jobs succeeded"
    yield Sentence(f"It {value['stands']}: {done}.", TONES.get(value["stands"], ""))
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
        tone: Tone = "bad" if usage["reached"] else "ask" if usage["warns"] else ""
        text = f"{used:g} of {allowed:g} {UNITS[name]} used"
        yield Bar(f"Limit of {name}", used, allowed, text, tone)


def _facts(value: Mapping[str, Any]) -> dict[str, Cell]:
    review = value["review"] or {}
    return {
        "stewards": ", ".join(value["stewards"]),
        "asks": value["question"],
        "review": str(review.get("summary") or ""),
        "guidance": "; ".join(str(each) for each in value["guidance"]),
        "runs": str(value["runs"] or ""),
        "folder": CopyableText(value["dir"]) if value["dir"] else "",
        "computer": value["host"] if value["dir"] else "",
    }


def _dependency(name: str, state: str) -> tuple[Cell, ...]:
    link: Cell = name if state == "missing" else RecordLink(name)
    return (link, StateName(state))


PAGE = SystemPage(
    title="Jobs",
    question="How far are the graphs?",
    machines=("graph", "job"),
    view=view,
    panels={"graph": panel_of_graph, "job": panel_of_job},
)
