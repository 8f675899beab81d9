"""The command `interlock apply`: moves the records of older tables to those of this code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer

from interlock.kernel.errors import CallError, UnknownMachineError
from interlock.kernel.store.format import FORMAT
from interlock.kernel.store.format_steps import OLDEST
from interlock.workers.client import Client
from interlock.workers.config import with_systems
from interlock.workers.ops.apply import apply, plan
from interlock.workers.ops.formats import migrate_formats, plan_formats, said
from interlock.workers.ops.stopped_store import store_opened
from interlock.workers.ops.taking_back import plan_back, take_back
from interlock.workers.terminal.command import Shell, guarded
from interlock.workers.terminal.page import Sentence

Files = Annotated[
    list[str] | None,
    typer.Argument(help="Your own workflows: files such as refund.py, or modules.", metavar="FILE"),
]

FORWARD = "{count} in {name}/{word} would be moved"
BACK = "{count} in {name}/{word} would be taken back"
DONE = "{count} of {name}: {word}"


@guarded(actor="person")
def apply_tables(
    shell: Shell,
    files: Files = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show which records would be moved.")
    ] = False,
    back: Annotated[
        bool,
        typer.Option(
            "--back",
            help="Take the records of this code back to the tables that were applied before.",
        ),
    ] = False,
    store_format: Annotated[
        int | None,
        typer.Option(
            "--format",
            help="With --back: take the store back to this format, which an older version reads.",
            metavar="NUMBER",
            min=OLDEST,
            max=FORMAT - 1,
        ),
    ] = None,
    machines: Annotated[
        list[str] | None,
        typer.Option("--machine", help="Only records of this machine. Repeatable.", metavar="NAME"),
    ] = None,
) -> None:
    """Apply the tables of this code, and move the records that older ones have left, at once.

    Workers do the same when they start, bit by bit. It may be killed and repeated. Where no
    `interlock up` runs, it starts the store of the last one here for as long as it takes. Exits
    with 1 if a record could not be moved.
    """
    if store_format and not back:
        raise CallError("--format is for the way back: say --back beside it")
    with store_opened() as opened:
        settings = with_systems(opened, files or [])
        if store_format or not back:
            target = store_format or FORMAT
            if dry_run and (formats := plan_formats(settings, target)):
                shell.answer(asdict(formats), show=lambda _: [Sentence(said(formats))])
                return
            if not dry_run:
                migrate_formats(settings, shell.actor, target)
        if store_format:
            return  # this version does not read it
        dispatch = Client(settings, actor=shell.actor).dispatch
        dispatch.greet()
        names = machines or ()
        if unknown := sorted({*names} - {*dispatch.machines}):
            raise UnknownMachineError(unknown[0], sorted(dispatch.machines))
        if dry_run:
            found = plan_back(dispatch, names) if back else plan(dispatch, names)
            line = BACK if back else FORWARD
            shell.answer(_plain(found), show=partial(_show, line=line))
            return
        run = take_back if back else apply
        done = run(dispatch, actor=shell.actor, names=names)
        shell.answer(_plain(done), show=partial(_show, line=DONE))
        if any(status.startswith("not moved") for counted in done.values() for status in counted):
            raise typer.Exit(1)


def _plain(found: Mapping[str, Counter[str]]) -> dict[str, Any]:
    return {"machines": {name: dict(counted) for name, counted in found.items()}}


def _show(value: Mapping[str, Any], *, line: str) -> list[Sentence]:
    lines = [
        Sentence(line.format(count=count, name=name, word=word))
        for name, found in value["machines"].items()
        for word, count in found.items()
    ]
    return lines or [Sentence("there is no record to move", "soft")]
