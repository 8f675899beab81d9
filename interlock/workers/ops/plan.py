"""Says what the tables of this process would mean for the records that are in the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from interlock.kernel.comparison import open_states
from interlock.kernel.machine import Machine
from interlock.kernel.table_change import Outlook, TableChange
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.occupied import count_by_state, states_in_use
from interlock.workers.engine.table_check import counted_changes, places_of, why_older
from interlock.workers.terminal.page import Sentence


def plan_of(dispatch: Dispatch) -> list[dict[str, Any]]:
    """Return the changes of each table that is not the applied one, each with its records.

    `older` says that a table is older than the one by which processes work, or ''. A machine that
    has records at work and that this process does not know comes with how many.
    """
    applied = dispatch.tables.applied()
    found = list(_unknown(dispatch))
    for name, machine in dispatch.machines.items():
        table = applied.get(name)
        if table and table.digest == machine.digest:
            continue
        outline = dispatch.tables.outline(name, table.digest) if table else None
        if outline:
            counted = list(counted_changes(dispatch, machine, outline))
        else:
            counted = list(_unnoted(dispatch, machine))
        older = why_older(dispatch, machine, table)
        if counted or older:
            found.append(_part(name, table.by if table else "", counted, older))
    return found


def _unknown(dispatch: Dispatch) -> Iterator[dict[str, Any]]:
    """Yield each machine that this process lacks, with how many of its records have not ended."""
    for name, table in sorted(dispatch.tables.applied().items()):
        outline = dispatch.tables.outline(name, table.digest)
        if name in dispatch.machines or not outline:
            continue
        states = open_states(outline)
        if number := count_by_state(dispatch, name, states).total():
            means = "they stay as they are; name the file of that workflow too, to compare it"
            change = TableChange(Outlook.GOING_ON, f"{name} is not in these files", means, states)
            yield _part(name, table.by, [(change, number)])


def _part(
    name: str, by: str, counted: Iterable[tuple[TableChange, int]], older: str = ""
) -> dict[str, Any]:
    shown = ("verdict", "what", "means", "states")
    changes = [
        {**{each: getattr(change, each) for each in shown}, "records": number}
        for change, number in counted
    ]
    return {"machine": name, "applied_by": by, "older": older, "changes": changes}


def _unnoted(dispatch: Dispatch, machine: Machine) -> Iterator[tuple[TableChange, int]]:
    """Yield what is known where no table was noted: the states that records are in."""
    gone = states_in_use(dispatch, machine) - places_of(machine)
    numbers = count_by_state(dispatch, machine.name, gone)
    for state in sorted(gone):
        means = "no table is noted yet"
        yield TableChange(Outlook.STRANDED, f"{state} is gone", means, (state,)), numbers[state]


def is_refused(plan: list[dict[str, Any]]) -> bool:
    """Whether records would be stranded, or the tables are older than those that are at work."""
    return _strands(plan) or any(part["older"] for part in plan)


def _strands(plan: list[dict[str, Any]]) -> bool:
    changes = (change for part in plan for change in part["changes"])
    return any(one["verdict"] == Outlook.STRANDED and one["records"] for one in changes)


def plan_page(plan: list[dict[str, Any]]) -> Iterator[Sentence]:
    """Yield a plan: of each change, what it means for how many records."""
    if not plan:
        yield Sentence("nothing changes for the records that there are")
    for part in plan:
        yield Sentence(part["machine"])
        if part["older"]:
            yield Sentence(f"  {part['older']}", "bad")
        for change in part["changes"]:
            if change["verdict"] == Outlook.ENDING and not change["records"]:
                continue
            yield Sentence(f"  {change['what']}")
            if change["verdict"] == Outlook.STRANDED and not change["records"]:
                yield Sentence(f"    {_records(change)}")  # so there is nothing to be done
            elif change["means"]:
                yield Sentence(f"    {_records(change)}: {change['means']}")
    if _strands(plan):
        yield Sentence("These tables would not start: records would be stranded.", "bad")


def _records(change: Mapping[str, Any]) -> str:
    number, becomes = change["records"], change["verdict"]
    those = {0: "no record", 1: "1 record"}.get(number, f"{number:,} records")
    if becomes in (Outlook.STRANDED, Outlook.MOVED):
        return f"{those} {'is' if number < 2 else 'are'} {becomes}"  # noqa: PLR2004 - a plural
    return those
