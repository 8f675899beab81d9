"""The table of payments in which a state has another name."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from interlock.kernel.machine import Machine
from interlock.kernel.table import Stage
from tests.workers.engine.payments import State, payment


class Renamed(StrEnum):
    APPROVAL = "review"
    PAYING = "sending"
    UNCLEAR = "unknown"


def renamed(state: State, name: Renamed, *, once: bool = False) -> Machine:
    """Return the table in which a state has another name by now."""
    table = payment(once=once)

    def other(found: StrEnum) -> StrEnum:
        return name if found == state else found

    def stage(found: Stage) -> Stage:
        return replace(found, state=other(found.state))

    rows = [
        replace(row, source=other(row.source), target=other(row.target))
        for row in table.transitions
    ]
    return replace(table, stages=tuple(map(stage, table.stages)), transitions=tuple(rows))
