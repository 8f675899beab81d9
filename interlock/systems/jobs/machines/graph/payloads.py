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

Detail = Annotated[str, Field(max_length=DETAIL_LENGTH_MAX)]


class GraphLimits(Shape):
    """The limits of all its jobs together: micro-dollars, s at work, runs of workers."""

    cost_micro: Annotated[int, Field(ge=0, le=COST_MICRO_MAX)] | None = None
    time_s: Annotated[int, Field(ge=1, le=SECONDS_MAX)] | None = None
    iterations: Annotated[int, Field(ge=1, le=ITERATIONS_MAX)] | None = None


class NewGraph(Shape):
    """The fields that its jobs share. `slots` is how many of them run at once; 0 sets no limit.

    `stewards` and `on_cancel` are for the jobs that name none of their own.
    """

    description: Annotated[str, Field(max_length=DESCRIPTION_LENGTH_MAX)] = ""
    slots: Annotated[int, Field(ge=0, le=SLOTS_MAX)] = 0
    limits: GraphLimits = GraphLimits()
    stewards: Annotated[list[Word], Field(max_length=STEWARDS_MAX)] = []
    on_cancel: Literal["starve", "cancel"] = "starve"
    remind_s: Annotated[int, Field(ge=REMIND_S_MIN, le=SECONDS_MAX)] = REMIND_S


class GraphConfiguration(Shape):
    """The fields that change."""

    description: Annotated[str, Field(max_length=DESCRIPTION_LENGTH_MAX)] | None = None
    slots: Annotated[int, Field(ge=0, le=SLOTS_MAX)] | None = None
    limits: GraphLimits | None = None
    stewards: Annotated[list[Word], Field(max_length=STEWARDS_MAX)] | None = None
    on_cancel: Literal["starve", "cancel"] | None = None
    remind_s: Annotated[int, Field(ge=REMIND_S_MIN, le=SECONDS_MAX)] | None = None
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
