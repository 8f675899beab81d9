"""The commands of jobs and their graphs: `interlock job ...`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from interlock.workers.jobs import screen as job_screen
from interlock.workers.jobs.admission import dependencies_in
from interlock.workers.jobs.arguments import FieldsOption, changed_fields, job_fields, limits_from
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
    help="Jobs in a graph: they are run, reviewed and signed off. See docs/jobs.md.",
    no_args_is_help=True,
)

Job = Annotated[str, typer.Argument(help="A job, as GRAPH/JOB.", metavar="GRAPH/JOB")]
Graph = Annotated[str, typer.Argument(help="A graph.", metavar="GRAPH")]
Either = Annotated[str, typer.Argument(help="A job, or a graph for all of its jobs.", metavar="ID")]
Guidance = Annotated[str, typer.Option("--reason", help="The reason, as guidance for the worker.")]
RequiredReason = Annotated[str, typer.Option("--reason", help="The reason, which is required.")]
Seen = Annotated[str | None, typer.Option("--proposal", help="The proposal that you saw.")]
Phase = Annotated[str | None, typer.Option(help="The phase from which to work again.")]
Wait = Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait until it is done.")]
Cost = Annotated[str | None, typer.Option(help="The new limit of cost, in US dollars.")]
Time = Annotated[str | None, typer.Option(help="The new limit of time at work: 90s, 10m, 2h.")]
Runs = Annotated[int | None, typer.Option("--iterations", min=1, help="The new limit of runs.")]


@app.command()
@guarded
def create(
    job: Annotated[str | None, typer.Argument(help="A job, as GRAPH/JOB.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="A whole graph.")] = None,
    fields: FieldsOption = "{}",
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
    graphs = Graphs(client(actor))
    for_one_job = command or description or after or fields != "{}" or priority is not None
    if file is not None and for_one_job:
        problem = "--command, --description, --after, --priority and --fields are for one job"
        fail(problem, as_json=as_json, kind="UsageError")
    if file is not None:
        created = graphs.submit(read_graph(file), activate=activate)
        rows = [{"id": one.id, "replayed": one.replayed} for one in created.jobs]
        value = {"graph": created.graph, "jobs": rows, "activated": activate}
    else:
        assert job is not None, "either a job or a file is given"
        payload = job_fields(fields, command=command, description=description, after=after, job=job)
        if activate:
            # Checked before the job is created, so that a refusal leaves no draft behind.
            graphs.admission.check_dependencies({job: dependencies_in(payload)})
        submitted = graphs.create(job, payload, priority=5 if priority is None else priority)
        if activate and graphs.job(job).state == "draft":
            graphs.command(job, "activate")
        rows = [{"id": submitted.id, "replayed": submitted.replayed}]
        value = {"graph": job.partition("/")[0], "jobs": rows, "activated": activate}
    answer(value, as_json=as_json, show=job_screen.created)


@app.command()
@guarded
def config(
    target: Either,
    fields: FieldsOption = "{}",
    command: Annotated[str | None, typer.Option(help="The worker's command.")] = None,
    description: Annotated[str | None, typer.Option(help="What it is.")] = None,
    slots: Annotated[
        int | None, typer.Option(min=0, help="For a graph: how many jobs run at once.")
    ] = None,
    cost: Cost = None,
    time: Time = None,
    iterations: Runs = None,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Change a draft, or the slots and limits of a graph. A raised limit ends a halt."""
    graphs = Graphs(client(actor))
    limits = limits_from(cost, time, iterations)
    changes = changed_fields(fields, command=command, description=description)
    changes |= {"limits": limits} if limits else {}
    if "/" in target and slots is not None:
        fail("--slots is for a graph: leave out the job", as_json=as_json, kind="UsageError")
    if "/" in target:
        record = graphs.configure(target, changes)
    else:
        changes |= {} if slots is None else {"slots": slots}
        record = graphs.configure_graph(target, changes)
    _moved(record.id, record.state, as_json=as_json)


@app.command()
@guarded
def activate(target: Either, as_json: AsJson = False, actor: Actor = "person") -> None:
    """Let a draft, or all drafts of a graph, run as soon as their dependencies have succeeded."""
    _command(target, "activate", {}, as_json=as_json, actor=actor)


@app.command()
@guarded
def step(job: Job, wait: Wait = 60, as_json: AsJson = False, actor: Actor = "person") -> None:
    """Run exactly the one command that the state names, and wait for it."""
    now = Jobs(client(actor)).step(job, wait_s=wait)
    _moved(job, now.state, as_json=as_json)


@app.command()
@guarded
def run(job: Job, wait: Wait = 600, as_json: AsJson = False, actor: Actor = "person") -> None:
    """Let a job go on until somebody has to decide, or until it has ended."""
    now = Jobs(client(actor)).run(job, wait_s=wait)
    _moved(job, now.state, as_json=as_json)


@app.command()
@guarded
def suspend(
    target: Either, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """Suspend a job; its running worker is stopped, and its results are kept."""
    _command(target, "suspend", {"reason": reason}, as_json=as_json, actor=actor)


@app.command()
@guarded
def resume(
    target: Either, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """Continue a suspended job where it was."""
    _command(target, "resume", {"reason": reason}, as_json=as_json, actor=actor)


@app.command()
@guarded
def pause(
    target: Either,
    for_s: Annotated[
        int | None, typer.Option("--for", min=1, help="Seconds; without it, until unpause.")
    ] = None,
    reason: Reason = "",
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Stop the worker of a running job, for some time or until unpause."""
    fields = {"reason": reason} | ({"for_s": for_s} if for_s else {})
    _command(target, "pause", fields, as_json=as_json, actor=actor)


@app.command()
@guarded
def unpause(
    target: Either, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """End a pause."""
    _command(target, "unpause", {"reason": reason}, as_json=as_json, actor=actor)


@app.command()
@guarded
def cancel(
    target: Either, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """Cancel a job, or all jobs of a graph; running workers are stopped."""
    _command(target, "cancel", {"reason": reason}, as_json=as_json, actor=actor)


@app.command()
@guarded
def approve(
    job: Job,
    proposal: Seen = None,
    reason: Guidance = "",
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Sign a job off: it has succeeded, and the jobs that depend on it go on."""
    api = client(actor)
    seen = proposal or confirm_proposal(api, job, "approve", as_json=as_json)
    record = Jobs(api).approve(job, proposal=seen, reason=reason)
    _moved(job, record.state, as_json=as_json)


@app.command()
@guarded
def reject(
    job: Job,
    reason: RequiredReason,
    proposal: Seen = None,
    phase: Phase = None,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Send a job back for more work; its worker gets the reason as guidance."""
    api = client(actor)
    seen = proposal or confirm_proposal(api, job, "reject", as_json=as_json)
    record = Jobs(api).reject(job, proposal=seen, reason=reason, phase=phase)
    _moved(job, record.state, as_json=as_json)


@app.command()
@guarded
def resubmit(
    job: Job,
    to: Annotated[
        Literal["worker", "review"], typer.Option(help="Work on it again, or review it again.")
    ] = "worker",
    reason: Guidance = "",
    phase: Phase = None,
    cost: Cost = None,
    time: Time = None,
    iterations: Runs = None,
    proposal: Seen = None,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """After an intervention, work on a job again or review it again; limits may be raised."""
    limits = limits_from(cost, time, iterations)
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
    """Cancel a job that needs an intervention."""
    now = Jobs(client(actor)).terminate(job, reason=reason, proposal=proposal)
    _moved(job, now.state, as_json=as_json)


@app.command(name="force-success")
@guarded
def force_success(
    job: Job,
    reason: RequiredReason,
    proposal: Seen = None,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Make a job a success whatever its state is, as a steward; the reason is logged."""
    now = Jobs(client(actor)).force_success(job, reason=reason, proposal=proposal)
    _moved(job, now.state, as_json=as_json)


@app.command()
@guarded
def restep(
    job: Job,
    phase: Annotated[str, typer.Option(help="The phase to go back to.")],
    reason: Guidance = "",
    proposal: Seen = None,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Go back to an earlier phase of a job that is not running."""
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
    """Let a starved job go on without a lost dependency, or without all that it lost."""
    jobs = Jobs(client(actor))
    now = jobs.waive(job, dependency=dependency, reason=reason, proposal=proposal)
    _moved(job, now.state, as_json=as_json)


@app.command()
@guarded
def status(target: Either, as_json: AsJson = False) -> None:
    """Show the condition of a graph, or the state of a job."""
    jobs = Jobs(client())
    if "/" in target:
        _moved(target, jobs.graphs.job(target).state, as_json=as_json)
    else:
        answer(jobs.status(target), as_json=as_json, show=job_screen.status)


@app.command(name="list")
@guarded
def list_jobs(
    graph: Annotated[str | None, typer.Argument(help="A graph; without it, all graphs.")] = None,
    as_json: AsJson = False,
) -> None:
    """List all graphs, or the jobs of one graph, each with the reason why it waits."""
    jobs = Jobs(client())
    if graph is None:
        found = [jobs.status(name) for name in jobs.graphs.names()]
        answer(found, as_json=as_json, show=job_screen.graphs)
        return
    now_ms = jobs.graphs.dispatch.views.now_ms()
    rows = jobs.list(graph)
    answer(rows, as_json=as_json, show=lambda value: job_screen.rows(value, now_ms))


@app.command()
@guarded
def show(job: Job, as_json: AsJson = False) -> None:
    """Show everything about a job: its manifest, its evidence, the commands that are legal."""
    answer(Jobs(client()).show(job), as_json=as_json, show=job_screen.job)


@app.command()
@guarded
def export(graph: Graph, out: Annotated[Path | None, typer.Option(help="A file.")] = None) -> None:
    """Write the file that would create a graph again."""
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
    """Print the JSON schemas of the replies of workers and reviewers, and of manifests."""
    typer.echo(json.dumps(schemas(), indent=2))


def _command(
    target: str, verb: str, fields: Mapping[str, Any], *, as_json: bool, actor: str
) -> None:
    """Give a command to a job, or to each job of a graph that accepts it."""
    graphs = Graphs(client(actor))
    if "/" in target:
        _moved(target, graphs.command(target, verb, fields).state, as_json=as_json)
    else:
        answer(graphs.command_all(target, verb, fields), as_json=as_json, show=job_screen.many)


def _moved(job: str, state: str, *, as_json: bool) -> None:
    answer({"id": job, "state": state}, as_json=as_json, show=job_screen.moved)


def _written(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
    else:
        try:
            out.write_text(text, "utf-8")
        except OSError as refusal:
            problem = f"{out} cannot be written: {refusal.strerror or refusal}"
            fail(problem, as_json=False, kind="UsageError")
        screen.fields({"file": str(out)})
