"""The commands `interlock task ...` for external agents: to claim, and to report."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from interlock import guarded
from interlock.system.commands import Actor, AsJson, Reason, answer, answer_record, client, fail
from interlock.system.pages import record_answer
from interlock.system.records import CLAIM_VARIABLES
from interlock.systems.tasks import page
from interlock.systems.tasks.client import TaskClaim, Tasks
from interlock.systems.tasks.last_try import rejections_of, told_of_last_try
from interlock.systems.tasks.machines.task.names import Trigger

app = typer.Typer()

KEY = "The claim's key, as `claim` printed it."
KEY_VARIABLE, TOKEN_VARIABLE = CLAIM_VARIABLES
KEY_OPTION = typer.Option("--key", envvar=KEY_VARIABLE, help=KEY)
TOKEN_OPTION = typer.Option("--token", envvar=TOKEN_VARIABLE, help="The claim's token.")
Key = Annotated[str, KEY_OPTION]
Token = Annotated[str, TOKEN_OPTION]
PARTS = """A JSON array: [{"title": "one part", "scope": "small"}, ...]."""
Parts = Annotated[str, typer.Option(help=PARTS)]


def tasks(actor: str = "person") -> Tasks:
    """Return the operations on tasks, for the store that the settings name."""
    return Tasks(client(actor))


@app.command()
@guarded
def claim(
    backlog: Annotated[str, typer.Argument(help="A backlog, or the id of one task.")],
    owner: Annotated[str, typer.Option(help="The name of the agent that works on it.")],
    role: Annotated[str | None, typer.Option(help="The role whose queue is read.")] = None,
    tenant: Annotated[str, typer.Option(help="The tenant whose tasks are claimed.")] = "default",
    as_json: AsJson = False,
) -> None:
    """Claim the next task of a backlog, or one task, for an external agent.

    An external agent is one that you run yourself.
    """
    opened = tasks(owner)
    found: TaskClaim | None
    if "/" in backlog:
        found = opened.claim(backlog, owner=owner, role=role, tenant=tenant)
    else:
        found = opened.claim_next(backlog, role=role or "any", owner=owner, tenant=tenant)
    if found is None:
        asked = {"role": role or "any", "owner": owner, "tenant": tenant}
        left = None if as_json else opened.unclaimed(backlog, **asked)
        answer(left, as_json=as_json, show=lambda rows: page.unclaimed(backlog, rows))
        raise typer.Exit(1)
    told = (
        rejections_of(found.record.data),
        told_of_last_try(found.record, opened.client.settings),
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
    answer(value, as_json=as_json, show=lambda claimed: page.claimed(claimed, lease_s))


def _report(key: str, token: str, trigger: str, *, as_json: bool, **payload: Any) -> None:
    record = tasks().report(key, token, trigger, payload)
    answer_record(record, as_json=as_json)


@app.command()
@guarded
def heartbeat(key: Key, token: Token, as_json: AsJson = False) -> None:
    """Renew a claim. The answer is an order: go, interrupt, pause, stop or lost."""
    order = tasks().heartbeat(key, token)
    answer({"id": key, "answer": order}, as_json=as_json, show=record_answer)


@app.command()
@guarded
def start(key: Key, token: Token, as_json: AsJson = False) -> None:
    """Report that the work on a claimed task has started."""
    _report(key, token, Trigger.STARTED, as_json=as_json)


@app.command()
@guarded
def done(
    key: Key,
    token: Token,
    summary: Annotated[str, typer.Option(help="A summary of the work.")],
    as_json: AsJson = False,
) -> None:
    """Report that a claimed task is done; it is verified next."""
    _report(key, token, Trigger.COMPLETED, as_json=as_json, summary=summary)


@app.command(name="fail")
@guarded
def failed(key: Key, token: Token, reason: Reason = "", as_json: AsJson = False) -> None:
    """Report that a claimed task failed; it is tried again while it has retries left."""
    _report(key, token, Trigger.FAILED, as_json=as_json, reason=reason)


@app.command()
@guarded
def block(
    key: Key,
    token: Token,
    on: Annotated[
        str, typer.Option(help="What it waits for, in words; with --task the name of a task.")
    ],
    task: Annotated[
        bool, typer.Option("--task", help="It waits for another task of its backlog.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Report that a claimed task waits for another task or for a person."""
    _report(key, token, Trigger.BLOCKED, as_json=as_json, on=on, kind="task" if task else "text")


@app.command(name="cancel-child")
@guarded
def cancel_child(
    key: Key,
    token: Token,
    child: Annotated[str, typer.Option(help="The id of the subtask.")],
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Cancel a subtask of a claimed task."""
    _report(key, token, Trigger.CHILD_CANCELLED, as_json=as_json, child=child, reason=reason)


@app.command()
@guarded
def release(key: Key, token: Token, reason: Reason = "", as_json: AsJson = False) -> None:
    """Give a claimed task back before its work has started, or confirm the order to stop."""
    _report(key, token, Trigger.RELEASED, as_json=as_json, reason=reason)


@app.command()
@guarded
def split(
    subtasks: Parts,
    context: typer.Context,
    task: Annotated[
        str | None,
        typer.Argument(help="An open task, or the one that you have claimed.", metavar="TASK"),
    ] = None,
    key: Annotated[str | None, KEY_OPTION] = None,
    token: Annotated[str | None, TOKEN_OPTION] = None,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Split an open task into subtasks, or with its key and token a task that you have claimed.

    A TASK that is not the claimed one is split as an open task, although the environment has the
    key and the token of a claim.
    """
    try:
        parts = json.loads(subtasks)
    except ValueError as refusal:
        fail(f"--subtasks is not JSON: {refusal}", as_json=as_json, kind="UsageError")
    sources = [context.get_parameter_source(name) for name in ("key", "token")]
    if key and token and task in (None, key.partition(":")[0]):
        _report(key, token, Trigger.SPLIT, as_json=as_json, subtasks=parts)
    elif not task:
        needed = "give an open task, or both the key and the token of your claim"
        fail(needed, as_json=as_json, kind="UsageError")
    elif any(source and source.name == "COMMANDLINE" for source in sources):
        needed = f"give both the key and the token of a claim of {task}, or neither of them"
        fail(needed, as_json=as_json, kind="UsageError")
    else:
        answer_record(tasks(actor).split(task, parts), as_json=as_json)


@app.command()
@guarded
def turn(
    report: Annotated[
        str, typer.Argument(help="tool_started, tool_completed, compact_needed or compacted.")
    ],
    key: Key,
    token: Token,
    tool: Annotated[str | None, typer.Option(help="The tool of a call.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="The call of the tool failed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Report a tool call or a compaction of the agent of a claimed task."""
    fields: dict[str, Any] = {} if tool is None else {"tool": tool}
    if report == "tool_completed":
        fields["success"] = not failed
    answer_record(tasks().report_turn(key, token, report, fields), as_json=as_json)
