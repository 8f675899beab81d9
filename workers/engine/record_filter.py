"""Makes the filter of a list from a machine and a state that a person or a program names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.kernel.errors import CallError, UnknownMachineError
from interlock.kernel.machine import Machine
from interlock.kernel.store.listings import Filter


def record_filter(
    machines: Mapping[str, Machine],
    machine: str | None = None,
    state: str | None = None,
    *,
    by_state: bool = False,
    **conditions: Any,
) -> Filter:
    """Return a filter: of one machine or all, of one state or all, with more of its conditions.

    With `by_state`, a list comes by the time in the state although no state is given. Raises
    CallError, with the names that there are.
    """
    if machine is not None and machine not in machines:
        raise UnknownMachineError(machine, sorted(machines))
    names = [machine] if machine is not None else list(machines)
    states = [(name, str(stage.state)) for name in names for stage in machines[name].stages]
    chosen = [pair for pair in states if state in (None, pair[1])]
    if not chosen and machine is None:
        raise CallError(f"no machine has a state {state!r}; `interlock machines` lists them")
    if not chosen:
        known = ", ".join(name for _, name in states)
        raise CallError(f"{machine} has no state {state!r}; its states: {known}")
    asked = chosen if by_state or state is not None else ()
    return Filter(machines=names, states=asked, **conditions)
