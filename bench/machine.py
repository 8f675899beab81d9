"""The machine that is measured: five states whose effects do nothing."""

from __future__ import annotations

from enum import StrEnum, auto

from interlock.kernel.effect import Effect
from interlock.kernel.machine import Machine
from interlock.kernel.table import Active, Data, Terminal, Transition
from interlock.kernel.timer import Timer

STALL_MS = 3_600_000
STEP = Effect("step")
EFFECTS = 5


class State(StrEnum):
    """The states of a chain."""

    FIRST = auto()
    SECOND = auto()
    THIRD = auto()
    FOURTH = auto()
    FIFTH = auto()
    DONE = auto()


class Trigger(StrEnum):
    """The triggers of a chain."""

    STEPPED = auto()
    STALLED = auto()


def _stall(data: Data) -> int:
    del data
    return STALL_MS


_TIMERS = (Timer("stall", _stall, Trigger.STALLED),)
_ACTIVE = tuple(state for state in State if state is not State.DONE)
_NEXT = dict(zip(_ACTIVE, tuple(State)[1:], strict=True))

CHAIN = Machine(
    name="chain",
    stages=(
        *(Active(state, _TIMERS, effect=STEP, outcomes=(Trigger.STEPPED,)) for state in _ACTIVE),
        Terminal(State.DONE),
    ),
    transitions=(
        *(Transition(state, Trigger.STEPPED, target) for state, target in _NEXT.items()),
        *(Transition(state, Trigger.STALLED, State.DONE, abandons=True) for state in _ACTIVE),
    ),
)
