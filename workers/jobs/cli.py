"""The command line of jobs and their graphs: `interlock job ...`. It only calls the client."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from interlock.workers.jobs import screen as job_screen
from interlock.workers.jobs.admission import named_in
from interlock.workers.jobs.arguments import Described, configuration, creation, limits_of
from interlock.workers.jobs.client import Jobs
from interlock.workers.jobs.file.file import read_graph
from interlock.workers.jobs.graphs import Graphs
from interlock.workers.jobs.reply import schemas
from interlock.workers.terminal import screen
from interlock.workers.terminal.answer import (
    Actor,
    AsJson,
    Reason,
    answer,
    client,
    confirm_proposal,
    fail,
    guarded,
)

app = typer.Typer(
    help="Jobs in a graph: run, reviewed, signed off. docs/jobs.md says how.", no_args_is_help=True
)

Job = Annotated[str, typer.Argument(help="A job, as GRAPH/JOB.", metavar="GRAPH/JOB")]
Graph = Annotated[str, typer.Argument(help="A graph.", metavar="GRAPH")]
Either = Annotated[str, typer.Argument(help="A job, or a graph for all of its jobs.", metavar="ID")]
Why = Annotated[str, typer.Option("--reason", help="Why; it becomes guidance for the worker.")]
Must = Annotated[str, typer.Option("--reason", help="Why; a must.")]
Seen = Annotated[str | None, typer.Option("--proposal", help="The proposal that you saw.")]
Phase = Annotated[str | None, typer.Option(help="The phase to begin at again.")]
Wait = Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for what was begun.")]
Cost = Annotated[str | None, typer.Option(help="US dollars that it may spend from now on.")]
Time = Annotated[str | None, typer.Option(help="Time that it may work from now on: 90s, 10m, 2h.")]
Runs = Annotated[int | None, typer.Option("--iterations", min=1, help="Runs from now on.")]


@app.command()
@guarded
def create(
    job: Annotated[str | None, typer.Argument(help="A job, as GRAPH/JOB.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="A whole graph.")] = None,
    words: Described = "{}",
    command: Annotated[str | None, typer.Option(help="The worker's command.")] = None,
    description: Annotated[str, typer.Option(help="What it is.")] = "",
    after: Annotated[list[str] | None, typer.Option(help="Jobs that it depends on.")] = None,
    priority: Annotated[
        int | None, typer.Option(min=0, max=9, help="0 is first, 9 is last; else 5.")
    ] = None,
    activate: Annotated[bool, typer.Option(help="Activate it at once.")] = False,
    as_json: AsJson = False,
    actor: Actor = "cli",
) -> None:
    """Create a job, or a whole graph from a file. Repeating it changes nothing."""
    if (job is None) is (file is None):
        fail("give a GRAPH/JOB or a --file, not both", as_json=as_json, kind="UsageError")
    here = Graphs(client(actor))
    said = command or description or after or words != "{}" or priority is not None
    if file is not None and said:
        told = "--command, --description, --after, --priority and --fields are for one job"
        fail(told, as_json=as_json, kind="UsageError")
    if file is not None:
        done = here.submit(read_graph(file), activate=activate)
        rows = [{"id": one.id, "replayed": one.replayed} for one in done.jobs]
        value = {"graph": done.graph, "jobs": rows, "activated": activate}
    else:
        assert job is not None, "one of the two is given"
        given = creation(
            words,
            command=command,
            description=description,
            after=after,
            job=job,
        )
        if activate:
            # Before it is created: no draft is left behind.
            here.admission.refuse_rings({job: named_in(given)})
        one = here.create(job, given, priority=5 if priority is None else priority)
        if activate and here.job(job).state == "draft":
            here.command(job, "activate")
        rows = [{"id": one.id, "replayed": one.replayed}]
        value = {"graph": job.partition("/")[0], "jobs": rows, "activated": activate}
    answer(value, as_json=as_json, show=job_screen.created)


@app.command()
@guarded
def config(
    target: Either,
    words: Described = "{}",
    command: Annotated[str | None, typer.Option(help="The worker's command.")] = None,
    description: Annotated[str | None, typer.Option(help="What it is.")] = None,
    slots: Annotated[int | None, typer.Option(min=0, help="Of a graph: jobs at once.")] = None,
    cost: Cost = None,
    time: Time = None,
    iterations: Runs = None,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Change a draft; of a graph its slots and limits, which also lifts a halt."""
    here = Graphs(client(actor))
    limits = limits_of(cost, time, iterations)
    changes = configuration(words, command=command, description=description)
    changes |= {"limits": limits} if limits else {}
    if "/" in target and slots is not None:
        fail("--slots are a graph's: leave out the job", as_json=as_json, kind="UsageError")
    if "/" in target:
        record = here.configure(target, changes)
    else:
        record = here.configure_graph(target, changes | ({} if slots is None else {"slots": slots}))
    _moved(record.id, record.state, as_json=as_json)


@app.command()
@guarded
def activate(target: Either, as_json: AsJson = False, actor: Actor = "person") -> None:
    """Let a draft run once what it depends on has succeeded; of a graph, all drafts."""
    _told(target, "activate", {}, as_json=as_json, actor=actor)


@app.command()
@guarded
def step(job: Job, wait: Wait = 60, as_json: AsJson = False, actor: Actor = "person") -> None:
    """Run exactly the one command that the state names, and wait for it."""
    now = Jobs(client(actor)).step(job, wait_s=wait)
    _moved(job, now.state, as_json=as_json)


@app.command()
@guarded
def run(job: Job, wait: Wait = 600, as_json: AsJson = False, actor: Actor = "person") -> None:
    """Go on to the next gate: until somebody has to decide, or it has ended."""
    now = Jobs(client(actor)).run(job, wait_s=wait)
    _moved(job, now.state, as_json=as_json)


@app.command()
@guarded
def suspend(
    target: Either, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """Put a job aside with all that it has; what runs is stopped."""
    _told(target, "suspend", {"reason": reason}, as_json=as_json, actor=actor)


@app.command()
@guarded
def resume(
    target: Either, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """Take up a suspended job where it was."""
    _told(target, "resume", {"reason": reason}, as_json=as_json, actor=actor)


@app.command()
@guarded
def pause(
    target: Either,
    for_s: Annotated[int | None, typer.Option("--for", min=1, help="Seconds; else open.")] = None,
    reason: Reason = "",
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Stop the worker of a running job; it goes on after a while, or when you lift it."""
    words = {"reason": reason} | ({"for_s": for_s} if for_s else {})
    _told(target, "pause", words, as_json=as_json, actor=actor)


@app.command()
@guarded
def unpause(
    target: Either, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """Lift a pause."""
    _told(target, "unpause", {"reason": reason}, as_json=as_json, actor=actor)


@app.command()
@guarded
def cancel(
    target: Either, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """End a job, or all jobs of a graph; what runs is stopped."""
    _told(target, "cancel", {"reason": reason}, as_json=as_json, actor=actor)


@app.command()
@guarded
def approve(
    job: Job,
    proposal: Seen = None,
    reason: Why = "",
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Sign a job off: it has succeeded, and what depends on it goes on."""
    here = client(actor)
    seen = proposal or confirm_proposal(here, job, "approve", as_json=as_json)
    record = Jobs(here).approve(job, proposal=seen, reason=reason)
    _moved(job, record.state, as_json=as_json)


@app.command()
@guarded
def reject(
    job: Job,
    reason: Must,
    proposal: Seen = None,
    phase: Phase = None,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Send a job back for more work; what you say is handed to its worker."""
    here = client(actor)
    seen = proposal or confirm_proposal(here, job, "reject", as_json=as_json)
    record = Jobs(here).reject(job, proposal=seen, reason=reason, phase=phase)
    _moved(job, record.state, as_json=as_json)


@app.command()
@guarded
def resubmit(
    job: Job,
    to: Annotated[Literal["worker", "review"], typer.Option(help="Where it goes on.")] = "worker",
    reason: Why = "",
    phase: Phase = None,
    cost: Cost = None,
    time: Time = None,
    iterations: Runs = None,
    proposal: Seen = None,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """After an intervention: work on it again, or review it again, perhaps with higher limits."""
    limits = limits_of(cost, time, iterations)
    now = Jobs(client(actor)).resubmit(
        job, to=to, reason=reason, phase=phase, limits=limits, proposal=proposal
    )
    _moved(job, now.state, as_json=as_json)


@app.command()
@guarded
def terminate(
    job: Job,
    reason: Reason = "",
    proposal: Seen = None,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """End a job that needs an intervention."""
    now = Jobs(client(actor)).terminate(job, reason=reason, proposal=proposal)
    _moved(job, now.state, as_json=as_json)


@app.command(name="force-success")
@guarded
def force_success(
    job: Job,
    reason: Must,
    proposal: Seen = None,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Call a job a success whatever its state, as a steward; the log keeps who and why."""
    now = Jobs(client(actor)).force_success(job, reason=reason, proposal=proposal)
    _moved(job, now.state, as_json=as_json)


@app.command()
@guarded
def restep(
    job: Job,
    phase: Annotated[str, typer.Option(help="The phase to go back to.")],
    reason: Why = "",
    proposal: Seen = None,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Go back to an earlier phase; nothing may be at work meanwhile."""
    now = Jobs(client(actor)).restep(job, phase=phase, reason=reason, proposal=proposal)
    _moved(job, now.state, as_json=as_json)


@app.command()
@guarded
def waive(
    job: Job,
    dependency: Annotated[str | None, typer.Option(help="Only this one, as GRAPH/JOB.")] = None,
    reason: Reason = "",
    proposal: Seen = None,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Let a starved job go on without what it lost."""
    here = Jobs(client(actor))
    now = here.waive(job, dependency=dependency, reason=reason, proposal=proposal)
    _moved(job, now.state, as_json=as_json)


@app.command()
@guarded
def status(target: Either, as_json: AsJson = False) -> None:
    """Show how a graph stands, or in one line how a job does."""
    here = Jobs(client())
    if "/" in target:
        _moved(target, here.graphs.job(target).state, as_json=as_json)
    else:
        answer(here.status(target), as_json=as_json, show=job_screen.status)


@app.command(name="list")
@guarded
def list_jobs(
    graph: Annotated[str | None, typer.Argument(help="A graph; without it, all graphs.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the graphs, or the jobs of one with why they wait."""
    here = Jobs(client())
    if graph is None:
        found = [here.status(name) for name in here.graphs.names()]
        answer(found, as_json=as_json, show=job_screen.graphs)
        return
    now_ms = here.graphs.dispatch.views.now_ms()
    rows = here.list(graph)
    answer(rows, as_json=as_json, show=lambda value: job_screen.rows(value, now_ms))


@app.command()
@guarded
def show(job: Job, as_json: AsJson = False) -> None:
    """Show a job whole: its manifest as the log has it, its evidence, what is legal now."""
    answer(Jobs(client()).show(job), as_json=as_json, show=job_screen.job)


@app.command()
@guarded
def export(graph: Graph, out: Annotated[Path | None, typer.Option(help="A file.")] = None) -> None:
    """Write a graph as the file that would create it again."""
    _written(Jobs(client()).export(graph), out)


@app.command()
@guarded
def graph(
    name: Graph,
    form: Annotated[
        Literal["mermaid", "svg"], typer.Option("--format", help="mermaid or svg.")
    ] = "mermaid",
    out: Annotated[Path | None, typer.Option(help="A file.")] = None,
) -> None:
    """Draw a graph with the states of its jobs."""
    _written(Jobs(client()).graph(name, form=form), out)


@app.command()
def schema() -> None:
    """Print the JSON schema of what workers and reviewers answer, and of a manifest."""
    typer.echo(json.dumps(schemas(), indent=2))


def _told(target: str, verb: str, words: Mapping[str, Any], *, as_json: bool, actor: str) -> None:
    """Give a job, or each job of a graph that takes it, a command."""
    here = Graphs(client(actor))
    if "/" in target:
        _moved(target, here.command(target, verb, words).state, as_json=as_json)
    else:
        answer(here.command_all(target, verb, words), as_json=as_json, show=job_screen.many)


def _moved(job: str, state: str, *, as_json: bool) -> None:
    answer({"id": job, "state": state}, as_json=as_json, show=job_screen.moved)


def _written(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
    else:
        try:
            out.write_text(text, "utf-8")
        except OSError as refusal:
            told = f"{out} cannot be written: {refusal.strerror or refusal}"
            fail(told, as_json=False, kind="UsageError")
        screen.fields({"file": str(out)})
