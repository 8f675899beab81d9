"""The command that shows what changed tables mean for the records that there are."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from interlock.workers.client import Client
from interlock.workers.config import with_systems
from interlock.workers.ops.formats import plan_formats, said
from interlock.workers.ops.plan import is_refused, plan_of, plan_page
from interlock.workers.ops.stopped_store import store_opened
from interlock.workers.terminal.command import Shell, guarded
from interlock.workers.terminal.page import Sentence

Systems = Annotated[
    list[str] | None,
    typer.Argument(
        help="Workflows as they would be: files such as refund.py, or modules.", metavar="FILE"
    ),
]


@guarded
def plan(shell: Shell, systems: Systems = None) -> None:
    """Show what tables that are not applied yet mean for the records that there are.

    Where no `interlock up` runs, it starts the store of the last one here for as long as it reads.
    It changes nothing. Exits with 1 if records would have no place in them, if they are older than
    those by which processes work, or if the store has an older format, in which no process of this
    version starts before `interlock apply`.
    """
    with store_opened() as opened:
        settings = with_systems(opened, systems or [])
        if formats := plan_formats(settings):
            shell.answer(asdict(formats), show=lambda _: [Sentence(said(formats))])
            raise typer.Exit(1)
        found = plan_of(Client(settings, actor="person").dispatch)
        shell.answer(found, show=plan_page)
        if is_refused(found):
            raise typer.Exit(1)
