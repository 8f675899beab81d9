"""The commands `interlock task ...`. They only call the client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from interlock import Client, HttpClient, guarded
from interlock.system.commands import Reason, Shell, Tagged
from interlock.system.pages import Link, Part, Sentence, Table
from interlock.system.tables import MICRO
from interlock.systems.tasks import page
from interlock.systems.tasks.client import Tasks
from interlock.systems.tasks.failed import FailedTasks
from interlock.systems.tasks.machines.task.names import Trigger

app = typer.Typer()

Id = Annotated[str, typer.Argument(help="A task's id: <backlog>/<name>.", metavar="TASK")]
Agent = Annotated[
    str | None,
    typer.Option(
        help="The shell command that works on it. Without it and --repo, "
        "an external agent (one that you run yourself) claims the task."
    ),
]
Owns = Annotated[
    list[str] | None, typer.Option(help="A file or folder that it may change. Repeatable.")
]
After = Annotated[
    list[str] | None, typer.Option(help="A task that must be merged first. Repeatable.")
]
AfterDone = Annotated[
    list[str] | None,
    typer.Option(help="A task that must be done first; it need not be merged. Repeatable."),
]
StopHooks = Annotated[
    list[str] | None, typer.Option(help="A command that may refuse a completion. Repeatable.")
]
Target = Annotated[
    str | None, typer.Option(help="The branch to merge into; by default the current one.")
]
SubtasksS = Annotated[
    int | None, typer.Option(help="Seconds that its subtasks may take, if it is split.")
]
NeedsApproval = Annotated[bool, typer.Option(help="A person approves it before the merge.")]
Push = Annotated[str | None, typer.Option(help="A git remote to push the merged branch to.")]
MaxRetries = Annotated[
    int, typer.Option(min=0, max=100, help="How often it is tried again after a failure.")
]
MaxLost = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=100,
        help="How many lost agents may be followed by another; 0 repeats nothing. "
        "By default as many as --max-retries, at most 2.",
    ),
]
Proposal = Annotated[
    str | None, typer.Option(help="The proposal that you saw. A stale one is refused.")
]
# The headings in the help of `submit`, each with its options.
PANELS = {
    "What to do": "title text scope",
    "Who does it": "agent agent_name role session stream",
    "Where": "repo target push owns backlog name tenant",
    "In which order": "after after_done priority",
    "Checks": "verify stop_hook needs_approval",
    "Limits": "deadline_s subtasks_s max_retries max_lost budget",
}
IntoBacklog = Annotated[
    str | None, typer.Option(help="The backlog; by default named as the repository.")
]
NameInBacklog = Annotated[
    str | None, typer.Option(help="Its name in the backlog; by default made of the title.")
]
Scope = Annotated[
    str, typer.Option(help="How large, which sets its time: small, medium, large, xl.")
]
DeadlineS = Annotated[
    int | None,
    typer.Option(help="Seconds that one try may take; by default as the scope says."),
]


def tasks(shell: Shell) -> Tasks:
    """Return the operations on tasks, for the store that the settings name."""
    return Tasks(shell.client())


@app.command()
@guarded(actor="cli", panels=PANELS)
def submit(
    shell: Shell,
    title: Annotated[str, typer.Option(help="The work to do, in one line.")],
    repo: Annotated[Path | None, typer.Option(help="The git repository. It needs --agent.")] = None,
    agent: Agent = None,
    text: Annotated[str, typer.Option(help="More about the work.")] = "",
    verify: Annotated[
        list[str] | None, typer.Option(help="A command that must pass. Repeatable.")
    ] = None,
    target: Target = None,
    push: Push = None,
    backlog: IntoBacklog = None,
    name: NameInBacklog = None,
    role: Annotated[str, typer.Option(help="The role of the agents that may have it.")] = "any",
    scope: Scope = "medium",
    tenant: Annotated[str, typer.Option(help="The tenant that it belongs to.")] = "default",
    owns: Owns = None,
    after: After = None,
    after_done: AfterDone = None,
    deadline_s: DeadlineS = None,
    subtasks_s: SubtasksS = None,
    max_retries: MaxRetries = 3,
    max_lost: MaxLost = None,
    needs_approval: NeedsApproval = False,
    stream: Annotated[str, typer.Option(help="How its output is read: plain, claude.")] = "plain",
    agent_name: Annotated[
        str, typer.Option(help="The agent's name. Name, role and command have one trust.")
    ] = "agent",
    session: Annotated[bool, typer.Option(help="The agent goes on to the next task.")] = False,
    stop_hook: StopHooks = None,
    budget: Annotated[float | None, typer.Option(help="Dollars that one try may cost.")] = None,
    priority: Annotated[int, typer.Option(min=0, max=9, help="0 is first, 9 is last.")] = 5,
    tag: Tagged = None,
) -> None:
    """Submit a task. An agent's command does it in a worktree; then it is verified and merged."""
    folder = repo.resolve() if repo else None
    payload: dict[str, Any] = {
        "title": title,
        "text": text,
        "repo": str(folder) if folder else None,
        "target": target,
        "push": push,
        "agent": agent,
        "role": role,
        "scope": scope,
        "tenant": tenant,
        "signals": [{"type": "test_passes", "value": command} for command in verify or ()],
        "owned_files": owns,
        "depends_on": after,
        "depends_on_done": after_done,
        "deadline_s": deadline_s,
        "subtasks_s": subtasks_s,
        "max_retries": max_retries,
        "max_lost": max_lost,
        "needs_approval": needs_approval,
        "stream": stream,
        "agent_name": agent_name,
        "session": session,
        "stop_hooks": stop_hook,
        "tags": tag,
        "budget_micro": round(budget * MICRO) if budget is not None else None,
    }
    fields = {field: value for field, value in payload.items() if value is not None}
    chosen = backlog or (folder.name if folder else "tasks")
    opened = tasks(shell)
    opened.refuse_missing(chosen, [*(after or ()), *(after_done or ())])
    done = opened.submit(fields, backlog=chosen, name=name, priority=priority)
    rows = [{"id": done.id, "replayed": done.replayed, "error": None}]
    shell.answer(rows)


@app.command(name="fail-stage")
@guarded(actor="person")
def fail_stage(
    shell: Shell,
    backlog: Annotated[str, typer.Argument(help="A backlog.")],
    plan: Annotated[str | None, typer.Option(help="Only tasks of this plan.")] = None,
    role: Annotated[str | None, typer.Option(help="Only tasks of this role.")] = None,
    reason: Reason = "",
) -> None:
    """Fail the tasks that no agent works on yet, if INTERLOCK_STAGE_FAILURES allowed it."""
    failed = tasks(shell).fail_stage(backlog, plan=plan, role=role, reason=reason)
    value = {"id": backlog, "answer": f"{len(failed)} failed", "failed": failed}
    shell.answer(value)
    if not failed:
        raise typer.Exit(1)


def _fire(shell: Shell, trigger: str, record_id: str, reason: str) -> None:
    opened = shell.client()
    opened.show(record_id, machine="task")
    record = opened.fire(record_id, trigger, {"reason": reason}, reason=reason)
    shell.answer_record(record)


@app.command()
@guarded(actor="person")
def unblock(shell: Shell, task: Id, reason: Reason = "") -> None:
    """Open a blocked task again."""
    _fire(shell, Trigger.UNBLOCKED, task, reason)


@app.command()
@guarded(actor="person")
def cancel(shell: Shell, task: Id, reason: Reason = "") -> None:
    """Cancel a task; its agent is ended with all processes that it started."""
    opened = shell.client()
    record = opened.cancel(opened.show(task, machine="task").id, reason=reason)
    shell.answer_record(record)


@app.command()
@guarded(actor="person")
def requeue(
    shell: Shell,
    task: Id,
    to: Annotated[
        str | None, typer.Option(help="The name of the agent that shall have it.", metavar="NAME")
    ] = None,
    agent: Annotated[
        str | None, typer.Option(help="The command that works on it from now on.")
    ] = None,
    not_same: Annotated[
        bool, typer.Option("--not-same", help="Another agent than the last one gets it.")
    ] = False,
    reason: Reason = "",
) -> None:
    """Take a task from its agent and open it again: for any agent, or for the one you choose.

    Of an open task it changes who may have it. Without --to and --not-same any agent may.
    """
    opened = tasks(shell)
    record = opened.requeue(task, to=to, agent=agent, not_same=not_same, reason=reason)
    shell.answer_record(record)


@app.command()
@guarded(actor="person")
def retry(shell: Shell, task: Id, reason: Reason = "") -> None:
    """Open a failed task again, even if it has no retries left."""
    _fire(shell, Trigger.RETRIED, task, reason)


def _decide(shell: Shell, task: str, choice: str, proposal: str | None, reason: str) -> None:
    opened = shell.client()
    opened.show(task, machine="task")
    given = {"reason": reason} if reason else {}
    seen, fields = shell.asked_answer(opened, task, choice, given, proposal)
    record = opened.decide(task, choice, fields, proposal=seen)
    shell.answer_record(record, outlook=opened.outlook(record))


@app.command()
@guarded(actor="person")
def approve(
    shell: Shell,
    task: Id,
    proposal: Proposal = None,
    reason: Reason = "",
) -> None:
    """Approve a planned task, or verified work that waits for approval."""
    _decide(shell, task, "approve", proposal, reason)


@app.command()
@guarded(actor="person")
def reject(
    shell: Shell,
    task: Id,
    proposal: Proposal = None,
    reason: Reason = "",
) -> None:
    """Reject a planned task, which ends it, or verified work, which is tried again."""
    _decide(shell, task, "reject", proposal, reason)


@app.command(name="list")
@guarded
def list_tasks(
    shell: Shell,
    backlog: Annotated[
        str | None, typer.Argument(help="A backlog. Without it, the backlogs are listed.")
    ] = None,
) -> None:
    """List the tasks of a backlog with their states, and why a task failed or waits."""
    if backlog is None:
        shell.answer(tasks(shell).backlogs(), show=lambda rows: [page.backlogs(rows)])
        return
    opened = tasks(shell)
    now_ms = opened.records.now_ms()
    rows = opened.of(backlog)
    shell.answer(rows, show=lambda rows: _listed(rows, now_ms), now_ms=now_ms)


def _listed(rows: Sequence[Mapping[str, Any]], now_ms: int) -> list[Part]:
    hint = Sentence("`interlock show TASK` prints what a task asks, and the answers", "soft")
    return [page.table_of(rows, now_ms), *([hint] if any(row["asks"] for row in rows) else [])]


def _caller_on(shell: Shell, task: str) -> Client | HttpClient:
    opened = shell.caller()
    opened.show(task, machine="task")
    return opened


@app.command()
@guarded(has_json=False)
def logs(
    shell: Shell,
    task: Id,
    number: Annotated[
        int | None, typer.Option(help="The number of the claim. By default the last one.")
    ] = None,
) -> None:
    """Print the output of the agent of a task, or its end if it is elsewhere; errors on stderr."""
    found = _caller_on(shell, task).logs(task, number=number)
    shell.print(found.output)
    shell.print(f"{found.errors}{found.note}", err=True)


@app.command()
@guarded(has_json=False)
def tail(shell: Shell, task: Id) -> None:
    """Print what the agents of a task print from now on, until it has ended or asks a person."""
    for text in _caller_on(shell, task).tail(task):
        shell.print(text)


@app.command()
@guarded
def diff(shell: Shell, task: Id) -> None:
    """Print what the work on a task changes, from the computer that has its repository."""
    found = _caller_on(shell, task).diff(task)
    if shell.as_json:
        shell.answer(asdict(found))
        return
    for file in found.files:
        missing = f"{file.kind} {file.path} ({file.missing})\n" if file.missing else ""
        shell.print(f"{file.text}{missing}")
    if found.unnamed:
        shell.print(f"{found.unnamed} more files are changed\n")


def _replayed(rows: Sequence[Mapping[str, Any]]) -> Iterable[Part]:
    answers = {True: Sentence("replayed", "good"), False: Sentence("refused", "bad")}
    found = [(Link(row["id"]), answers[row["replayed"]], row["reason"]) for row in rows]
    return [Table(("Task", "Answer", "Why"), found, "there is nothing to replay")]


@app.command(name="list-failed")
@guarded
def list_failed(
    shell: Shell,
    backlog: Annotated[str | None, typer.Argument(help="Only tasks of this backlog.")] = None,
) -> None:
    """List failed tasks that are not tried again: why, how each try failed, how to replay them."""
    if backlog:
        tasks(shell).ids_of(backlog)
    rows = [task.as_data() for task in FailedTasks(shell.client()).find(backlog)]
    shell.answer(rows, show=page.failed_tasks)


@app.command()
@guarded(actor="person")
def replay(
    shell: Shell,
    names: Annotated[
        list[str] | None, typer.Argument(help="Ids of failed tasks.", metavar="TASK")
    ] = None,
    backlog: Annotated[
        str | None, typer.Option("--all", help="All failed tasks of a backlog.", metavar="BACKLOG")
    ] = None,
    reason: Reason = "",
) -> None:
    """Open failed tasks again, each once. Ends with code 1 if none could be opened."""
    if bool(names) is bool(backlog):
        shell.fail("give tasks, or --all BACKLOG, not both")
    failed_tasks = FailedTasks(shell.client())
    if backlog:
        tasks(shell).ids_of(backlog)
        results = failed_tasks.replay_all(backlog, reason=reason)
    else:
        results = failed_tasks.replay(names or (), reason=reason)
    shell.answer([asdict(result) for result in results], show=_replayed)
    if not any(result.replayed for result in results):
        raise typer.Exit(1)
