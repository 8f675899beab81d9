"""A machine's table as plain data, for `interlock machines`. Pure."""

from __future__ import annotations

from typing import Any

from interlock.kernel.diagram import kind_of
from interlock.kernel.machine import Machine
from interlock.kernel.table import Active, Stage, Waiting


def outline(machine: Machine) -> dict[str, Any]:
    """Return a machine as plain data: its states with their effects, its rows with their actors."""
    return {
        "name": machine.name,
        "initial": str(machine.initial.state),
        "states": [state_of(stage) for stage in machine.stages],
        "rows": [
            {
                "source": str(row.source),
                "trigger": str(row.trigger),
                "target": str(row.target),
                "ours": bool(row.ours),
                "why_ours": row.ours,
                "guarded": row.guard is not None,
                "effect": row.effect.name if row.effect else None,
                "by": list(row.by),
            }
            for row in machine.transitions
        ],
    }


def state_of(stage: Stage) -> dict[str, Any]:
    """Return one state as plain data."""
    found: dict[str, Any] = {
        "name": str(stage.state),
        "kind": kind_of(stage),
        "entry_effect": None,
        "timers": [
            {
                "name": timer.name,
                "trigger": str(timer.trigger) if timer.trigger else None,
                "effect": timer.effect.name if timer.effect else None,
            }
            for timer in stage.timers
        ],
    }
    if isinstance(stage, Active):
        found["entry_effect"] = stage.effect.name if stage.effect else None
        found["carried"] = stage.effect is None
        found["crash"] = str(stage.crash) if stage.crash else None
        found["exhausted"] = str(stage.exhausted) if stage.exhausted else None
    if isinstance(stage, Waiting):
        found["entry_effect"] = stage.notifies.name if stage.notifies else None
        found["card"] = stage.card or None
        found["affordances"] = dict(stage.affordances)
    return found
