"""Draws a machine from its table, as a Mermaid diagram and as Markdown tables."""

from __future__ import annotations

from interlock.kernel.machine import Machine
from interlock.kernel.outline import kind_of
from interlock.kernel.table import Active, Mode, Stage, Terminal, Transition, Waiting


def mermaid(machine: Machine) -> str:
    """Return the state diagram. Triggers between the same two states share an arrow."""
    lines = ["stateDiagram-v2", f"    [*] --> {machine.stages[0].state}"]
    arrows: dict[tuple[str, str], list[str]] = {}
    for row in machine.transitions:
        arrows.setdefault((str(row.source), str(row.target)), []).append(str(row.trigger))
    for (source, target), triggers in arrows.items():
        lines.append(f"    {source} --> {target}: {' / '.join(dict.fromkeys(triggers))}")
    lines += [f"    {s.state} --> [*]" for s in machine.stages if isinstance(s, Terminal)]
    return "\n".join(lines)


def states_table(machine: Machine) -> str:
    """Return the states as a Markdown table: kind, effects, timers, and what a person may do."""
    lines = ["| state | kind | owes | timers | a person may |", "|---|---|---|---|---|"]
    for stage in machine.stages:
        timers = ", ".join(_timer(stage, timer.name) for timer in stage.timers)
        answers = ""
        if isinstance(stage, Waiting):
            answers = ", ".join(f"{name} ({trigger})" for name, trigger in stage.affordances)
        lines.append(
            f"| {stage.state} | {kind_of(stage)} | {_owes(stage)} | {timers} | {answers} |"
        )
    return "\n".join(lines)


def rows_table(machine: Machine) -> str:
    """Return the rows as a Markdown table, with the reason of each row that no page publishes."""
    lines = ["| source | trigger | target | fired by | |", "|---|---|---|---|---|"]
    lines += [_row(row) for row in machine.transitions]
    return "\n".join(lines)


def _row(row: Transition) -> str:
    notes = [f"ours: {row.ours}"] if row.ours else []
    why = f": {row.guarded}" if row.guarded else ""
    notes += [f"asks a guard{why}"] if row.guard else []
    notes += ["may follow from the data alone"] if row.follows else []
    notes += [f"owes {row.effect.name}"] if row.effect else []
    notes += [str(row.mode)] if row.mode is not Mode.LEAVE else []
    cells = (row.source, row.trigger, row.target, ", ".join(row.by), "; ".join(notes))
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def _owes(stage: Stage) -> str:
    if isinstance(stage, Active):
        return stage.effect.name if stage.effect else "(carried in)"
    if isinstance(stage, Waiting) and stage.notifies:
        return f"{stage.notifies.name}: {stage.card} card"
    if isinstance(stage, Waiting) and stage.offers:
        return stage.offers.name
    if isinstance(stage, Terminal):
        return ", ".join(effect.name for effect in stage.owes() if effect)
    return ""


def _timer(stage: Stage, name: str) -> str:
    timer = stage.timer(name)
    assert timer is not None, "a stage knows its own timers"
    if timer.trigger:
        return f"{name} -> {timer.trigger}"
    return f"{name} -> {timer.effect.name if timer.effect else 'a note'}"
