"""The codon's states and table: published edges, published events that change no state, then ours.

A codon has one effect. The run's supervisor holds it from the codon's creation on, and carries it
from state to state.
"""

from __future__ import annotations

from interlock import (
    ORPHANS,
    PERSON,
    PRODUCER,
    Active,
    Bookkeeping,
    Machine,
    Terminal,
    Timer,
    by,
    move,
    rows,
    stay,
)
from interlock.system.tables import Meaning, Placement, carry
from interlock.system.tables import RecordData as Data
from interlock.systems.runs.machines import limits
from interlock.systems.runs.machines.codon import changes
from interlock.systems.runs.machines.codon.names import LIVE, SELF, State, Trigger
from interlock.systems.runs.machines.effects import CODON_CLEANUP, EVENTS, STEP

TIMERS = (Timer("recheck", lambda _: limits.RECHECK_MS, effect=CODON_CLEANUP),)


def its_workspace(data: Data) -> tuple[str, ...]:
    """Return the name that only one codon of a workspace holds at a time."""
    del data
    return (SELF,)


def at_work(state: State, *outcomes: Trigger) -> Active:
    """Return a state into which the supervisor carries its work."""
    ends = (*outcomes, Trigger.FAIL, Trigger.SKIP)
    return Active(state, TIMERS, outcomes=ends, crash=Trigger.LOST, holds=its_workspace)


STAGES = (
    Active(
        State.PREPARING,
        TIMERS,
        effect=STEP,
        outcomes=(Trigger.START, Trigger.FAIL, Trigger.SKIP),
        failures=(Trigger.FAIL,),
        crash=Trigger.LOST,
        exhausted=Trigger.LOST,
        holds=its_workspace,
    ),
    at_work(State.STARTING, Trigger.INITIALIZE),
    at_work(State.INITIALIZING, Trigger.RUN),
    at_work(State.RUNNING, Trigger.COMPLETE_SENTINELS, Trigger.COMPLETE),
    at_work(State.COMPLETING_SENTINELS, Trigger.COMPLETE),
    Terminal(State.COMPLETED, meaning=Meaning.DONE),
    Terminal(State.FAILED, meaning=Meaning.FAILED),
    Terminal(State.SKIPPED),
)
COUNTED = (State.RUNNING, State.COMPLETING_SENTINELS)
WATCHED = (State.STARTING, State.INITIALIZING, State.RUNNING, State.COMPLETING_SENTINELS)
HOLDER = by(STEP, EVENTS)

# Why a row is ours.
AN_EVENT = "the page's event: it changes what is known of the codon, and no state"
ASKED = "a person asks; the supervisor takes a checkpoint and ends the codon"
GONE = "its supervisor is lost: no other process knows how it ended"
CLOSED = "its run has ended, and nothing of it goes on"

# Why a guard refuses.
FINAL = "its final cost is set, and no later cost counts"

# fmt: off
PUBLISHED = (
    *rows(State.PREPARING,
        carry(Trigger.START, State.STARTING, HOLDER, update=changes.started),
    ),
    *rows(State.STARTING,
        carry(Trigger.INITIALIZE, State.INITIALIZING, HOLDER, update=changes.initialized),
    ),
    *rows(State.INITIALIZING,
        carry(Trigger.RUN, State.RUNNING, HOLDER, update=changes.running),
    ),
    *rows(State.RUNNING,
        carry(Trigger.COMPLETE_SENTINELS, State.COMPLETING_SENTINELS, HOLDER,
              update=changes.completing),
        move(Trigger.COMPLETE, State.COMPLETED, HOLDER, update=changes.completed),
    ),
    *rows(State.COMPLETING_SENTINELS,
        move(Trigger.COMPLETE, State.COMPLETED, HOLDER, update=changes.completed),
    ),
    *rows(LIVE,
        move(Trigger.FAIL, State.FAILED, HOLDER, update=changes.failed),
        move(Trigger.SKIP, State.SKIPPED, HOLDER, update=changes.skipped),
    ),
)
OURS = (
    *rows(COUNTED,
        stay(Trigger.COSTS_UPDATED, HOLDER, ours=AN_EVENT,
             guard=changes.is_not_final, refusal=FINAL, update=changes.costs_updated),
        stay(Trigger.COSTS_INCREMENTED, HOLDER, ours=AN_EVENT,
             guard=changes.is_not_final, refusal=FINAL, update=changes.costs_incremented),
        stay(Trigger.CODON_FINAL_COST_SET, HOLDER, ours=AN_EVENT, update=changes.final_cost_set),
        stay(Trigger.ASSISTANT_MESSAGE_COUNT_UPDATED, HOLDER, ours=AN_EVENT,
             update=changes.messages_counted),
    ),
    *rows(WATCHED,
        stay(Trigger.SENTINEL_STATES_UPDATED, HOLDER, ours=AN_EVENT,
             update=changes.sentinels_updated),
    ),
    *rows(LIVE,
        stay(Trigger.CHECKPOINT_CREATED, HOLDER, ours=AN_EVENT, update=changes.checkpoint_created),
        stay(Trigger.SKIP_REQUESTED, by(PERSON, PRODUCER), ours=ASKED,
             update=changes.skip_requested, interrupts=True),
        move(Trigger.LOST, State.FAILED, by(ORPHANS), ours=GONE, update=changes.lost),
        move(Trigger.RUN_ENDED, State.FAILED, by(CODON_CLEANUP), ours=CLOSED,
             update=changes.run_ended),
    ),
)
# fmt: on

CODON = Machine(
    name="codon",
    stages=STAGES,
    transitions=(*PUBLISHED, *OURS),
    says=Trigger.sentences(created="its run has come to the codon {codon_id}"),
    initial_data=changes.initial_data,
    payloads=Trigger.payloads(),
    cancel_triggers=(Trigger.SKIP_REQUESTED,),
    placement=Placement(id_prefix=("workspace", "run"), needs_parent=True),
    bookkeeping=Bookkeeping(counters=changes.counters, in_family_log=True),
)
