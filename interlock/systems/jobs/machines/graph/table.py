"""The graph's states, changes and table. All of it is ours."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum, auto

from interlock import (
    PERSON,
    PRODUCER,
    RESOLUTION,
    Ask,
    Bookkeeping,
    Machine,
    Terminal,
    Timer,
    Waiting,
    by,
    move,
    rows,
    stay,
    validated,
)
from interlock.system.tables import MICRO, ChoiceWords, Meaning, Triggers, as_sentence
from interlock.system.tables import RecordData as Data
from interlock.systems.jobs.machines.effects import GRAPH_UPKEEP, REVIEWER, SCHEDULING, WORKER
from interlock.systems.jobs.machines.graph import payloads
from interlock.systems.jobs.machines.graph.data import GraphData
from interlock.systems.jobs.machines.graph.limits import RECHECK_MS
from interlock.systems.jobs.machines.stewards import only_stewards, steward


class State(StrEnum):
    """The states of a graph."""

    OPEN = auto()
    HALTED = auto()
    FINISHED = auto()


class Trigger(Triggers):
    """The triggers that can be fired at a graph."""

    CONFIGURE = "configure", "its settings were changed", payloads.GraphConfiguration
    LIMIT_REACHED = (
        "limit_reached",
        "the {limit} that its jobs may use together is used up",
        payloads.GraphLimitReached,
    )
    RAISE_LIMITS = "raise_limits", "a person raised its limits", payloads.GraphLimitsRaised
    FINISH = "finish", "all of its jobs have ended"


def initial_data(payload: Data) -> Data:
    """Check what a graph is opened with and return its first data."""
    return validated(payloads.NewGraph, "the graph", payload)


def bounds(data: GraphData) -> Mapping[str, int | None]:
    """Return what all its jobs together may use."""
    limits = data["limits"]
    return {"spent": limits.get("cost_micro"), "runs": limits.get("iterations")}


def is_in_force(ask: Ask[GraphData]) -> bool:
    """Whether the limit that was reached is still the limit."""
    limits, scale = ask.data["limits"], MICRO if ask.payload["limit"] == "cost" else 1
    found = {
        "cost": limits.get("cost_micro"),
        "time": limits.get("time_s"),
        "iterations": limits.get("iterations"),
    }[ask.payload["limit"]]
    return found is not None and abs(found / scale - ask.payload["allowed"]) < 1 / scale


def configured(ask: Ask[GraphData]) -> Data:
    """Take over the changes."""
    changes = {name: value for name, value in ask.payload.items() if name != "by"}
    if "limits" in changes:
        changes["limits"] = {**ask.data["limits"], **changes["limits"]}
    return {**ask.data, **changes}


def halted(ask: Ask[GraphData]) -> Data:
    """Keep which limit was reached, for the card."""
    reached = ask.payload
    unit = {"cost": "$", "time": "s", "iterations": "runs"}[reached["limit"]]
    usage = f"{reached['used']:.12g} of {reached['allowed']:.12g} {unit}"
    detail = f"the graph's limit of {reached['limit']} is reached: {usage}; none of its jobs starts"
    return {**ask.data, "failure": {"code": "limit_reached", "detail": detail}}


def limits_raised(ask: Ask[GraphData]) -> Data:
    """Let its jobs use more."""
    kept = {name: value for name, value in ask.data.items() if name != "failure"}
    return {**kept, "limits": {**ask.data["limits"], **ask.payload["limits"]}}


def reminder(data: GraphData) -> int | None:
    """Return when a person is reminded first."""
    return int(data["remind_s"]) * 1_000


RECHECK = Timer("recheck", lambda _: RECHECK_MS, effect=GRAPH_UPKEEP)
STAGES = (
    Waiting(State.OPEN, (RECHECK,)),
    Waiting(
        State.HALTED,
        (Timer("reminder", reminder, effect=RESOLUTION), RECHECK),
        notifies=RESOLUTION,
        shown="halted at a limit",
        card="limit",
        question=lambda data: f"{as_sentence(data['failure']['detail'])} Raise it?",
        affordances=(("raise", Trigger.RAISE_LIMITS),),
        words={"raise": ChoiceWords("Raise the limit")},
    ),
    Terminal(State.FINISHED, meaning=Meaning.DONE),
)

# Why a row is ours.
SHARED = "the page has a workflow of jobs and no record of what they share"
LIMITED = "one card for the graph, not one for each of its jobs"

# Why the guard of a limit refuses.
OTHER_LIMIT = "its limits were changed meanwhile"

# fmt: off
TRANSITIONS = (
    *rows(State.OPEN,
        stay(Trigger.CONFIGURE, by(PRODUCER, PERSON), bounds=True, ours=SHARED,
             guard=steward, refusal=only_stewards, update=configured, effect=GRAPH_UPKEEP),
        move(Trigger.LIMIT_REACHED, State.HALTED, by(SCHEDULING, WORKER, REVIEWER), ours=LIMITED,
             guard=is_in_force, refusal=OTHER_LIMIT, update=halted),
    ),
    *rows(State.HALTED,
        move(Trigger.RAISE_LIMITS, State.OPEN, by(PERSON), bounds=True, ours=LIMITED,
             guard=steward, refusal=only_stewards, update=limits_raised, effect=GRAPH_UPKEEP),
    ),
    *rows((State.OPEN, State.HALTED),
        move(Trigger.FINISH, State.FINISHED, by(GRAPH_UPKEEP), ours=SHARED),
    ),
)
# fmt: on

GRAPH = Machine(
    name="graph",
    stages=STAGES,
    transitions=TRANSITIONS,
    says=Trigger.sentences(created="it was opened for its jobs"),
    initial_data=initial_data,
    bookkeeping=Bookkeeping(bounds=bounds),
    payloads=Trigger.payloads(),
)
