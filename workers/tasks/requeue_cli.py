"""The command `interlock task requeue`. It only calls the client."""

from __future__ import annotations

from typing import Annotated

import typer

from interlock.workers.tasks.client import Tasks
from interlock.workers.terminal.answer import Actor, AsJson, Reason, answer_record, client


def requeue(
    task: Annotated[str, typer.Argument(help="A task's id: <backlog>/<name>.", metavar="TASK")],
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
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Take a task from its agent and open it again: for any agent, or for the one you choose.

    Of an open task it changes who may have it. Without --to and --not-same any agent may.
    """
    opened = Tasks(client(actor))
    record = opened.requeue(task, to=to, agent=agent, not_same=not_same, reason=reason)
    answer_record(record, as_json=as_json)
