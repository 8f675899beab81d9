"""The commands `interlock plan ...`, each of which calls the client and prints its answer."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from interlock import guarded
from interlock.system.commands import Reason, Shell
from interlock.systems.tasks.plans import page
from interlock.systems.tasks.plans.client import PlanDecisions, Plans, PlanStatus
from interlock.systems.tasks.plans.file import read_plan

app = typer.Typer()

File = Annotated[Path, typer.Argument(help="A plan file, as docs/plans.md describes it.")]
Repo = Annotated[Path | None, typer.Option(help="The repository, instead of the one in the file.")]
Into = Annotated[
    str | None, typer.Option("--backlog", help="The backlog, instead of the one in the file.")
]
Backlog = Annotated[str, typer.Argument(help="A backlog.")]
Name = Annotated[str, typer.Argument(help="A plan's name.", metavar="PLAN")]
Tasks = Annotated[
    list[str] | None, typer.Argument(help="Only these tasks, by name.", metavar="[TASK]...")
]
Seen = Annotated[str | None, typer.Option(help="The fingerprint that `plan show` printed.")]
UNDECIDED = ("unseen", "refused")


@app.command()
@guarded
def check(shell: Shell, file: File, repo: Repo = None, backlog: Into = None) -> None:
    """Check a plan, its repositories and its dependencies; write nothing."""
    plan, plans = read_plan(file, repo=repo, backlog=backlog), Plans(shell.client())
    new = list(plans.check(plan))
    value = {"plan": plan.name, "backlog": plan.backlog, "tasks": len(plan.tasks), "new": new}
    value |= {"starved": plans.starved(plan)}
    shell.answer(value, show=page.checked)


@app.command()
@guarded(actor="cli")
def submit(
    shell: Shell,
    file: File,
    repo: Repo = None,
    backlog: Into = None,
) -> None:
    """Submit a plan; its tasks wait for your approval. Submitting it again changes nothing."""
    plan = read_plan(file, repo=repo, backlog=backlog)
    plans = Plans(shell.client())
    done = plans.submit(plan)
    rows = [{"id": task.id, "replayed": task.replayed} for task in done.tasks]
    value: dict[str, Any] = {"plan": plan.name, "backlog": plan.backlog, "tasks": rows}
    value |= {"others": done.others}
    value |= {"starved": plans.starved(plan)}
    shell.answer(value, show=page.submitted)


@app.command()
@guarded
def show(shell: Shell, backlog: Backlog, plan: Name) -> None:
    """Show the tasks of a plan with their states, each after those that it waits for."""
    status = Plans(shell.client()).show(backlog, plan)
    shell.answer(asdict(status), show=page.plan)


@app.command(name="list")
@guarded
def list_plans(shell: Shell, backlog: Backlog) -> None:
    """List the plans of a backlog, with the states of their tasks."""
    shell.answer(Plans(shell.client()).of(backlog), show=page.plans)


@app.command()
@guarded(actor="person")
def approve(
    shell: Shell,
    backlog: Backlog,
    plan: Name,
    tasks: Tasks = None,
    seen: Seen = None,
) -> None:
    """Approve a plan, or some of its tasks: agents may work on them now."""
    plans = Plans(shell.client())
    proposals = _seen_proposals(shell, plans.show(backlog, plan), seen, "approve")
    _answer(shell, plans.approve(backlog, plan, tasks, seen=proposals))


@app.command()
@guarded(actor="person")
def reject(
    shell: Shell,
    backlog: Backlog,
    plan: Name,
    tasks: Tasks = None,
    reason: Reason = "",
    seen: Seen = None,
) -> None:
    """Reject a plan, or some of its tasks, and name the tasks that can then never be done."""
    plans = Plans(shell.client())
    proposals = _seen_proposals(shell, plans.show(backlog, plan), seen, "reject")
    _answer(shell, plans.reject(backlog, plan, tasks, seen=proposals, reason=reason))


def _seen_proposals(
    shell: Shell, plan: PlanStatus, seen: str | None, choice: str
) -> Mapping[str, str]:
    """Return the proposals that the person saw: by fingerprint, or shown at the terminal now."""
    if seen is not None:
        if seen != plan.seen:
            sentence = (
                f"the plan {plan.name!r} has other tasks than when you saw it: look again with"
                f" `interlock plan show {plan.backlog} {plan.name}`"
            )
            shell.fail(sentence, kind="StaleDecisionError")
    elif shell.as_json or not sys.stdin.isatty():
        sentence = f"give the fingerprint of the plan that you saw: it is now --seen {plan.seen}"
        shell.fail(sentence)
    elif plan.proposals:
        shell.answer(asdict(plan), show=page.plan)
        shell.confirm(choice)
    return plan.proposals


def _answer(shell: Shell, done: PlanDecisions) -> None:
    """Print the decision on each task. Ends with code 1 if one could not be decided."""
    value: dict[str, Any] = asdict(done)
    shell.answer(value, show=page.decided)
    if any(decision.answer in UNDECIDED for decision in done.tasks):
        raise typer.Exit(1)
