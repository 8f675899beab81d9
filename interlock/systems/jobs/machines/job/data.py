"""What the record of a job holds: what its producer handed in, and what its rows have kept."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from interlock.systems.jobs.machines.graph.data import FailureData, LimitsData


class ExecutorData(TypedDict):
    """Who does the work or the review: it has one of command, capability and model."""

    command: NotRequired[str]
    capability: NotRequired[str]
    model: NotRequired[str]
    parameters: dict[str, Any]
    cost_micro: int


class PhaseData(TypedDict):
    """A phase of the work."""

    name: str
    worker: ExecutorData


class EvidenceData(TypedDict):
    """A file that shows what was done in a phase, by its path below the directory of the job."""

    path: str
    sha256: str
    bytes: int
    phase: str


class ReviewData(TypedDict):
    """The verdict of the reviewer."""

    verdict: str
    summary: str
    reasons: list[str]
    evidence: list[dict[str, Any]]


class EndData(TypedDict):
    """Who ended the job, and why."""

    by: NotRequired[str]
    reason: NotRequired[str]


# What a reviewer or steward told the worker: who `from` is, who that was, and what was said.
GuidanceData = TypedDict("GuidanceData", {"from": str, "by": str, "text": str})


class JobData(TypedDict):
    """The data of a job: the fields of `NewJob`, then the counts of its tries, then what is kept.

    `going` says how far a manual job goes on. `slots` are those that it has or waits for.
    """

    description: str
    objective: str
    details: str
    acceptance: list[str]
    tags: list[str]
    depends_on: list[str]
    phases: list[PhaseData]
    review: NotRequired[ExecutorData]
    auto_approve: bool
    manual: bool
    hold: bool
    queue: NotRequired[str]
    hours: NotRequired[str]
    stewards: list[str]
    on_cancel: Literal["starve", "cancel"]
    limits: LimitsData
    folder: NotRequired[str]
    dir: NotRequired[str]
    host: NotRequired[str]
    running_s: int
    reviewing_s: int
    recoveries_max: int
    retries_max: int
    retry_delay_s: int
    remind_s: int

    phase: int
    runs: int
    recoveries: int
    retries: int
    unbegun: int
    met: bool
    lost: dict[str, str]
    waived: list[str]
    guidance: list[GuidanceData]

    going: NotRequired[str]
    slots: NotRequired[list[str]]
    time_left_ms: NotRequired[int]
    backoff_ms: NotRequired[int]
    paused_s: NotRequired[int]
    pauses: NotRequired[int]
    suspended_s: NotRequired[int]
    summary: NotRequired[str]
    evidence: NotRequired[list[EvidenceData]]
    review_result: NotRequired[ReviewData]
    failure: NotRequired[FailureData]
    end: NotRequired[EndData]
