"""The names of a codon's states and triggers."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum, auto

from interlock.system.tables import Triggers
from interlock.systems.runs.machines.codon import payloads

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


class Trigger(Triggers):
    """The triggers that can be fired at a codon.

    The published CodonTransitioned is seven of them, by its `to`.
    """

    START = "start", "its rig is set up", payloads.CodonStart
    INITIALIZE = "initialize", "its agent runs as process {pid}", payloads.CodonInitialize
    RUN = "run", "its agent is at work in session {session_id}", payloads.CodonRun
    COMPLETE_SENTINELS = (
        "complete_sentinels",
        "its agent has ended, and its sentinels finish their calls",
        payloads.CodonCompleteSentinels,
    )
    COMPLETE = "complete", "its agent did the work", payloads.CodonComplete
    FAIL = "fail", "it failed with the exit code {exit_code}", payloads.CodonFail
    SKIP = "skip", "it was skipped", payloads.CodonSkip
    COSTS_UPDATED = "costs_updated", "it has cost {cost} micro-dollars so far", payloads.CodonCosts
    COSTS_INCREMENTED = (
        "costs_incremented",
        "it has cost {cost_delta} micro-dollars more",
        payloads.CodonCostsIncrement,
    )
    ASSISTANT_MESSAGE_COUNT_UPDATED = (
        "assistant_message_count_updated",
        "its agent has written {new_count} messages",
        payloads.CodonMessageCount,
    )
    CODON_FINAL_COST_SET = (
        "codon_final_cost_set",
        "its final cost is {final_cost} micro-dollars",
        payloads.CodonFinalCost,
    )
    SENTINEL_STATES_UPDATED = (
        "sentinel_states_updated",
        "the states of its sentinels have changed",
        payloads.CodonSentinelStates,
    )
    CHECKPOINT_CREATED = (
        "checkpoint_created",
        "the checkpoint {checkpoint_type} was taken",
        payloads.CodonCheckpoint,
    )
    SKIP_REQUESTED = "skip_requested", "a person wants it skipped", payloads.CodonSkipRequested
    LOST = "lost", "its supervisor was lost, and nobody else knows how it ended", payloads.CodonLost
    RUN_ENDED = "run_ended", "its run has ended, and nothing of it goes on", payloads.CodonRunEnded


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
