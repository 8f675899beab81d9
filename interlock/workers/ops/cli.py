"""The commands for operators, on records of every system. They only call the client.

What one command alone needs is imported by that command: each starts a process of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from interlock.kernel.errors import UnknownMachineError
from interlock.kernel.event import line_data
from interlock.kernel.machines import MACHINES
from interlock.workers.client import Client
from interlock.workers.config import API_PORT, read_settings, with_systems
from interlock.workers.engine.own_systems import add_systems_of
from interlock.workers.engine.record_filter import Wanted
from interlock.workers.ops import history_page, page
from interlock.workers.terminal.command import Id, Reason, Shell, guarded
from interlock.workers.terminal.page import Part, Verbatim
from interlock.workers.up_file import settings_here

PORT_DEFAULT = "Default: the one of the last start here, or a free one."
StorePort = Annotated[
    int | None, typer.Option("--port", min=1, max=65_535, help=f"The store's port. {PORT_DEFAULT}")
]
FlowerPort = Annotated[
    int | None, typer.Option(min=1, max=65_535, help=f"Flower's port. {PORT_DEFAULT}")
]
ApiPort = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=65_535,
        help=f"The HTTP API's port. Default: the last one here, {API_PORT}, or a free one.",
    ),
]


@guarded
def up(
    shell: Shell,
    systems: Annotated[
        list[str] | None,
        typer.Argument(
            help="Your own workflows: files such as refund.py, or modules.", metavar="FILE"
        ),
    ] = None,
    port: StorePort = None,
    flower_port: FlowerPort = None,
    api_port: ApiPort = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="Start the processes anew when a FILE changes.")
    ] = False,
) -> None:
    """Start store, workers, console, HTTP API and Flower, and keep them running until Ctrl-C."""
    from interlock.workers.ops.up import keep_up

    def announce(addresses: Mapping[str, str]) -> None:
        named, own = "home" in settings.model_fields_set, bool(settings.systems)
        home = settings.home.absolute()
        shell.answer(addresses, show=lambda v: page.up(v, home, named=named, has_own=own))
        sys.stdout.flush()

    settings = with_systems(read_settings(is_final=False), systems or [])
    keep_up(
        settings,
        announce=announce,
        port=port,
        flower_port=flower_port,
        api_port=api_port,
        reloads=reload,
    )


@guarded
def show(shell: Shell, record_id: Id) -> None:
    """Show a record: its state, its card, its running effects, and the results of its actions."""
    from interlock.workers.ops.description import describe
    from interlock.workers.ops.story import asked, panels

    interlock = shell.caller()
    if not isinstance(interlock, Client):
        shell.answer(interlock.describe(record_id), show=page.record)
        return
    value, record = describe(interlock, record_id), interlock.show(record_id)

    def shown(value: Mapping[str, Any]) -> Iterable[Part]:
        yield from page.record({**value, page.RUNS: []})  # the log and panels have them
        yield from asked(record)
        yield from sorted(panels(interlock, record), key=lambda one: one.is_reference)

    shell.answer(value, show=shown, now_ms=interlock.now_ms())


@guarded
def history(
    shell: Shell,
    record_id: Id,
    everything: Annotated[
        bool, typer.Option("--all", help="Show the notes of workers' claims and of cards too.")
    ] = False,
) -> None:
    """Show a record's log: every transition with what was said and why, and the notes between."""
    interlock = shell.caller()
    value = [line_data(line) for line in interlock.history(record_id)]
    machine = interlock.show(record_id).machine
    lines = lambda value: history_page.history(value, machine, everything=everything)  # noqa: E731
    shell.answer(value, show=lines)


@guarded
def events(
    shell: Shell,
    scopes: Annotated[
        list[str] | None,
        typer.Argument(
            help="Backlogs, or records with all below them. Default: all.", metavar="ID"
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Only from this time on: Unix seconds or ISO 8601.", metavar="TIME"),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep running, and write new events too.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of stdout.")] = None,
) -> None:
    """Export each transition as one line of JSON. docs/events.md describes the fields."""
    from interlock.workers.ops.event_export import EventExport, Export, export_to, instant_ms

    since_ms = instant_ms(since) if since is not None else 0
    interlock = shell.caller()
    export: Export
    if isinstance(interlock, Client):
        export = EventExport(interlock.dispatch, scopes or (), since_ms=since_ms)
    else:
        from interlock.workers.ops.event_export import RemoteExport

        export = RemoteExport(interlock, scopes or (), since_ms=since_ms)
    export_to(out, export, follow=follow)
    if out:
        value = {"file": str(out), "events": export.count}
        shell.answer(value)


@guarded
def list_records(
    shell: Shell,
    machine: Annotated[
        str | None, typer.Option(help="Only records of this machine. Default: of all.")
    ] = None,
    state: Annotated[str | None, typer.Option(help="Only records in this state.")] = None,
    text: Annotated[
        str,
        typer.Option(help="Only records whose titles have these words, and come by id then."),
    ] = "",
    parent: Annotated[
        str, typer.Option(help="Only the children of this record.", metavar="ID")
    ] = "",
    id_prefix: Annotated[
        str, typer.Option("--id", help="Only records whose ids begin so.", metavar="BEGINNING")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The most to show.")] = 100,
) -> None:
    """List records, the longest in their state first, with how many of them are in each state."""
    interlock = shell.caller()
    wanted: Wanted = {
        "machine": machine,
        "state": state,
        "text": text,
        "parent": parent,
        "id_prefix": id_prefix,
    }
    rows, counts = interlock.list(limit=limit + 1, **wanted), interlock.counts(**wanted)
    if parent and not rows:
        interlock.show(
            parent
        )  # refuse an unknown parent, which would look like one without children
    some = {name: found for name, found in counts.machines.items() if found or machine}
    by_name = parent or id_prefix or text
    order = "by name" if by_name else "the longest in their state first"
    number = sum(sum(states.values()) for states in counts.machines.values())
    total = f"{'more than ' if counts.more else ''}{number:,}"
    records = [asdict(row) for row in shell.first(rows, limit, order, total=lambda: total)]
    value = {"counts": some, "more": counts.more, "records": records}
    now_ms = interlock.now_ms()
    shell.answer(value, show=page.records, now_ms=now_ms)


@guarded(actor="person")
def cancel(shell: Shell, record_id: Id, reason: Reason = "") -> None:
    """End a record. If an action is running, ask it to stop first."""
    record = shell.caller().cancel(record_id, reason=reason)
    shell.answer_record(record)


@guarded(actor="person")
def pause(shell: Shell, record_id: Id, reason: Reason = "") -> None:
    """Start no new effect on a record. Running effects finish; timers keep their remaining time."""
    shell.answer_flag(record_id, shell.caller().pause(record_id, reason=reason))


@guarded(actor="person")
def resume(shell: Shell, record_id: Id, reason: Reason = "") -> None:
    """Resume a paused record."""
    shell.answer_flag(record_id, shell.caller().resume(record_id, reason=reason))


@guarded
def machines(
    shell: Shell,
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Only these machines. Default: all.", metavar="MACHINE"),
    ] = None,
    diagram: Annotated[
        bool, typer.Option("--diagram", help="Print each as a Mermaid diagram instead.")
    ] = False,
) -> None:
    """Print the tables of machines: their states with effects, their rows with actors."""
    from interlock.kernel.diagram import mermaid
    from interlock.kernel.outline import outline_of

    settings = settings_here()
    add_systems_of(settings)
    for unknown in set(names or ()) - set(MACHINES):
        raise UnknownMachineError(unknown, sorted(MACHINES))
    chosen = [machine for name, machine in MACHINES.items() if name in (names or MACHINES)]
    if diagram:
        drawn = {machine.name: mermaid(machine) for machine in chosen}
        shell.answer(drawn, show=lambda _: [Verbatim("\n\n".join(drawn.values()))])
        return
    value = [outline_of(machine) for machine in chosen]
    shell.answer(value, show=page.machines)


@guarded
def verify(
    shell: Shell,
    record_ids: Annotated[
        list[str] | None,
        typer.Argument(help="Only these records. Default: all.", metavar="ID"),
    ] = None,
) -> None:
    """Recompute records from their logs and compare. Exits with 1 if a record differs."""
    from interlock.workers.ops.verify import verify_all

    report = verify_all(shell.client().dispatch, record_ids or None)
    shell.answer(report, show=page.verification)
    if report["faults"]:
        raise typer.Exit(1)


@guarded
def doctor(shell: Shell) -> None:
    """Check the store, its workers and its sweeps. Exits with 1 at a problem.

    Lists what waits, what was rejected, and the capabilities that are left out.
    """
    from concurrent.futures import ThreadPoolExecutor

    from interlock.workers.ops.attendance import attendance, served_by

    dispatch = shell.client().dispatch
    with ThreadPoolExecutor(max_workers=1) as pool:
        # Workers have a second to answer; the rest is imported and the store is read meanwhile.
        asked = pool.submit(served_by, dispatch)
        from interlock.workers.ops.doctor import (
            diagnose,
            left_out,
            problems_of_cards,
            unloaded_proposals,
        )
        from interlock.workers.ops.table_problems import problems_of_tables

        value = diagnose(dispatch) | {"left_out": left_out(dispatch.settings)}
        value["left_out"] |= unloaded_proposals(dispatch)
        found = [*problems_of_cards(dispatch), *problems_of_tables(dispatch)]
        value |= attendance(dispatch, value["depths"], lambda _: asked.result())
    value["problems"] += found
    shell.answer(value, show=page.diagnosis)
    if value["problems"]:
        raise typer.Exit(1)


@guarded(has_json=False)
def metrics(shell: Shell) -> None:
    """Print the metrics of the deployment, as text of Prometheus. docs/metrics.md lists them."""
    from interlock.workers.ops.metrics import Exposition

    sys.stdout.buffer.write(Exposition(shell.client().dispatch).text())


@guarded
def capabilities(shell: Shell) -> None:
    """List the capabilities, and why others could not be loaded. This command needs no store.

    It lists those of INTERLOCK_CAPABILITIES or, if that is not set, those of a running `up`.
    """
    from interlock.workers.gateways.capabilities.registry import open_registry

    settings = settings_here()
    registry = open_registry(settings)
    listed = [
        {
            "name": found.name,
            "description": found.description,
            "parameters": found.parameters,
            **found.declared(),
        }
        for found in registry.catalog()
    ]
    value = {
        "named": settings.capabilities,
        "capabilities": listed,
        "left_out": registry.left_out(),
    }
    shell.answer(value, show=page.capabilities)
