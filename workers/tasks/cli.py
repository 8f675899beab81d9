"""The command line of coding tasks: `interlock task ...`. It only calls the client."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from interlock.workers.tasks import screen as task_screen
from interlock.workers.tasks.client import Claim, Tasks
from interlock.workers.tasks.failed import DeadLetters
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

app = typer.Typer(help="Coding tasks: worked on by agents in git worktrees.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(help="A task's id: <backlog>/<name>.", metavar="TASK")]
KEY = "The claim's key, as `claim` answered it."
Key = Annotated[str, typer.Option("--key", envvar="INTERLOCK_KEY", help=KEY)]
Proposal = Annotated[str | None, typer.Option(help="The proposal you saw; refused if stale.")]
Token = Annotated[str, typer.Option("--token", envvar="INTERLOCK_TOKEN", help="The claim's token.")]


def tasks(actor: str = "person") -> Tasks:
    """Open the tasks on the store that the settings name."""
    return Tasks(client(actor))


@app.command()
@guarded
def submit(
    title: Annotated[str, typer.Option(help="What is to be done, in one line.")],
    repo: Annotated[Path | None, typer.Option(help="The git repository.")] = None,
    agent: Annotated[
        str | None,
        typer.Option(help="The command that works on it, in a shell; without it, others claim."),
    ] = None,
    text: Annotated[str, typer.Option(help="What there is to say about it.")] = "",
    verify: Annotated[
        list[str] | None, typer.Option(help="A command that must pass; several are allowed.")
    ] = None,
    target: Annotated[str, typer.Option(help="The branch to merge into.")] = "main",
    push: Annotated[
        str | None, typer.Option(help="A git remote to push the merged branch to.")
    ] = None,
    backlog: Annotated[str | None, typer.Option(help="Otherwise the repository's name.")] = None,
    name: Annotated[str | None, typer.Option(help="A name of your own in the backlog.")] = None,
    role: Annotated[str, typer.Option(help="Who is to do it.")] = "any",
    scope: Annotated[str, typer.Option(help="How large: small, medium, large, xl.")] = "medium",
    tenant: Annotated[str, typer.Option(help="Whose it is.")] = "default",
    owns: Annotated[list[str] | None, typer.Option(help="A file that it may change.")] = None,
    after: Annotated[list[str] | None, typer.Option(help="A task that must be done first.")] = None,
    deadline_s: Annotated[int | None, typer.Option(help="Seconds that it may take.")] = None,
    max_retries: Annotated[int, typer.Option(min=0, max=100)] = 3,
    needs_approval: Annotated[bool, typer.Option(help="A person agrees before merging.")] = False,
    stream: Annotated[str, typer.Option(help="How its output is read: plain, claude.")] = "plain",
    agent_name: Annotated[str, typer.Option(help="Whose trust it is, with role and command.")] = (
        "agent"
    ),
    session: Annotated[bool, typer.Option(help="The agent stays for the next task.")] = False,
    stop_hook: Annotated[
        list[str] | None, typer.Option(help="A command that may refuse a completion.")
    ] = None,
    budget: Annotated[float | None, typer.Option(help="Dollars that one try may cost.")] = None,
    priority: Annotated[int, typer.Option(min=0, max=9, help="0 is first, 9 is last.")] = 5,
    as_json: AsJson = False,
    actor: Actor = "cli",
) -> None:
    """Hand in a task. With an agent's command it is done in a worktree, verified and merged."""
    place = repo.resolve() if repo else None
    payload: dict[str, Any] = {
        "title": title,
        "text": text,
        "repo": str(place) if place else None,
        "target": target,
        "push": push,
        "agent": agent,
        "role": role,
        "scope": scope,
        "tenant": tenant,
        "signals": [{"type": "test_passes", "value": one} for one in verify or ()],
        "owned_files": owns,
        "depends_on": after,
        "deadline_s": deadline_s,
        "max_retries": max_retries,
        "needs_approval": needs_approval,
        "stream": stream,
        "agent_name": agent_name,
        "session": session,
        "stop_hooks": stop_hook,
        "budget_micro": round(budget * 1e6) if budget is not None else None,
    }
    given = {field: value for field, value in payload.items() if value is not None}
    chosen = backlog or (place.name if place else "tasks")
    done = tasks(actor).submit(given, backlog=chosen, name=name, priority=priority)
    rows = [{"id": done.id, "replayed": done.replayed, "error": None}]
    answer(rows, as_json=as_json, show=screen.submissions)


@app.command()
@guarded
def claim(
    backlog: Annotated[str, typer.Argument(help="A backlog, or one task's id.")],
    owner: Annotated[str, typer.Option(help="Who works on it.")],
    role: Annotated[str | None, typer.Option(help="Which role's line.")] = None,
    tenant: Annotated[str, typer.Option(help="Whose tasks.")] = "default",
    as_json: AsJson = False,
) -> None:
    """Claim the next task of a backlog, or one by its id, for an agent that you run yourself."""
    here = tasks(owner)
    found: Claim | None
    if "/" in backlog:
        found = here.claim(backlog, owner=owner, role=role, tenant=tenant)
    else:
        found = here.claim_next(backlog, role=role or "any", owner=owner, tenant=tenant)
    value = None
    if found is not None:
        value = {"id": found.task, "key": found.key, "token": found.token, **found.record.data}
    answer(value, as_json=as_json, show=screen.fields)
    if value is None:
        raise typer.Exit(1)


def _report(key: str, token: str, trigger: str, *, as_json: bool, **payload: Any) -> None:
    record = tasks("agent").report(key, token, trigger, payload)
    answer({"id": record.id, "state": record.state}, as_json=as_json, show=screen.record_state)


@app.command()
@guarded
def heartbeat(key: Key, token: Token, as_json: AsJson = False) -> None:
    """Renew a claim; the answer is an order: go, interrupt, pause, stop or lost."""
    order = tasks("agent").heartbeat(key, token)
    answer({"id": key, "answer": order}, as_json=as_json, show=screen.record_answer)


@app.command()
@guarded
def start(key: Key, token: Token, as_json: AsJson = False) -> None:
    """Say that work on a claimed task has begun."""
    _report(key, token, "started", as_json=as_json)


@app.command()
@guarded
def done(
    key: Key,
    token: Token,
    summary: Annotated[str, typer.Option(help="What was done.")],
    as_json: AsJson = False,
) -> None:
    """Say that a claimed task is done; it is verified next."""
    _report(key, token, "completed", as_json=as_json, summary=summary)


@app.command(name="fail")
@guarded
def failed(key: Key, token: Token, reason: Reason = "", as_json: AsJson = False) -> None:
    """Say that a claimed task failed; it is tried again while it has retries left."""
    _report(key, token, "failed", as_json=as_json, reason=reason)


@app.command()
@guarded
def block(
    key: Key,
    token: Token,
    on: Annotated[
        str, typer.Option(help="A task's name in the backlog, or what a person settles.")
    ],
    task: Annotated[bool, typer.Option("--task", help="It is a task's name.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what a claimed task waits for."""
    _report(key, token, "blocked", as_json=as_json, on=on, kind="task" if task else "text")


@app.command(name="cancel-child")
@guarded
def cancel_child(
    key: Key,
    token: Token,
    child: Annotated[str, typer.Option(help="The part's whole id.")],
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """End a part of a claimed task that its owner no longer wants."""
    _report(key, token, "child_cancelled", as_json=as_json, child=child, reason=reason)


@app.command(name="fail-stage")
@guarded
def fail_stage(
    backlog: Annotated[str, typer.Argument(help="A backlog.")],
    plan: Annotated[str | None, typer.Option(help="Only of this plan.")] = None,
    role: Annotated[str | None, typer.Option(help="Only of this role.")] = None,
    reason: Reason = "",
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Fail all that nobody works on yet; INTERLOCK_STAGE_FAILURES must have allowed it."""
    failed = tasks(actor).fail_stage(backlog, plan=plan, role=role, reason=reason)
    value = {"id": backlog, "answer": f"{len(failed)} failed", "failed": failed}
    answer(value, as_json=as_json, show=screen.record_answer)
    if not failed:
        raise typer.Exit(1)


def _fired(trigger: str, record_id: str, reason: str, actor: str, *, as_json: bool) -> None:
    record = client(actor).fire(record_id, trigger, {"reason": reason}, reason=reason)
    answer({"id": record.id, "state": record.state}, as_json=as_json, show=screen.record_state)


@app.command()
@guarded
def unblock(
    task: Id, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """Open a blocked task again: what it waited for is settled."""
    _fired("unblocked", task, reason, actor, as_json=as_json)


@app.command()
@guarded
def requeue(
    task: Id, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """Take a task from its agent and open it for another."""
    trigger = "released" if client().show(task).state == "claimed" else "requeued"
    _fired(trigger, task, reason, actor, as_json=as_json)


@app.command()
@guarded
def cancel(task: Id, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person") -> None:
    """End a task; an agent at work on it is stopped with all it started."""
    record = client(actor).cancel(task, reason=reason)
    answer({"id": record.id, "state": record.state}, as_json=as_json, show=screen.record_state)


@app.command()
@guarded
def retry(task: Id, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person") -> None:
    """Open a failed task again, also where it has no retries left."""
    _fired("retried", task, reason, actor, as_json=as_json)


@app.command()
@guarded
def split(
    task: Id,
    subtasks: Annotated[str, typer.Option(help='A JSON array: [{"title": "one part"}, ...].')],
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Split an open task into parts, each a task of its own below it."""
    try:
        parts = json.loads(subtasks)
    except ValueError as refusal:
        fail(f"--subtasks is not JSON: {refusal}", as_json=as_json, kind="UsageError")
    record = client(actor).fire(task, "split", {"subtasks": parts})
    answer({"id": record.id, "state": record.state}, as_json=as_json, show=screen.record_state)


def _decided(task: str, choice: str, proposal: str | None, actor: str, *, as_json: bool) -> None:
    here = client(actor)
    seen = proposal or confirm_proposal(here, task, choice, as_json=as_json)
    record = here.decide(task, choice, proposal=seen)
    answer({"id": record.id, "state": record.state}, as_json=as_json, show=screen.record_state)


@app.command()
@guarded
def approve(
    task: Id, proposal: Proposal = None, as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """Agree to a planned task, or to verified work that waits for you."""
    _decided(task, "approve", proposal, actor, as_json=as_json)


@app.command()
@guarded
def reject(
    task: Id, proposal: Proposal = None, as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """Refuse a planned task, or verified work that waits for you."""
    _decided(task, "reject", proposal, actor, as_json=as_json)


@app.command(name="list")
@guarded
def list_tasks(
    backlog: Annotated[str, typer.Argument(help="A backlog.")], as_json: AsJson = False
) -> None:
    """List the tasks of a backlog with their states, and why one can never be claimed."""
    here = tasks()
    found = here.of(backlog)
    answer(found, as_json=as_json, show=task_screen.tasks)


@app.command(name="dead-letters")
@guarded
def dead_letters(
    backlog: Annotated[str | None, typer.Argument(help="Only of this backlog.")] = None,
    as_json: AsJson = False,
) -> None:
    """List failed tasks that nobody tries again: why, what each try said, how to replay them."""
    found = [letter.as_data() for letter in DeadLetters(client()).letters(backlog)]
    answer(found, as_json=as_json, show=task_screen.dead_letters)


@app.command()
@guarded
def replay(
    names: Annotated[list[str] | None, typer.Argument(help="Tasks.", metavar="TASK")] = None,
    backlog: Annotated[
        str | None, typer.Option("--all", help="All of a backlog instead.", metavar="BACKLOG")
    ] = None,
    reason: Reason = "",
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Let dead letters try again, each once. Ends with 1 where none of them does."""
    if bool(names) is bool(backlog):
        fail("give tasks, or --all BACKLOG, not both", as_json=as_json, kind="UsageError")
    here = DeadLetters(client(actor))
    if backlog:
        done = here.replay_all(backlog, reason=reason)
    else:
        done = here.replay(names or (), reason=reason)
    answer([asdict(one) for one in done], as_json=as_json, show=task_screen.replayed)
    if not any(one.replayed for one in done):
        raise typer.Exit(1)
