"""What the record of a graph holds."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class LimitsData(TypedDict):
    """The limits of a graph or job: micro-dollars, seconds at work, runs of workers."""

    cost_micro: NotRequired[int]
    time_s: NotRequired[int]
    iterations: NotRequired[int]


class FailureData(TypedDict):
    """Why a person is asked. `limit` is the limit that was reached, if that is why."""

    code: str
    detail: str
    limit: NotRequired[str]


class GraphData(TypedDict):
    """The data of a graph: what its jobs share, and why it is halted."""

    description: str
    slots: int
    limits: LimitsData
    stewards: list[str]
    on_cancel: Literal["starve", "cancel"]
    remind_s: int
    failure: NotRequired[FailureData]
