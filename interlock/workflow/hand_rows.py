"""Makes rows by hand part of a workflow's table: with its children, and with data that fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from interlock.kernel.blame import PlacedError
from interlock.kernel.effect import CASCADE, SPAWN
from interlock.kernel.table import Ask, Mode, Transition, always
from interlock.workflow.changing import ONCE, forgotten, unless_begun
from interlock.workflow.data import OWN, JsonData, checked, visible
from interlock.workflow.names import families_of
from interlock.workflow.parts import Declared, StepPart
from interlock.workflow.place import SourceLine

Update = Callable[[Ask], JsonData]


def rows_by_hand(flow: Declared) -> Iterator[Transition]:
    """Yield the rows by hand of a workflow as its table has them."""
    for hand in flow.by_hand:
        for row in hand.transitions:
            yield _made(flow, row, hand.place)


def _made(flow: Declared, row: Transition, place: SourceLine) -> Transition:
    source, target, families = str(row.source), str(row.target), families_of(flow)
    leaves = row.mode is not Mode.INTERNAL
    fields: dict[str, Any] = {}
    if leaves and target in families:
        fields = {"effect": SPAWN, "spawns": target}
    elif leaves and source in families:
        fields = {"effect": CASCADE}
    if leaves or row.update:
        fields["update"] = _checked(flow, row.update, place, leaves=leaves)
    step = flow.states.get(source)
    if leaves and isinstance(step, StepPart) and step.unclear:
        fields |= _unless_begun(source, row)
    return replace(row, **fields)


def _checked(flow: Declared, update: Update | None, place: SourceLine, *, leaves: bool) -> Update:
    """Return an update after which the data fit their model, as after every other change."""

    def updated(ask: Ask) -> JsonData:
        data = forgotten(ask) if leaves else ask.data
        if update is None:
            return data
        found: object = update(replace(ask, data=visible(data)))
        if not isinstance(found, Mapping):
            kind = type(found).__name__
            raise PlacedError(f"update= returned {kind}, and data are a mapping ({place})")
        own = {name: value for name, value in data.items() if name.startswith(OWN)}
        return {**checked(flow.data, "what the row sets", found), **own}

    return updated


def _unless_begun(step: str, row: Transition) -> dict[str, Any]:
    """Return guard and refusal of a row that leaves no step in which something has begun once."""
    guard = row.guard or (lambda ask: always(ask.data))

    def refusal(ask: Ask) -> str:
        if ONCE in ask.data:
            return f"{step} may be done once and may have begun: wait for its end"
        return row.refusal(ask) if callable(row.refusal) else row.refusal

    return {"guard": unless_begun(guard), "refusal": refusal}
