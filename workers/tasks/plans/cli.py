"""The command line of plans: `interlock plan ...`. It only calls the client."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from interlock.workers.tasks.plans import screen as plan_screen
from interlock.workers.tasks.plans.client import Decisions, Plan, Plans
from interlock.workers.tasks.plans.file import read_plan
from interlock.workers.terminal.answer import Actor, AsJson, Reason, answer, client, fail, guarded

app = typer.Typer(help="Plans: tasks that wait until you approve them.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(help="A plan: docs/plans.md says what is in it.")]
Repo = Annotated[Path | None, typer.Option(help="The repository, whatever the defaults say.")]
Into = Annotated[str | None, typer.Option("--backlog", help="The backlog, whatever the file says.")]
Backlog = Annotated[str, typer.Argument(help="A backlog.")]
Name = Annotated[str, typer.Argument(help="A plan's name.", metavar="PLAN")]
Tasks = Annotated[
    list[str] | None, typer.Argument(help="Only these tasks, by name.", metavar="[TASK]...")
]
Seen = Annotated[str | None, typer.Option(help="The word that `plan show` gave for what you saw.")]
UNDECIDED = ("unseen", "refused")


@app.command()
@guarded
def check(file: File, repo: Repo = None, backlog: Into = None, as_json: AsJson = False) -> None:
    """Check all of a plan, also its repositories and what it depends on; write nothing."""
    plan = read_plan(file, repo=repo, backlog=backlog)
    new = list(Plans(client()).check(plan))
    value = {"plan": plan.name, "backlog": plan.backlog, "tasks": len(plan.tasks), "new": new}
    answer(value, as_json=as_json, show=plan_screen.checked)


@app.command()
@guarded
def submit(
    file: File,
    repo: Repo = None,
    backlog: Into = None,
    as_json: AsJson = False,
    actor: Actor = "cli",
) -> None:
    """Hand in a plan; its tasks wait for your approval. Repeating it changes nothing."""
    plan = read_plan(file, repo=repo, backlog=backlog)
    done = Plans(client(actor)).submit(plan)
    rows = [{"id": one.id, "replayed": one.replayed} for one in done.tasks]
    value = {"plan": plan.name, "backlog": plan.backlog, "tasks": rows, "others": done.others}
    answer(value, as_json=as_json, show=plan_screen.submitted)


@app.command()
@guarded
def show(backlog: Backlog, plan: Name, as_json: AsJson = False) -> None:
    """Show a plan: every task after those that it waits for, and where it stands."""
    found = Plans(client()).show(backlog, plan)
    answer(asdict(found), as_json=as_json, show=plan_screen.plan)


@app.command(name="list")
@guarded
def list_plans(backlog: Backlog, as_json: AsJson = False) -> None:
    """List the plans of a backlog, and where their tasks stand."""
    answer(Plans(client()).of(backlog), as_json=as_json, show=plan_screen.plans)


@app.command()
@guarded
def approve(
    backlog: Backlog,
    plan: Name,
    tasks: Tasks = None,
    seen: Seen = None,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Let a plan be worked on, or some of its tasks."""
    plans = Plans(client(actor))
    proposals = _looked_at(plans.show(backlog, plan), seen, "approve", as_json=as_json)
    _answer(plans.approve(backlog, plan, tasks, seen=proposals), as_json=as_json)


@app.command()
@guarded
def reject(
    backlog: Backlog,
    plan: Name,
    tasks: Tasks = None,
    reason: Reason = "",
    seen: Seen = None,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Refuse a plan, or some of its tasks; the answer says who then waits in vain."""
    plans = Plans(client(actor))
    proposals = _looked_at(plans.show(backlog, plan), seen, "reject", as_json=as_json)
    _answer(plans.reject(backlog, plan, tasks, seen=proposals, reason=reason), as_json=as_json)


def _looked_at(plan: Plan, seen: str | None, choice: str, *, as_json: bool) -> Mapping[str, str]:
    """Return the proposals that were seen: those of the word given, or shown to who decides."""
    if seen is not None:
        if seen != plan.seen:
            sentence = (
                f"the plan {plan.name!r} has other tasks than when you saw it: look again with"
                f" `interlock plan show {plan.backlog} {plan.name}`"
            )
            fail(sentence, as_json=as_json, kind="StaleDecisionError")
    elif as_json or not sys.stdin.isatty():
        sentence = f"say which plan you saw: --seen {plan.seen} is the current one"
        fail(sentence, as_json=as_json, kind="UsageError")
    elif plan.proposals:
        plan_screen.plan(asdict(plan))
        typer.confirm(f"{choice}?", abort=True)
    return plan.proposals


def _answer(done: Decisions, *, as_json: bool) -> None:
    """Print what became of each task. Ends with 1 where one could not be decided on."""
    value: dict[str, Any] = asdict(done)
    answer(value, as_json=as_json, show=plan_screen.decided)
    if any(one.answer in UNDECIDED for one in done.tasks):
        raise typer.Exit(1)
