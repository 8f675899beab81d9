"""The commands `interlock webhook dead ...`, each one call of the client."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from interlock import guarded
from interlock.system.commands import Actor, AsJson, Reason, answer, client, fail
from interlock.systems.webhooks import page
from interlock.systems.webhooks.client import Webhooks

app = typer.Typer()

Name = Annotated[str, typer.Argument(help="Only those of this endpoint.", metavar="ENDPOINT")]


@app.command()
@guarded
def dead(endpoint: Name = "", as_json: AsJson = False) -> None:
    """List the deliveries that failed for good, and why; the newest first."""
    answer(Webhooks(client()).dead(endpoint), as_json=as_json, show=page.dead)


@app.command()
@guarded
def replay(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Deliveries, as `dead` lists them.", metavar="DELIVERY"),
    ] = None,
    endpoint: Annotated[
        str,
        typer.Option(
            "--all", help="All of this endpoint that failed for good.", metavar="ENDPOINT"
        ),
    ] = "",
    reason: Reason = "",
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Send deliveries again, each under its old id. Ends with code 1 if none could be sent."""
    if bool(names) is bool(endpoint):
        fail("give deliveries, or --all ENDPOINT, not both", as_json=as_json, kind="UsageError")
    webhooks = Webhooks(client(actor))
    if endpoint:
        results = webhooks.replay_all(endpoint, reason=reason)
    else:
        results = webhooks.replay(names or (), reason=reason)
    answer([asdict(each) for each in results], as_json=as_json, show=page.replayed)
    if not any(each.replayed for each in results):
        raise typer.Exit(1)
