"""What the rows of a codon say: why it moved, in words, by the trigger."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.kernel.machines.runs.codon.names import Trigger
from interlock.kernel.table import CREATED

SAYS: Mapping[str, str] = {
    CREATED: "its run has come to the codon {codon_id}",
    Trigger.START: "its rig is set up",
    Trigger.INITIALIZE: "its agent runs as process {pid}",
    Trigger.RUN: "its agent is at work in session {session_id}",
    Trigger.COMPLETE_SENTINELS: "its agent has ended, and its sentinels finish their calls",
    Trigger.COMPLETE: "its agent did the work",
    Trigger.FAIL: "it failed with the exit code {exit_code}",
    Trigger.SKIP: "it was skipped",
    Trigger.COSTS_UPDATED: "it has cost {cost} micro-dollars so far",
    Trigger.COSTS_INCREMENTED: "it has cost {cost_delta} micro-dollars more",
    Trigger.CODON_FINAL_COST_SET: "its final cost is {final_cost} micro-dollars",
    Trigger.ASSISTANT_MESSAGE_COUNT_UPDATED: "its agent has written {new_count} messages",
    Trigger.SENTINEL_STATES_UPDATED: "the states of its sentinels have changed",
    Trigger.CHECKPOINT_CREATED: "the checkpoint {checkpoint_type} was taken",
    Trigger.SKIP_REQUESTED: "a person wants it skipped",
    Trigger.LOST: "its supervisor was lost, and nobody else knows how it ended",
    Trigger.RUN_ENDED: "its run has ended, and nothing of it goes on",
}
