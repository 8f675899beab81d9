"""The table of a graph of jobs: what all its jobs share. All of it is ours."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import Annotated, Literal

from pydantic import Field

from interlock.kernel.effect import RESOLUTION
from interlock.kernel.machine import Machine
from interlock.kernel.machines.jobs.effects import TENDING
from interlock.kernel.payload import Shape, validated
from interlock.kernel.table import Ask, Bounds, Data, Loop, Terminal, Timer, Transition, Waiting

RECHECK_MS = 3_600_000
UNITS = {"cost_micro": "cost", "time_s": "time", "iterations": "iterations"}
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~-]{0,63}$")]
Detail = Annotated[str, Field(max_length=8_000)]


class S(StrEnum):
    """Where a graph can stand."""

    OPEN = auto()
    HALTED = auto()
    FINISHED = auto()


class T(StrEnum):
    """What can be fired at a graph."""

    CONFIGURE = auto()
    LIMIT_REACHED = auto()
    RAISE_LIMITS = auto()
    FINISH = auto()


class GraphLimits(Shape):
    """What all its jobs together may use: micro-dollars, s at work, runs of workers."""

    cost_micro: Annotated[int, Field(ge=0, le=10**15)] | None = None
    time_s: Annotated[int, Field(ge=1, le=31_536_000)] | None = None
    iterations: Annotated[int, Field(ge=1, le=10**9)] | None = None


class NewGraph(Shape):
    """What its jobs share. `slots` is how many of them run at once; 0 sets no limit.

    `stewards` and `on_cancel` are for jobs that say nothing else.
    """

    description: Annotated[str, Field(max_length=64_000)] = ""
    slots: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    limits: GraphLimits = GraphLimits()
    stewards: Annotated[list[Word], Field(max_length=100)] = []
    on_cancel: Literal["starve", "cancel"] = "starve"
    remind_s: Annotated[int, Field(ge=60, le=31_536_000)] = 86_400


class GraphConfiguration(Shape):
    """What is changed of it."""

    description: Annotated[str, Field(max_length=64_000)] | None = None
    slots: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    limits: GraphLimits | None = None
    stewards: Annotated[list[Word], Field(max_length=100)] | None = None
    on_cancel: Literal["starve", "cancel"] | None = None
    remind_s: Annotated[int, Field(ge=60, le=31_536_000)] | None = None
    by: Annotated[str, Field(max_length=200)] = "person"


class GraphLimitsRaised(Shape):
    """The limits from now on; what is not named stays."""

    limits: GraphLimits
    reason: Detail = ""
    by: Annotated[str, Field(max_length=200)] = "person"


class GraphLimitReached(Shape):
    """Which limit, how much was used, and how much was allowed when that was seen."""

    limit: Literal["cost", "time", "iterations"]
    used: Annotated[float, Field(ge=0)]
    allowed: Annotated[float, Field(ge=0)]


def birth(payload: Data) -> Data:
    """Check what a graph is opened with."""
    return validated(NewGraph, "the graph", payload)


def bounds(data: Data) -> Bounds:
    """Return what all its jobs together may use."""
    return Bounds(data["limits"].get("cost_micro"), data["limits"].get("iterations"))


def still_so(ask: Ask) -> bool:
    """Whether the limit that was reached is the one in force."""
    names = {word: name for name, word in UNITS.items()}
    found = ask.data["limits"].get(names[ask.payload["limit"]])
    scale = 1_000_000 if ask.payload["limit"] == "cost" else 1
    return found is not None and abs(found / scale - ask.payload["allowed"]) < 1 / scale


def steward(ask: Ask) -> bool:
    """Whether who decides is one of its stewards, or it names none."""
    return not ask.data["stewards"] or ask.payload["by"] in ask.data["stewards"]


def configured(ask: Ask) -> Data:
    """Take over what was changed."""
    changes = {name: value for name, value in ask.payload.items() if name != "by"}
    if "limits" in changes:
        changes["limits"] = {**ask.data["limits"], **changes["limits"]}
    return {**ask.data, **changes}


def halted(ask: Ask) -> Data:
    """Keep which limit was reached, for the person who is asked."""
    reached = ask.payload
    unit = {"cost": "$", "time": "s", "iterations": "runs"}[reached["limit"]]
    told = f"{reached['used']:.12g} of {reached['allowed']:.12g} {unit}"
    detail = f"the graph's limit of {reached['limit']} is reached: {told}; none of its jobs starts"
    return {**ask.data, "failure": {"code": "limit_reached", "detail": detail}}


def raised(ask: Ask) -> Data:
    """Let its jobs use more."""
    kept = {name: value for name, value in ask.data.items() if name != "failure"}
    return {**kept, "limits": {**ask.data["limits"], **ask.payload["limits"]}}


def reminder(data: Data) -> int | None:
    """Return when a person is reminded first."""
    return int(data["remind_s"]) * 1_000


RECHECK = Timer("recheck", lambda _: RECHECK_MS, effect=TENDING)
STAGES = (
    Waiting(S.OPEN, (RECHECK,), asks=lambda _: False),
    Waiting(
        S.HALTED,
        (Timer("reminder", reminder, effect=RESOLUTION), RECHECK),
        notifies=RESOLUTION,
        card="limit",
        affordances=(("raise", "raise_limits"),),
    ),
    Terminal(S.FINISHED),
)
SHARED = "the page has a workflow of jobs and no record of what they share"
LIMITED = "one card for the graph, not one for each of its jobs"
NO_STEWARD = "only one of its stewards decides"
NOT_SO = "its limits are others by now"


def by(*names: str) -> tuple[str, ...]:
    """Name who fires a row in the running system."""
    return names


# fmt: off
TRANSITIONS = (
    Transition(S.OPEN,   T.CONFIGURE,     S.OPEN,     guard=steward,  update=configured, refusal=NO_STEWARD, effect=TENDING, bounds=True, loop=Loop.INTERNAL, by=by("producer", "person"), ours=SHARED),
    Transition(S.OPEN,   T.LIMIT_REACHED, S.HALTED,   guard=still_so, update=halted,     refusal=NOT_SO, by=by("scheduling", "worker", "reviewer"), ours=LIMITED),
    Transition(S.HALTED, T.RAISE_LIMITS,  S.OPEN,     guard=steward,  update=raised,     refusal=NO_STEWARD, effect=TENDING, bounds=True, by=by("person"), ours=LIMITED),
    Transition(S.OPEN,   T.FINISH,        S.FINISHED, by=by("tending"), ours=SHARED),
    Transition(S.HALTED, T.FINISH,        S.FINISHED, by=by("tending"), ours=SHARED),
)
# fmt: on

GRAPH = Machine(
    name="graph",
    stages=STAGES,
    transitions=TRANSITIONS,
    initial_data=birth,
    bounds=bounds,
    payloads={
        T.CONFIGURE: GraphConfiguration,
        T.RAISE_LIMITS: GraphLimitsRaised,
        T.LIMIT_REACHED: GraphLimitReached,
    },
)
