"""The names of a codon's states and triggers."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum, auto

# What a codon holds while it is alive: no other codon of its workspace is.
SELF = "codon"


class State(StrEnum):
    """The states of a codon; the names are those of the published status."""

    PREPARING = auto()
    STARTING = auto()
    INITIALIZING = auto()
    RUNNING = auto()
    COMPLETING_SENTINELS = auto()
    COMPLETED = auto()
    FAILED = auto()
    SKIPPED = auto()

    @property
    def is_terminal(self) -> bool:
        """Whether nothing ever happens there again."""
        return self in TERMINAL


TERMINAL = frozenset({State.COMPLETED, State.FAILED, State.SKIPPED})
LIVE = tuple(state for state in State if state not in TERMINAL)


class Trigger(StrEnum):
    """The triggers that can be fired at a codon.

    The published CodonTransitioned is seven of them, by its `to`.
    """

    START = auto()
    INITIALIZE = auto()
    RUN = auto()
    COMPLETE_SENTINELS = auto()
    COMPLETE = auto()
    FAIL = auto()
    SKIP = auto()
    COSTS_UPDATED = auto()
    COSTS_INCREMENTED = auto()
    ASSISTANT_MESSAGE_COUNT_UPDATED = auto()
    CODON_FINAL_COST_SET = auto()
    SENTINEL_STATES_UPDATED = auto()
    CHECKPOINT_CREATED = auto()
    SKIP_REQUESTED = auto()
    LOST = auto()
    RUN_ENDED = auto()


# The trigger that leads to each state.
TO: Mapping[State, Trigger] = {
    State.STARTING: Trigger.START,
    State.INITIALIZING: Trigger.INITIALIZE,
    State.RUNNING: Trigger.RUN,
    State.COMPLETING_SENTINELS: Trigger.COMPLETE_SENTINELS,
    State.COMPLETED: Trigger.COMPLETE,
    State.FAILED: Trigger.FAIL,
    State.SKIPPED: Trigger.SKIP,
}
