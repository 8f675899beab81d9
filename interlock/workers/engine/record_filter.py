"""Makes the filter of a list from a machine and a state that a person or a program names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypedDict, Unpack

from interlock.kernel.errors import CallError, UnknownMachineError
from interlock.kernel.machine import Machine
from interlock.kernel.moving import state_now
from interlock.kernel.store.listings import Filter
from interlock.kernel.table import Active


class Wanted(TypedDict, total=False):
    """The conditions of a list: a machine, one of its states, and other fields of `Filter`.

    With an `effect` they are records in the states in which it is owed or at work.
    """

    machine: str | None
    state: str | None
    effect: str
    parent: str
    id_prefix: str
    text: str
    created_ms: tuple[int, int] | None
    since_ms: tuple[int, int] | None


def record_filter(
    machines: Mapping[str, Machine],
    *,
    by_state: bool = False,
    others: Mapping[str, Collection[str]] | None = None,
    **wanted: Unpack[Wanted],
) -> Filter:
    """Return the filter of a list: of one machine or all, of one state or all.

    With `by_state`, a list comes by the time in the state although no state is given. `others` are
    states that tables of other versions have, in which there may be records. Raises CallError, with
    the names that there are.
    """
    machine, state = wanted.pop("machine", None), wanted.pop("state", None)
    effect = wanted.pop("effect", "")
    if machine is not None and machine not in machines:
        raise UnknownMachineError(machine, sorted(machines))
    names = [machine] if machine is not None else list(machines)
    states = [(name, str(stage.state)) for name in names for stage in machines[name].stages]
    states += [(name, each) for name in names for each in sorted((others or {}).get(name, ()))]
    # Records that are still to be moved are listed with those in the present state.
    chosen = [(name, each) for name, each in states if _is_chosen(machines[name], each, state)]
    if not chosen and machine is None:
        raise CallError(f"no machine has a state {state!r}; `interlock machines` lists them")
    if not chosen:
        known = ", ".join(name for _, name in states)
        raise CallError(f"{machine} has no state {state!r}; its states: {known}")
    if effect:
        working = {(name, *pair) for name in names for pair in effects_at_work(machines[name])}
        present = sorted({found for *pair, found in working if tuple(pair) in chosen})
        if effect not in present:
            listed = ", ".join(present) or "none"
            raise CallError(
                f"effect {effect!r} is the work of no state that is asked for; there are: {listed}"
            )
        chosen = [pair for pair in chosen if (*pair, effect) in working]
    # With times of the state, the index by state has fewer records beside those that are wanted.
    asked = chosen if by_state or state is not None or effect or wanted.get("since_ms") else ()
    conditions: Any = wanted
    return Filter(machines=names, states=asked, **conditions)


def _is_chosen(machine: Machine, state: str, asked: str | None) -> bool:
    return asked is None or state_now(machine, state) == state_now(machine, asked)


def effects_at_work(machine: Machine) -> Iterator[tuple[str, str]]:
    """Yield each state of a machine whose records have work, with the name of the work's effect."""
    for stage in machine.stages:
        if isinstance(stage, Active):
            carried = (row.effect for row in machine.transitions if row.target == stage.state)
            for effect in (stage.effect, stage.later, *carried):
                if effect is not None:
                    yield str(stage.state), effect.name
