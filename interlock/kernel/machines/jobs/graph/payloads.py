"""The payloads of a graph: for its creation, and for each of its triggers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from interlock.kernel.payload import CardAnswer, Shape, Word

Detail = Annotated[str, Field(max_length=8_000)]


class GraphLimits(Shape):
    """The limits of all its jobs together: micro-dollars, s at work, runs of workers."""

    cost_micro: Annotated[int, Field(ge=0, le=10**15)] | None = None
    time_s: Annotated[int, Field(ge=1, le=31_536_000)] | None = None
    iterations: Annotated[int, Field(ge=1, le=10**9)] | None = None


class NewGraph(Shape):
    """The fields that its jobs share. `slots` is how many of them run at once; 0 sets no limit.

    `stewards` and `on_cancel` are for the jobs that name none of their own.
    """

    description: Annotated[str, Field(max_length=64_000)] = ""
    slots: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    limits: GraphLimits = GraphLimits()
    stewards: Annotated[list[Word], Field(max_length=100)] = []
    on_cancel: Literal["starve", "cancel"] = "starve"
    remind_s: Annotated[int, Field(ge=60, le=31_536_000)] = 86_400


class GraphConfiguration(Shape):
    """The fields that change."""

    description: Annotated[str, Field(max_length=64_000)] | None = None
    slots: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    limits: GraphLimits | None = None
    stewards: Annotated[list[Word], Field(max_length=100)] | None = None
    on_cancel: Literal["starve", "cancel"] | None = None
    remind_s: Annotated[int, Field(ge=60, le=31_536_000)] | None = None
    by: Annotated[str, Field(max_length=200)] = "person"


class NewGraphLimits(CardAnswer, GraphLimits):
    """The limits of a graph that a person changes."""


class GraphLimitsRaised(CardAnswer):
    """The limits from now on; one that is not named stays. The client sets `by`."""

    limits: Annotated[NewGraphLimits, Field(examples=[{"cost_micro": 10_000_000}])]
    reason: Detail = ""
    by: Annotated[str, Field(max_length=200)] = "person"


class GraphLimitReached(Shape):
    """The limit that was reached, how much was used, and how much was allowed at that time."""

    limit: Literal["cost", "time", "iterations"]
    used: Annotated[float, Field(ge=0)]
    allowed: Annotated[float, Field(ge=0)]
