"""The commands `interlock agent ...` for agents of coding tasks. They only call the client."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from interlock import guarded
from interlock.system.commands import Reason, Shell
from interlock.systems.tasks import page
from interlock.systems.tasks.agents import Agents, Scope
from interlock.systems.tasks.client import Tasks

app = typer.Typer()

Backlog = Annotated[str, typer.Argument(help="A backlog.")]
Agent = Annotated[str, typer.Argument(help="An agent's id, as `agent workers` shows it.")]
Identity = Annotated[str, typer.Argument(help="An identity's id, as `agent trust` shows it.")]


def agents(shell: Shell) -> Agents:
    """Return the operations on agents, for the store that the settings name."""
    return Agents(shell.client())


@app.command()
@guarded
def workers(shell: Shell, backlog: Backlog) -> None:
    """List the agents that are at work on the tasks of a backlog, with their processes."""
    found = agents(shell).of(backlog) or _none_of(shell, backlog)
    shell.answer(found, show=lambda rows: [page.agents(rows)])


@app.command()
@guarded
def trust(shell: Shell, backlog: Backlog) -> None:
    """List identities, their trust, what their tasks came to, and what they may do."""
    found = agents(shell).identities(backlog) or _none_of(shell, backlog)
    shell.answer(found, show=lambda rows: [page.identities(rows)])


def _none_of(shell: Shell, backlog: str) -> list[dict[str, Any]]:
    """Return no rows, of a backlog. Raises CallError if there is no such backlog."""
    Tasks(shell.client()).ids_of(backlog)
    return []


@app.command()
@guarded
def known(
    shell: Shell,
    backlog: Backlog,
    name: Annotated[str, typer.Option(help="The agent's name.")],
    role: Annotated[str, typer.Option(help="The role in which it works.")] = "any",
    command: Annotated[
        str,
        typer.Option(help="Its command, if Interlock starts it."),
    ] = "",
) -> None:
    """Print the id of an identity, so that you can promote it before its first task.

    An identity is the name, the role and the command of an agent, which share one trust.
    """
    identity = agents(shell).register(backlog, name=name, role=role, command=command)
    shell.answer({"id": identity, "answer": "known"})


@app.command()
@guarded(actor="person")
def promote(shell: Shell, identity: Identity, reason: Reason = "") -> None:
    """Raise the trust of an identity by one level."""
    record = agents(shell).promote(identity, reason=reason)
    shell.answer_record(record)


@app.command()
@guarded(actor="person")
def retire(shell: Shell, identity: Identity, reason: Reason = "") -> None:
    """Take an identity out of service: it claims no more tasks."""
    record = agents(shell).retire(identity, reason=reason)
    shell.answer_record(record)


@app.command()
@guarded(actor="person")
def abort(
    shell: Shell,
    agent: Agent,
    scope: Annotated[
        Scope,
        typer.Option(
            help="session: with all agents below it; sibling: the other agents of its parent."
        ),
    ] = "session",
    reason: Reason = "",
) -> None:
    """Abort an agent's session with all agents below it, or its siblings."""
    record = agents(shell).abort(agent, scope=scope, reason=reason)
    shell.answer_record(record)
