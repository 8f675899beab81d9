"""The command line of agents: `interlock agent ...`. It only calls the client."""

from __future__ import annotations

from typing import Annotated

import typer

from interlock.workers.tasks.agent_screen import agents as show_agents
from interlock.workers.tasks.agent_screen import identities as show_identities
from interlock.workers.tasks.agents import Agents, Scope
from interlock.workers.terminal import screen
from interlock.workers.terminal.answer import Actor, AsJson, Reason, answer, client, guarded

app = typer.Typer()

Backlog = Annotated[str, typer.Argument(help="A backlog.")]
Agent = Annotated[str, typer.Argument(help="An agent's id, as `agent workers` shows it.")]
Identity = Annotated[str, typer.Argument(help="An identity's id, as `agent trust` shows it.")]


def agents(actor: str = "person") -> Agents:
    """Open the agents on the store that the settings name."""
    return Agents(client(actor))


@app.command()
@guarded
def workers(backlog: Backlog, as_json: AsJson = False) -> None:
    """List the agents at work on a backlog's tasks, each with its task and process."""
    answer(agents().of(backlog), as_json=as_json, show=show_agents)


@app.command()
@guarded
def trust(backlog: Backlog, as_json: AsJson = False) -> None:
    """List identities, how far each is trusted, by what it did, and what that allows."""
    answer(agents().identities(backlog), as_json=as_json, show=show_identities)


@app.command()
@guarded
def known(
    backlog: Backlog,
    name: Annotated[str, typer.Option(help="The agent's name.")],
    role: Annotated[str, typer.Option(help="The role that it works in.")] = "any",
    command: Annotated[str, typer.Option(help="Its command; none for an agent of others.")] = "",
    as_json: AsJson = False,
) -> None:
    """Say the id of an identity, also before its first task, so that one can vouch for it."""
    of = agents().known(backlog, name=name, role=role, command=command)
    answer({"id": of, "answer": "known"}, as_json=as_json, show=screen.record_answer)


@app.command()
@guarded
def promote(
    identity: Identity, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """Vouch for an identity: it is trusted one level more."""
    record = agents(actor).promote(identity, reason=reason)
    answer({"id": record.id, "state": record.state}, as_json=as_json, show=screen.record_state)


@app.command()
@guarded
def retire(
    identity: Identity, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """Take an identity out of service: it claims nothing more."""
    record = agents(actor).retire(identity, reason=reason)
    answer({"id": record.id, "state": record.state}, as_json=as_json, show=screen.record_state)


@app.command()
@guarded
def abort(
    agent: Agent,
    scope: Annotated[Scope, typer.Option(help="tool, sibling or session.")] = "session",
    reason: Reason = "",
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Abort an agent's session with all below it, its siblings, or its tool call."""
    record = agents(actor).abort(agent, scope=scope, reason=reason)
    answer({"id": record.id, "state": record.state}, as_json=as_json, show=screen.record_state)
