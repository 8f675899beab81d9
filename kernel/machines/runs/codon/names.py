"""The names of a codon's triggers; its states' are part of the published events."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum, auto

from interlock.kernel.machines.runs.values import CodonStatus

# What a codon holds while it lives: no other of its workspace does.
SELF = "codon"


class Trigger(StrEnum):
    """What can be fired at a codon. The page's CodonTransitioned is seven of them, by its `to`."""

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


# CodonTransitioned, by where it leads.
TO: Mapping[CodonStatus, Trigger] = {
    CodonStatus.STARTING: Trigger.START,
    CodonStatus.INITIALIZING: Trigger.INITIALIZE,
    CodonStatus.RUNNING: Trigger.RUN,
    CodonStatus.COMPLETING_SENTINELS: Trigger.COMPLETE_SENTINELS,
    CodonStatus.COMPLETED: Trigger.COMPLETE,
    CodonStatus.FAILED: Trigger.FAIL,
    CodonStatus.SKIPPED: Trigger.SKIP,
}
