"""The agent's states and table: the six published edges, then ours, each with its reason."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum, auto
from typing import Literal

from interlock import (
    ORPHANS,
    PERSON,
    STALLS,
    Active,
    Ask,
    Machine,
    Terminal,
    Timer,
    by,
    move,
    rows,
    stay,
    validated,
)
from interlock.system.tables import (
    AbortReason,
    Meaning,
    Placement,
    TransitionReason,
    Triggers,
    carry,
)
from interlock.system.tables import RecordData as Data
from interlock.systems.tasks.machines.agent import payloads
from interlock.systems.tasks.machines.effects import ABORT, ASSIGNMENT, SUPERVISION

Limit = Literal["spawn_limit_s", "progress_limit_s", "idle_limit_s"]


class State(StrEnum):
    """The states of an agent."""

    STARTING = auto()
    WORKING = auto()
    IDLE = auto()
    DEAD = auto()


class Trigger(Triggers):
    """The triggers that can be fired at an agent."""

    CONFIRMED_ALIVE = "confirmed_alive", "its process runs", payloads.AgentConfirmedAlive
    SPAWN_FAILED = "spawn_failed", "its process could not be started", payloads.AgentEnd
    TASK_FINISHED = "task_finished", "its task is over, and it waits for the next one"
    TASK_ASSIGNED = "task_assigned", "it was given the task {task}", payloads.AgentTaskAssigned
    ENDED = "ended", "its session is over", payloads.AgentEnd
    RECYCLED = (
        "recycled",
        "no task came for it in time, or another one needed its slot",
        payloads.AgentEnd,
    )
    TOOL_ABORTED = "tool_aborted", "it aborted one of its tool calls", payloads.AgentAbort
    SIBLINGS_ABORTED = (
        "siblings_aborted",
        "the agents of the tasks beside its task are to be ended",
        payloads.AgentAbort,
    )


def initial_data(payload: Data) -> Data:
    """Check what an agent is started with and return its first data."""
    return validated(payloads.NewAgent, "the agent", payload)


def confirmed_alive(ask: Ask[payloads.AgentData]) -> Data:
    """Keep where the agent runs. Its pid is for people: another process may have it by now."""
    return {**ask.data, **ask.payload}


def ended(ask: Ask[payloads.AgentData]) -> Data:
    """Keep how the agent ended."""
    return {**ask.data, "end": {name: value for name, value in ask.payload.items() if value}}


def task_assigned(ask: Ask[payloads.AgentData]) -> Data:
    """Keep the task that the agent works on now."""
    return {**ask.data, "task": ask.payload["task"]}


def limit(name: Limit) -> Callable[[payloads.AgentData], int]:
    """Return the delay, in ms, of a limit that the agent's data has under this name, in s."""
    return lambda data: data[name] * 1_000


TIMEOUT = {"abort": AbortReason.TIMEOUT.value, "why": TransitionReason.TIMED_OUT.value}
NOT_WORKING = {"reason": "it did not begin to work in time", **TIMEOUT}
IDLING = {"reason": "it made no progress", **TIMEOUT}
STAGES = (
    Active(
        State.STARTING,
        (Timer("spawn", limit("spawn_limit_s"), Trigger.SPAWN_FAILED, payload=NOT_WORKING),),
        effect=SUPERVISION,
        outcomes=(Trigger.SPAWN_FAILED,),
        crash=Trigger.SPAWN_FAILED,
        once=lambda _: True,
    ),
    Active(
        State.WORKING,
        (Timer("progress", limit("progress_limit_s"), Trigger.ENDED, payload=IDLING),),
        outcomes=(Trigger.ENDED, Trigger.TASK_FINISHED),
        crash=Trigger.ENDED,
    ),
    Active(
        State.IDLE,
        (Timer("idle", limit("idle_limit_s"), Trigger.RECYCLED),),
        meaning=Meaning.WAITS,
        outcomes=(Trigger.ENDED, Trigger.TASK_ASSIGNED),
        crash=Trigger.ENDED,
    ),
    Terminal(State.DEAD, shown="ended", meaning=Meaning.ENDED),
)

# Why a row is ours.
KILLED = "a person may end an agent before it works"
IDLE_DEATH = "a process may also die while it is idle"
CHAIN = "the page has an abort chain beside the table; an effect carries an abort along it"
TOOL = "an agent starts its tools itself, so only the agent can abort a call; it reports that here"

# A row that `abandons` its supervisor: that learns at its next renewal that its lease is void, and
# ends the process of the agent.
# fmt: off
PUBLISHED = (
    *rows(State.STARTING,
        carry(Trigger.CONFIRMED_ALIVE, State.WORKING, by(SUPERVISION), update=confirmed_alive),
        move(Trigger.SPAWN_FAILED, State.DEAD, by(SUPERVISION, ORPHANS, STALLS), abandons=True,
             update=ended, reason=TransitionReason.FAILED),
    ),
    *rows(State.WORKING,
        carry(Trigger.TASK_FINISHED, State.IDLE, by(SUPERVISION),
              reason=TransitionReason.COMPLETED),
        move(Trigger.ENDED, State.DEAD, by(SUPERVISION, ORPHANS, STALLS, ABORT, PERSON),
             abandons=True, update=ended, effect=ABORT, reason=TransitionReason.LOST,
             reason_by_hand=TransitionReason.ABORTED),
    ),
    *rows(State.IDLE,
        carry(Trigger.TASK_ASSIGNED, State.WORKING, by(SUPERVISION), update=task_assigned),
        move(Trigger.RECYCLED, State.DEAD, by(STALLS, ASSIGNMENT), abandons=True,
             update=ended, reason=TransitionReason.COMPLETED),
    ),
)
OURS = (
    *rows(State.STARTING,
        move(Trigger.ENDED, State.DEAD, by(ABORT, PERSON), ours=KILLED, update=ended,
             effect=ABORT, reason=TransitionReason.LOST, reason_by_hand=TransitionReason.ABORTED),
    ),
    *rows(State.IDLE,
        move(Trigger.ENDED, State.DEAD, by(SUPERVISION, ORPHANS, ABORT, PERSON), ours=IDLE_DEATH,
             update=ended, effect=ABORT, reason=TransitionReason.LOST,
             reason_by_hand=TransitionReason.ABORTED),
    ),
    *rows(State.WORKING,
        stay(Trigger.TOOL_ABORTED, by(SUPERVISION), ours=TOOL,
             effect=ABORT, reason=TransitionReason.ABORTED),
        stay(Trigger.SIBLINGS_ABORTED, by(SUPERVISION, PERSON), ours=CHAIN,
             effect=ABORT, reason=TransitionReason.ABORTED),
    ),
)
# fmt: on

AGENT = Machine(
    name="agent",
    stages=STAGES,
    transitions=(*PUBLISHED, *OURS),
    says=Trigger.sentences(created="it was started for the task {task}"),
    initial_data=initial_data,
    payloads=Trigger.payloads(),
    cancel_triggers=(Trigger.ENDED,),
    placement=Placement(id_prefix=("backlog",)),
)
