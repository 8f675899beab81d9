"""Finds processes with other tables, and records that no table here knows or can move."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from interlock.kernel.machine import Machine
from interlock.kernel.store.tables import Applied, Process
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.occupied import stranded_records
from interlock.workers.engine.table_check import REPAIR, faults_of_migrate

HERE = "this command"
READ_MAX = 1_000  # records with older data; a sweep leaves only those that it cannot move


def problems_of_tables(dispatch: Dispatch) -> Iterator[str]:
    """Yield a sentence about each process with other tables, and each state that none here has."""
    applied, processes = dispatch.tables.applied(), dispatch.tables.processes()
    known = {name for process in processes for name in process.tables}
    for process in processes:
        yield from differences(process.name, process.tables, applied)
        yield from _lacks(process, known, dispatch.machines)
    own = {name: dispatch.machines[name].digest for name in dispatch.machines if name in applied}
    yield from differences(HERE, own, applied)
    for found in stranded_records(dispatch):
        yield f"{found}; `interlock plan` says what to do"
    for machine in dispatch.machines.values():
        yield from _unmovable(dispatch, machine)


def _unmovable(dispatch: Dispatch, machine: Machine) -> Iterator[str]:
    """Yield a sentence about each fault of `migrate`. READ_MAX records are tried at most."""
    for fault, those in faults_of_migrate(dispatch, machine, READ_MAX).items():
        more = f" and {len(those) - 1} more" if len(those) > 1 else ""
        yield f"the data of {those[0]}{more} cannot be made newer: {fault}; {REPAIR}"


def differences(
    process: str, tables: Mapping[str, str], applied: Mapping[str, Applied]
) -> Iterator[str]:
    """Yield a sentence if a process has other tables than those that are applied."""
    others = [
        f"{name} ({digest}, and {applied[name].digest} is applied by {applied[name].by})"
        for name, digest in sorted(tables.items())
        if name in applied and applied[name].digest != digest
    ]
    if others:
        yield (
            f"{process} has another table of {', '.join(others)}: start it anew with the code of"
            " the others, or the workers with its code; `interlock plan` shows the difference"
        )


def _lacks(process: Process, known: Collection[str], here: Collection[str]) -> Iterator[str]:
    """Yield a sentence if a process lacks a machine that others have.

    Of workers the machines that this command knows are left out: their tasks are looked at.
    """
    asked = set(known) - set(here) if process.kind == "worker" else set(known)
    if lacks := sorted(asked - process.tables.keys()):
        yield (
            f"{process.name} does not know {', '.join(lacks)}, which other processes know: start it"
            " with the same INTERLOCK_SYSTEMS, where the code is installed"
        )
