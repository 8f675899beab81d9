"""The commands of jobs and their graphs: `interlock job ...`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from interlock import guarded
from interlock.system.commands import Reason, Shell, Tagged
from interlock.system.pages import Part, Section, StateName
from interlock.system.tables import root_of
from interlock.systems.jobs import page
from interlock.systems.jobs.admission import dependencies_in
from interlock.systems.jobs.arguments import (
    FieldsOption,
    changed_fields,
    fields_from,
    job_fields,
    joined,
    limits_from,
)
from interlock.systems.jobs.client import Graphs
from interlock.systems.jobs.drawing.drawing import mermaid, svg
from interlock.systems.jobs.file.file import read_graph
from interlock.systems.jobs.file.writer import graph_text
from interlock.systems.jobs.machines.job.names import State
from interlock.systems.jobs.reply import schemas
from interlock.systems.jobs.status import GraphView
from interlock.systems.jobs.verbs import REVIEW_AGAIN, VERBS, Verb

app = typer.Typer()
# The headings in the help, each with its options.
PANELS = {
    "The work": "command description objective details acceptance fields",
    "Limits": "slots cost time iterations",
}

Job = Annotated[str, typer.Argument(help="A job, as GRAPH/JOB.", metavar="GRAPH/JOB")]
Graph = Annotated[str, typer.Argument(help="A graph.", metavar="GRAPH")]
Either = Annotated[str, typer.Argument(help="A job, or a graph for all of its jobs.", metavar="ID")]
Out = Annotated[Path | None, typer.Option(help="Write to this file instead of stdout.")]
Wait = Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait until it is done.")]
Cost = Annotated[str | None, typer.Option(help="The new limit of cost, in US dollars.")]
Time = Annotated[str | None, typer.Option(help="The new limit of time at work: 90s, 10m, 2h.")]
Runs = Annotated[
    int | None, typer.Option("--iterations", min=1, help="The new limit of runs of workers.")
]
Guidance = Annotated[str, typer.Option("--reason", help="The reason, as guidance for the worker.")]
RequiredReason = Annotated[str, typer.Option("--reason", help="The reason, which is required.")]
Phase = Annotated[str | None, typer.Option(help="The phase from which to work again.")]
RequiredPhase = Annotated[str, typer.Option(help="The phase to go back to.")]
NewWorker = Annotated[
    str | None, typer.Option("--command", help="Another command for the worker of that phase.")
]
Objective = Annotated[str | None, typer.Option(help="Another objective.")]
Repairs = Annotated[
    str,
    typer.Option(
        "--fields",
        help="As JSON: other worker, review, objective, details, acceptance; docs/jobs.md.",
    ),
]
To = Annotated[
    Literal["worker", "review"],
    typer.Option(help="worker: work on it again; review: review it again."),
]
PauseTime = Annotated[
    int | None, typer.Option("--for", min=1, help="Seconds; without it, until unpause.")
]
Dependency = Annotated[str | None, typer.Option(help="Only this one, as GRAPH/JOB.")]
Seen = Annotated[str | None, typer.Option("--proposal", help="The proposal that you saw.")]


def _parameter(name: str, annotation: Any, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


# The options that the rows of VERBS name. Most are fields of the payload; see `command_of`.
OPTIONS: Mapping[str, Parameter] = {
    "reason": _parameter("reason", Reason, ""),
    "guidance": _parameter("reason", Guidance, ""),
    "required reason": _parameter("reason", RequiredReason),
    "phase": _parameter("phase", Phase, None),
    "required phase": _parameter("phase", RequiredPhase),
    "worker": _parameter("command", NewWorker, None),
    "objective": _parameter("objective", Objective, None),
    "repairs": _parameter("fields", Repairs, "{}"),
    "to": _parameter("to", To, "worker"),
    "for_s": _parameter("for_s", PauseTime, None),
    "cost": _parameter("cost", Cost, None),
    "time": _parameter("time", Time, None),
    "iterations": _parameter("iterations", Runs, None),
    "dependency": _parameter("dependency", Dependency, None),
    "proposal": _parameter("proposal", Seen, None),
}


@app.command()
@guarded(actor="cli")
def create(
    shell: Shell,
    job: Annotated[str | None, typer.Argument(help="A job, as GRAPH/JOB.")] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="A whole graph, as docs/jobs.md describes it."),
    ] = None,
    fields: FieldsOption = "{}",
    command: Annotated[str | None, typer.Option(help="The worker's command.")] = None,
    description: Annotated[str, typer.Option(help="What the job is for.")] = "",
    after: Annotated[
        list[str] | None, typer.Option(help="A job that must succeed first. Repeatable.")
    ] = None,
    tag: Tagged = None,
    priority: Annotated[
        int | None, typer.Option(min=0, max=9, help="0 is first, 9 is last; else 5.")
    ] = None,
    activate: Annotated[bool, typer.Option(help="Activate it at once.")] = False,
) -> None:
    """Create a job, or a whole graph from a file. Repeating it changes nothing."""
    if (job is None) is (file is None):
        problem = "give a GRAPH/JOB or a --file" + (", not both" if job else " with a graph")
        shell.fail(problem)
    for_one_job = command or description or after or tag or fields != "{}" or priority is not None
    if file is not None and for_one_job:
        problem = (
            "--command, --description, --after, --tag, --priority and --fields are for one job"
        )
        shell.fail(problem)
    # A file is read before the store is asked, so that its problems are shown without one.
    whole = None if file is None else read_graph(file)
    graphs = Graphs(shell.client())
    if whole is not None:
        created = graphs.submit(whole, activate=activate)
        rows = [{"id": one.id, "replayed": one.replayed} for one in created.jobs]
        value = {"graph": created.graph, "jobs": rows, "activated": activate}
    else:
        assert job is not None, "either a job or a file is given"
        payload = job_fields(
            fields, command=command, description=description, after=after, tags=tag, job=job
        )
        if activate:
            # Checked before the job is created, so that a refusal leaves no draft behind.
            graphs.admission.check_dependencies({job: dependencies_in(payload)})
        submitted = graphs.create(job, payload, priority=5 if priority is None else priority)
        if activate and graphs.job(job).state == State.DRAFT:
            graphs.command(job, "activate")
        rows = [{"id": submitted.id, "replayed": submitted.replayed}]
        value = {"graph": root_of(job), "jobs": rows, "activated": activate}
    shell.answer(value, show=page.created)


@guarded(actor="person", panels=PANELS)
def config(
    shell: Shell,
    target: Either,
    fields: FieldsOption = "{}",
    command: Annotated[str | None, typer.Option(help="The worker's command.")] = None,
    description: Annotated[str | None, typer.Option(help="What the job is for.")] = None,
    objective: Objective = None,
    details: Annotated[str | None, typer.Option(help="For a draft: other details.")] = None,
    acceptance: Annotated[
        list[str] | None, typer.Option(help="For a draft: another criterion; repeatable.")
    ] = None,
    slots: Annotated[
        int | None, typer.Option(min=0, help="For a graph: how many jobs run at once.")
    ] = None,
    cost: Cost = None,
    time: Time = None,
    iterations: Runs = None,
) -> None:
    """Change a draft or a graph."""
    graphs = Graphs(shell.client())
    limits = limits_from(cost, time, iterations)
    texts = {"objective": objective, "details": details, "acceptance": acceptance}
    given = {name: text for name, text in texts.items() if text not in (None, [])}
    if "/" not in target and given:
        names = ", ".join(f"--{name}" for name in given)
        shell.fail(f"{names} is for a job: name it as GRAPH/JOB")
    changes = changed_fields(fields, command=command, description=description)
    changes = joined(changes, given)
    changes = joined(changes, {"limits": limits} if limits else {})
    if "/" in target and slots is not None:
        shell.fail("--slots is for a graph: leave out the job")
    if "/" in target:
        shell.answer_record(graphs.configure(target, changes))
    else:
        changes = joined(changes, {} if slots is None else {"slots": slots})
        shell.answer_record(graphs.configure_graph(target, changes))


@guarded(actor="person")
def step(shell: Shell, job: Job, wait: Wait = 60) -> None:
    """Run one step, and wait for it."""
    shell.answer_record(Graphs(shell.client()).step(job, wait_s=wait))


@guarded(actor="person")
def run(shell: Shell, job: Job, wait: Wait = 600) -> None:
    """Let a job go on, and wait."""
    shell.answer_record(Graphs(shell.client()).run(job, wait_s=wait))


def command_of(verb: Verb) -> Callable[..., None]:
    """Return the command of a verb. It takes the options that the verb's row in VERBS names."""

    def give(shell: Shell, *, target: str, **options: Any) -> None:
        limits = limits_from(*(options.pop(name, None) for name in ("cost", "time", "iterations")))
        name = REVIEW_AGAIN if options.pop("to", "") == "review" else verb.name
        proposal = options.pop("proposal", None)
        changed = fields_from(options.pop("fields", "{}"))
        command = options.pop("command", None)
        given = {key: value for key, value in options.items() if value}
        given |= {"worker": {"command": command}} if command else {}
        given |= {"limits": limits} if limits else {}
        fields = {"reason": "", **joined(changed, given)}
        api = shell.client()
        if verb.confirmed and not proposal:
            Graphs(api).job(target)  # an answer is asked for only if the command can give it
            proposal, fields = shell.asked_answer(api, target, verb.name, fields, proposal)
        if "/" in target or not verb.for_graph:
            record = Graphs(api).command(target, name, fields, proposal=proposal)
            shell.answer_record(record)
        else:
            states = Graphs(api).command_all(target, name, fields)
            shell.answer(states, show=lambda value: [page.states(value)])

    # Typer reads the parameters of a command from its signature.
    command: Any = give
    command.__signature__ = Signature(
        [
            Parameter("shell", Parameter.POSITIONAL_ONLY, annotation=Shell),
            _parameter("target", Either if verb.for_graph else Job),
            *(OPTIONS[name] for name in verb.options),
        ]
    )
    return guarded(actor="person", panels=PANELS)(give)


# The verbs whose commands do more than to give one command to a job.
OWN_COMMANDS: Mapping[str, Callable[..., None]] = {"config": config, "step": step, "run": run}
for _verb in VERBS.values():
    if _verb.name != REVIEW_AGAIN:
        app.command(_verb.name, help=_verb.help)(OWN_COMMANDS.get(_verb.name) or command_of(_verb))


@app.command()
@guarded
def status(shell: Shell, target: Either) -> None:
    """Show the condition of a graph, or the state of a job."""
    graphs = Graphs(shell.client())
    if "/" in target:
        shell.answer_record(graphs.looked_at(target))
    else:
        shell.answer(GraphView(graphs).status(target), show=page.status)


@app.command(name="list")
@guarded
def list_jobs(
    shell: Shell,
    graph: Annotated[str | None, typer.Argument(help="A graph; without it, all graphs.")] = None,
) -> None:
    """List all graphs, or the jobs of one graph, each with the reason why it waits."""
    graphs = Graphs(shell.client())
    view = GraphView(graphs)
    if graph is None:
        found = [view.status_of(one) for one in graphs.read(graphs.names())]
        shell.answer(found, show=lambda rows: [page.graphs_table(rows)])
        return
    now_ms = graphs.client.now_ms()
    rows = view.rows(graph)
    shell.answer(rows, show=lambda rows: [page.jobs_table(rows)], now_ms=now_ms)


@app.command()
@guarded
def show(shell: Shell, job: Job) -> None:
    """Show everything about a job: its manifest, its evidence, the commands that are legal."""
    graphs = Graphs(shell.client())
    graphs.looked_at(job)
    shell.answer(GraphView(graphs).show(job), show=_everything)


def _everything(value: Mapping[str, Any]) -> Iterable[Part]:
    facts = {
        "state": StateName("job", value["state"], asks=bool(value["question"])),
        "legal now": ", ".join(value["legal"]),
        "proposal": value["proposal"],
    }
    return [Section(value["manifest"]["job_id"], [facts, *page.job(value)])]


@app.command()
@guarded(has_json=False)
def export(shell: Shell, graph: Graph, out: Out = None) -> None:
    """Write the file that would create a graph again."""
    _written(shell, graph_text(graph, *Graphs(shell.client()).exported(graph)), out)


@app.command()
@guarded(has_json=False)
def graph(
    shell: Shell,
    name: Graph,
    form: Annotated[
        Literal["mermaid", "svg"], typer.Option("--format", help="mermaid or svg.")
    ] = "mermaid",
    out: Out = None,
) -> None:
    """Draw a graph with the states of its jobs."""
    draw = {"mermaid": mermaid, "svg": svg}[form]
    _written(shell, draw(name, GraphView(Graphs(shell.client())).drawn_jobs(name)), out)


@app.command()
def schema() -> None:
    """Print the JSON schemas of the replies of workers and reviewers, and of manifests."""
    typer.echo(json.dumps(schemas(), indent=2))


def _written(shell: Shell, text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
    else:
        try:
            out.write_text(text, "utf-8")
        except OSError as refusal:
            problem = f"{out} cannot be written: {refusal.strerror or refusal}"
            shell.fail(problem)
        shell.answer({"file": str(out)})
