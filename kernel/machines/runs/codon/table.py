"""The codon's table: the published edges, the published events that change no state, then ours.

Its one effect is held from its birth by the run's conductor, and carried from state to state.
"""

from __future__ import annotations

from interlock.kernel.machine import Machine
from interlock.kernel.machines.runs import events as e
from interlock.kernel.machines.runs.codon import changes as c
from interlock.kernel.machines.runs.codon import payloads as p
from interlock.kernel.machines.runs.codon.names import SELF
from interlock.kernel.machines.runs.codon.names import Trigger as T
from interlock.kernel.machines.runs.effects import CLEARANCE, STEP
from interlock.kernel.machines.runs.values import LIVE
from interlock.kernel.machines.runs.values import CodonStatus as S
from interlock.kernel.table import Active, Data, Loop, Terminal, Timer, Transition

RECHECK_MS = 3_600_000
TIMERS = (Timer("recheck", lambda _: RECHECK_MS, effect=CLEARANCE),)


def its_place(data: Data) -> tuple[str, ...]:
    """Hold the workspace: no other codon is at work there."""
    del data
    return (SELF,)


def at_work(state: S, *outcomes: T) -> Active:
    """Return a state into which the conductor carries its work."""
    ends = (*outcomes, T.FAIL, T.SKIP)
    return Active(state, TIMERS, outcomes=ends, crash=T.LOST, holds=its_place)


STAGES = (
    Active(
        S.PREPARING,
        TIMERS,
        effect=STEP,
        outcomes=(T.START, T.FAIL, T.SKIP),
        crash=T.LOST,
        exhausted=T.LOST,
        holds=its_place,
    ),
    at_work(S.STARTING, T.INITIALIZE),
    at_work(S.INITIALIZING, T.RUN),
    at_work(S.RUNNING, T.COMPLETE_SENTINELS, T.COMPLETE),
    at_work(S.COMPLETING_SENTINELS, T.COMPLETE),
    Terminal(S.COMPLETED),
    Terminal(S.FAILED),
    Terminal(S.SKIPPED),
)
COUNTED = (S.RUNNING, S.COMPLETING_SENTINELS)
WATCHED = (S.STARTING, S.INITIALIZING, S.RUNNING, S.COMPLETING_SENTINELS)
FINAL = "its final cost is set, and is the last word"
AN_EVENT = "the page's event: it changes what is known of the codon, and no state"
ASKED = "a person asks; who is at work ends it, and takes a checkpoint before"
GONE = "the conductor is lost: nobody else can say how it ended"
CLOSED = "its run has ended, and nothing of it goes on"


def by(*names: str) -> tuple[str, ...]:
    """Name who fires a row in the running system."""
    return names


HOLDER = by("step", "events")

# fmt: off
PUBLISHED = (
    Transition(S.PREPARING,            T.START,              S.STARTING,             update=c.started,     carry=True, by=HOLDER),
    Transition(S.STARTING,             T.INITIALIZE,         S.INITIALIZING,         update=c.initialized, carry=True, by=HOLDER),
    Transition(S.INITIALIZING,         T.RUN,                S.RUNNING,              update=c.running,     carry=True, by=HOLDER),
    Transition(S.RUNNING,              T.COMPLETE_SENTINELS, S.COMPLETING_SENTINELS, update=c.completing,  carry=True, by=HOLDER),
    Transition(S.RUNNING,              T.COMPLETE,           S.COMPLETED,            update=c.completed,   by=HOLDER),
    Transition(S.COMPLETING_SENTINELS, T.COMPLETE,           S.COMPLETED,            update=c.completed,   by=HOLDER),
    *(Transition(state,                T.FAIL,               S.FAILED,               update=c.failed,      by=HOLDER) for state in LIVE),
    *(Transition(state,                T.SKIP,               S.SKIPPED,              update=c.skipped,     by=HOLDER) for state in LIVE),
)
EVENTS = (
    *(Transition(state, T.COSTS_UPDATED,                   state, guard=c.is_not_final, refusal=FINAL, update=c.costs_updated,     loop=Loop.INTERNAL, by=HOLDER, ours=AN_EVENT) for state in COUNTED),
    *(Transition(state, T.COSTS_INCREMENTED,               state, guard=c.is_not_final, refusal=FINAL, update=c.costs_incremented, loop=Loop.INTERNAL, by=HOLDER, ours=AN_EVENT) for state in COUNTED),
    *(Transition(state, T.CODON_FINAL_COST_SET,            state, update=c.final_cost_set,     loop=Loop.INTERNAL, by=HOLDER, ours=AN_EVENT) for state in COUNTED),
    *(Transition(state, T.ASSISTANT_MESSAGE_COUNT_UPDATED, state, update=c.messages_counted,   loop=Loop.INTERNAL, by=HOLDER, ours=AN_EVENT) for state in COUNTED),
    *(Transition(state, T.SENTINEL_STATES_UPDATED,         state, update=c.sentinels_updated,  loop=Loop.INTERNAL, by=HOLDER, ours=AN_EVENT) for state in WATCHED),
    *(Transition(state, T.CHECKPOINT_CREATED,              state, update=c.checkpoint_created, loop=Loop.INTERNAL, by=HOLDER, ours=AN_EVENT) for state in LIVE),
)
OURS = (
    *(Transition(state, T.SKIP_REQUESTED, state,    update=c.skip_requested, loop=Loop.INTERNAL, interrupts=True, by=by("person", "producer"), ours=ASKED) for state in LIVE),
    *(Transition(state, T.LOST,           S.FAILED, update=c.lost,           by=by("orphans"),   ours=GONE) for state in LIVE),
    *(Transition(state, T.RUN_ENDED,      S.FAILED, update=c.run_ended,      by=by("clearance"), ours=CLOSED) for state in LIVE),
)
# fmt: on

CODON = Machine(
    name="codon",
    stages=STAGES,
    transitions=(*PUBLISHED, *EVENTS, *OURS),
    initial_data=p.birth,
    payloads={
        T.START: p.CodonStart,
        T.INITIALIZE: p.CodonInitialize,
        T.RUN: p.CodonRun,
        T.COMPLETE_SENTINELS: p.CodonCompleteSentinels,
        T.COMPLETE: p.CodonComplete,
        T.FAIL: p.CodonFail,
        T.SKIP: p.CodonSkip,
        T.COSTS_UPDATED: e.CodonCosts,
        T.COSTS_INCREMENTED: e.CodonCostsIncrement,
        T.CODON_FINAL_COST_SET: e.CodonFinalCost,
        T.ASSISTANT_MESSAGE_COUNT_UPDATED: e.CodonMessageCount,
        T.SENTINEL_STATES_UPDATED: e.CodonSentinelStates,
        T.CHECKPOINT_CREATED: e.CodonCheckpoint,
        T.SKIP_REQUESTED: p.CodonSkipRequested,
        T.LOST: p.CodonLost,
        T.RUN_ENDED: p.CodonRunEnded,
    },
    cancel_triggers=(T.SKIP_REQUESTED,),
    id_prefix=("workspace", "run"),
    needs_parent=True,
    counters=p.sums,
    in_family_log=True,
)
