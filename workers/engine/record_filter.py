"""Makes the filter of a list from a machine and a state that a person or a program names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from interlock.kernel.errors import CallError, UnknownMachineError
from interlock.kernel.machine import Machine
from interlock.kernel.store.listings import Filter


class Wanted(TypedDict, total=False):
    """The conditions of a list: a machine, one of its states, and other fields of `Filter`."""

    machine: str | None
    state: str | None
    parent: str
    id_prefix: str
    text: str
    created_ms: tuple[int, int] | None
    since_ms: tuple[int, int] | None


def record_filter(
    machines: Mapping[str, Machine], *, by_state: bool = False, **wanted: Unpack[Wanted]
) -> Filter:
    """Return the filter of a list: of one machine or all, of one state or all.

    With `by_state`, a list comes by the time in the state although no state is given. Raises
    CallError, with the names that there are.
    """
    machine, state = wanted.pop("machine", None), wanted.pop("state", None)
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
    # With times of the state, the index by state has fewer records beside those that are wanted.
    asked = chosen if by_state or state is not None or wanted.get("since_ms") else ()
    conditions: Any = wanted
    return Filter(machines=names, states=asked, **conditions)
