"""The commands `interlock agent ...` for agents of coding tasks. They only call the client."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from interlock import guarded
from interlock.system.commands import Actor, AsJson, Reason, answer, answer_record, client
from interlock.system.pages import record_answer
from interlock.systems.tasks import page
from interlock.systems.tasks.agents import Agents, Scope
from interlock.systems.tasks.client import Tasks

app = typer.Typer()

Backlog = Annotated[str, typer.Argument(help="A backlog.")]
Agent = Annotated[str, typer.Argument(help="An agent's id, as `agent workers` shows it.")]
Identity = Annotated[str, typer.Argument(help="An identity's id, as `agent trust` shows it.")]


def agents(actor: str = "person") -> Agents:
    """Return the operations on agents, for the store that the settings name."""
    return Agents(client(actor))


@app.command()
@guarded
def workers(backlog: Backlog, as_json: AsJson = False) -> None:
    """List the agents that are at work on the tasks of a backlog, with their processes."""
    found = agents().of(backlog) or _none_of(backlog)
    answer(found, as_json=as_json, show=lambda rows: [page.agents(rows)])


@app.command()
@guarded
def trust(backlog: Backlog, as_json: AsJson = False) -> None:
    """List identities, their trust, what their tasks came to, and what they may do."""
    found = agents().identities(backlog) or _none_of(backlog)
    answer(found, as_json=as_json, show=lambda rows: [page.identities(rows)])


def _none_of(backlog: str) -> list[dict[str, Any]]:
    """Return no rows, of a backlog. Raises CallError if there is no such backlog."""
    Tasks(client()).ids_of(backlog)
    return []


@app.command()
@guarded
def known(
    backlog: Backlog,
    name: Annotated[str, typer.Option(help="The agent's name.")],
    role: Annotated[str, typer.Option(help="The role in which it works.")] = "any",
    command: Annotated[
        str,
        typer.Option(help="Its command, if Interlock starts it."),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Print the id of an identity, so that you can promote it before its first task.

    An identity is the name, the role and the command of an agent, which share one trust.
    """
    identity = agents().register(backlog, name=name, role=role, command=command)
    answer({"id": identity, "answer": "known"}, as_json=as_json, show=record_answer)


@app.command()
@guarded
def promote(
    identity: Identity, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """Raise the trust of an identity by one level."""
    record = agents(actor).promote(identity, reason=reason)
    answer_record(record, as_json=as_json)


@app.command()
@guarded
def retire(
    identity: Identity, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """Take an identity out of service: it claims no more tasks."""
    record = agents(actor).retire(identity, reason=reason)
    answer_record(record, as_json=as_json)


@app.command()
@guarded
def abort(
    agent: Agent,
    scope: Annotated[
        Scope,
        typer.Option(
            help="session: with all agents below it; sibling: the other agents of its parent."
        ),
    ] = "session",
    reason: Reason = "",
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Abort an agent's session with all agents below it, or its siblings."""
    record = agents(actor).abort(agent, scope=scope, reason=reason)
    answer_record(record, as_json=as_json)
