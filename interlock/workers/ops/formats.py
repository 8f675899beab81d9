"""Migrates a store that another version has written, or back, and says what that would do."""

from __future__ import annotations

import typer

from interlock.kernel.machines import MACHINES
from interlock.kernel.store.format import FORMAT
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.migration import FormatPlan, Migration
from interlock.kernel.store.tables import Tables
from interlock.workers.config import Settings
from interlock.workers.engine.store_client import open_store_of_any_format
from interlock.workers.ops.apply import MovesLock, records_text


def plan_formats(settings: Settings, target: int = FORMAT) -> FormatPlan | None:
    """Return what a migration of the store to a format would do; None if it has it already.

    Raises StoreFormatError for a format that this version cannot migrate, CannotMigrateError
    where a record cannot be kept in the other format.
    """
    return _migration(settings, target).plan()


def said(plan: FormatPlan) -> str:
    """Return the sentences about a migration that is to come."""
    others = sorted({abs(number) for number in plan.formats if number != plan.target})
    names = ", ".join(map(str, others))
    if any(number < 0 for number in plan.formats):
        has = f"a migration of the store from format {names}, or back to it, has not ended"
    else:
        has = f"the store has format {names}"
    command = "interlock apply"
    if plan.target == FORMAT:
        back = f" `interlock apply --back --format {others[0]}` leads back."
    else:
        command += f" --back --format {plan.target}"
        back = " What this version alone knows, such as its tables, an older one does not read."
    return (
        f"{has}, and this version has {FORMAT}: `{command}` would rewrite"
        f" {records_text(plan.records)} in format {plan.target}. Stop all processes and take a"
        f" copy of the store first.{back}"
    )


def migrate_formats(settings: Settings, actor: str, target: int = FORMAT) -> None:
    """Migrate the store to a format, and say so. Nothing changes where it has it already.

    Raises as plan_formats, ApplyRefusedError while another process moves records, and
    StoreAtWorkError while any is at work on the store; nothing is changed then.
    """
    migration = _migration(settings, target)
    if migration.plan() is None:
        if target != FORMAT:
            typer.echo(f"the store has format {target} already", err=True)
        return
    lock = MovesLock(Tables(migration.client, migration.keys), actor)
    try:
        written = migration.apply(lock.renew)
    finally:
        lock.free()
    those = f"{records_text(written)} {'was' if written == 1 else 'were'} rewritten"
    typer.echo(f"the store has format {target} now: {those}", err=True)


def _migration(settings: Settings, target: int) -> Migration:
    client = open_store_of_any_format(settings.store)
    return Migration(client, Keys(settings.prefix), MACHINES, target)
