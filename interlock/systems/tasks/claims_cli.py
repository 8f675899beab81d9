"""The commands `interlock task ...` for external agents: to claim, and to report."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from interlock import guarded
from interlock.system.commands import Reason, Shell
from interlock.systems.tasks import page
from interlock.systems.tasks.client import TaskClaim, Tasks
from interlock.systems.tasks.last_try import rejections_of, told_of_last_try
from interlock.systems.tasks.machines.task.names import Trigger

app = typer.Typer()

KEY = "The claim's key, as `claim` printed it."
KEY_VARIABLE, TOKEN_VARIABLE = "INTERLOCK_KEY", "INTERLOCK_TOKEN"
KEY_OPTION = typer.Option("--key", envvar=KEY_VARIABLE, help=KEY)
TOKEN_OPTION = typer.Option("--token", envvar=TOKEN_VARIABLE, help="The claim's token.")
Key = Annotated[str, KEY_OPTION]
Token = Annotated[str, TOKEN_OPTION]
PARTS = """A JSON array: [{"title": "one part", "scope": "small"}, ...]."""
Parts = Annotated[str, typer.Option(help=PARTS)]


def tasks(shell: Shell) -> Tasks:
    """Return the operations on tasks, for the store that the settings name."""
    return Tasks(shell.client())


@app.command()
@guarded
def claim(
    shell: Shell,
    backlog: Annotated[str, typer.Argument(help="A backlog, or the id of one task.")],
    owner: Annotated[str, typer.Option(help="The name of the agent that works on it.")],
    role: Annotated[str | None, typer.Option(help="The role whose queue is read.")] = None,
    tenant: Annotated[str, typer.Option(help="The tenant whose tasks are claimed.")] = "default",
) -> None:
    """Claim the next task of a backlog, or one task, for an external agent.

    An external agent is one that you run yourself.
    """
    opened = Tasks(shell.client(owner))
    found: TaskClaim | None
    if "/" in backlog:
        found = opened.claim(backlog, owner=owner, role=role, tenant=tenant)
    else:
        found = opened.claim_next(backlog, role=role or "any", owner=owner, tenant=tenant)
    if found is None:
        asked = {"role": role or "any", "owner": owner, "tenant": tenant}
        left = None if shell.as_json else opened.unclaimed(backlog, **asked)
        shell.answer(left, show=lambda rows: page.unclaimed(backlog, rows, shell.program))
        raise typer.Exit(1)
    told = (
        rejections_of(found.record.data),
        told_of_last_try(found.record, opened.client.records),
    )
    before = {"before": "\n".join(part for part in told if part)}
    value = {
        "id": found.task,
        "key": found.key,
        "token": found.token,
        **found.record.data,
        **before,
    }
    lease_s = opened.records.effect("task", "agent").lease_ms // 1_000
    shell.answer(value, show=lambda claimed: page.claimed(claimed, lease_s, shell.program))


def _report(shell: Shell, key: str, token: str, trigger: str, **payload: Any) -> None:
    record = tasks(shell).report(key, token, trigger, payload)
    shell.answer_record(record)


@app.command()
@guarded
def heartbeat(shell: Shell, key: Key, token: Token) -> None:
    """Renew a claim. The answer is an order: go, interrupt, pause, stop or lost."""
    order = tasks(shell).heartbeat(key, token)
    shell.answer({"id": key, "answer": order})


@app.command()
@guarded
def start(shell: Shell, key: Key, token: Token) -> None:
    """Report that the work on a claimed task has started."""
    _report(shell, key, token, Trigger.STARTED)


@app.command()
@guarded
def done(
    shell: Shell,
    key: Key,
    token: Token,
    summary: Annotated[str, typer.Option(help="A summary of the work.")],
) -> None:
    """Report that a claimed task is done; it is verified next."""
    _report(shell, key, token, Trigger.COMPLETED, summary=summary)


@app.command(name="fail")
@guarded
def failed(shell: Shell, key: Key, token: Token, reason: Reason = "") -> None:
    """Report that a claimed task failed; it is tried again while it has retries left."""
    _report(shell, key, token, Trigger.FAILED, reason=reason)


@app.command()
@guarded
def block(
    shell: Shell,
    key: Key,
    token: Token,
    on: Annotated[
        str, typer.Option(help="What it waits for, in words; with --task the name of a task.")
    ],
    task: Annotated[
        bool, typer.Option("--task", help="It waits for another task of its backlog.")
    ] = False,
) -> None:
    """Report that a claimed task waits for another task or for a person."""
    _report(shell, key, token, Trigger.BLOCKED, on=on, kind="task" if task else "text")


@app.command(name="cancel-child")
@guarded
def cancel_child(
    shell: Shell,
    key: Key,
    token: Token,
    child: Annotated[str, typer.Option(help="The id of the subtask.")],
    reason: Reason = "",
) -> None:
    """Cancel a subtask of a claimed task."""
    _report(shell, key, token, Trigger.CHILD_CANCELLED, child=child, reason=reason)


@app.command()
@guarded
def release(shell: Shell, key: Key, token: Token, reason: Reason = "") -> None:
    """Give a claimed task back before its work has started, or confirm the order to stop."""
    _report(shell, key, token, Trigger.RELEASED, reason=reason)


@app.command()
@guarded(actor="person")
def split(
    shell: Shell,
    subtasks: Parts,
    context: typer.Context,
    task: Annotated[
        str | None,
        typer.Argument(help="An open task, or the one that you have claimed.", metavar="TASK"),
    ] = None,
    key: Annotated[str | None, KEY_OPTION] = None,
    token: Annotated[str | None, TOKEN_OPTION] = None,
) -> None:
    """Split an open task into subtasks, or with its key and token a task that you have claimed.

    A TASK that is not the claimed one is split as an open task, although the environment has the
    key and the token of a claim.
    """
    try:
        parts = json.loads(subtasks)
    except ValueError as refusal:
        shell.fail(f"--subtasks is not JSON: {refusal}")
    sources = [context.get_parameter_source(name) for name in ("key", "token")]
    if key and token and task in (None, key.partition(":")[0]):
        _report(shell, key, token, Trigger.SPLIT, subtasks=parts)
    elif not task:
        needed = "give an open task, or both the key and the token of your claim"
        shell.fail(needed)
    elif any(source and source.name == "COMMANDLINE" for source in sources):
        needed = f"give both the key and the token of a claim of {task}, or neither of them"
        shell.fail(needed)
    else:
        shell.answer_record(tasks(shell).split(task, parts))


@app.command()
@guarded
def turn(
    shell: Shell,
    report: Annotated[
        str, typer.Argument(help="tool_started, tool_completed, compact_needed or compacted.")
    ],
    key: Key,
    token: Token,
    tool: Annotated[str | None, typer.Option(help="The tool of a call.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="The call of the tool failed.")] = False,
) -> None:
    """Report a tool call or a compaction of the agent of a claimed task."""
    fields: dict[str, Any] = {} if tool is None else {"tool": tool}
    if report == "tool_completed":
        fields["success"] = not failed
    shell.answer_record(tasks(shell).report_turn(key, token, report, fields))
