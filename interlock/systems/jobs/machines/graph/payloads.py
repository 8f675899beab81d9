"""The payloads of a graph: for its creation, and for each of its triggers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from interlock import CardAnswer, Shape
from interlock.system.tables import Word
from interlock.systems.jobs.machines.graph.limits import (
    COST_MICRO_MAX,
    DESCRIPTION_LENGTH_MAX,
    DETAIL_LENGTH_MAX,
    ITERATIONS_MAX,
    NAME_LENGTH_MAX,
    REMIND_S,
    REMIND_S_MIN,
    SECONDS_MAX,
    SLOTS_MAX,
    STEWARDS_MAX,
)

Description = Annotated[str, Field(max_length=DESCRIPTION_LENGTH_MAX)]
Detail = Annotated[str, Field(max_length=DETAIL_LENGTH_MAX)]
Slots = Annotated[int, Field(ge=0, le=SLOTS_MAX)]
Stewards = Annotated[list[Word], Field(max_length=STEWARDS_MAX)]
Remind = Annotated[int, Field(ge=REMIND_S_MIN, le=SECONDS_MAX)]
OnCancel = Literal["starve", "cancel"]
Micro = Annotated[int, Field(ge=0, le=COST_MICRO_MAX)]
Seconds = Annotated[int, Field(ge=1, le=SECONDS_MAX)]
Runs = Annotated[int, Field(ge=1, le=ITERATIONS_MAX)]


class GraphLimits(Shape):
    """The limits of all its jobs together: micro-dollars, s at work, runs of workers."""

    cost_micro: Micro | None = None
    time_s: Seconds | None = None
    iterations: Runs | None = None


class NewGraph(Shape):
    """The fields that its jobs share. `slots` is how many of them run at once; 0 sets no limit.

    `stewards` and `on_cancel` are for the jobs that name none of their own.
    """

    description: Description = ""
    slots: Slots = 0
    limits: GraphLimits = GraphLimits()
    stewards: Stewards = []
    on_cancel: OnCancel = "starve"
    remind_s: Remind = REMIND_S


class GraphConfiguration(Shape):
    """The fields that change."""

    description: Description | None = None
    slots: Slots | None = None
    limits: GraphLimits | None = None
    stewards: Stewards | None = None
    on_cancel: OnCancel | None = None
    remind_s: Remind | None = None
    by: Annotated[str, Field(max_length=NAME_LENGTH_MAX)] = "person"


class NewGraphLimits(CardAnswer, GraphLimits):
    """The limits of a graph that a person changes."""


class GraphLimitsRaised(CardAnswer):
    """The limits from now on; one that is not named stays. The client sets `by`."""

    limits: Annotated[NewGraphLimits, Field(examples=[{"cost_micro": 10_000_000}])]
    reason: Detail = ""
    by: Annotated[str, Field(max_length=NAME_LENGTH_MAX)] = "person"


class GraphLimitReached(Shape):
    """The limit that was reached, how much was used, and how much was allowed at that time."""

    limit: Literal["cost", "time", "iterations"]
    used: Annotated[float, Field(ge=0)]
    allowed: Annotated[float, Field(ge=0)]
