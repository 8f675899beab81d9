"""The commands `interlock webhook dead ...`, each one call of the client."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from interlock import guarded
from interlock.system.commands import Reason, Shell
from interlock.systems.webhooks import page
from interlock.systems.webhooks.client import Webhooks

app = typer.Typer()

Name = Annotated[str, typer.Argument(help="Only those of this endpoint.", metavar="ENDPOINT")]


@app.command()
@guarded
def dead(shell: Shell, endpoint: Name = "") -> None:
    """List the deliveries that failed for good, and why; the newest first."""
    shell.answer(Webhooks(shell.client()).dead(endpoint), show=page.dead)


@app.command()
@guarded(actor="person")
def replay(
    shell: Shell,
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
) -> None:
    """Send deliveries again, each under its old id. Ends with code 1 if none could be sent."""
    if bool(names) is bool(endpoint):
        shell.fail("give deliveries, or --all ENDPOINT, not both")
    webhooks = Webhooks(shell.client())
    if endpoint:
        results = webhooks.replay_all(endpoint, reason=reason)
    else:
        results = webhooks.replay(names or (), reason=reason)
    shell.answer([asdict(each) for each in results], show=page.replayed)
    if not any(each.replayed for each in results):
        raise typer.Exit(1)
