"""The payloads of a job: for its creation, and for each of its triggers."""

from __future__ import annotations

from collections import Counter
from copy import copy
from enum import StrEnum, auto
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, create_model, model_validator

from interlock import CardAnswer, Shape, Tags
from interlock.system.tables import Word
from interlock.systems.jobs.machines.job.limits import (
    ACCEPTANCE_MAX,
    CODE_LENGTH_MAX,
    COMMAND_LENGTH_MAX,
    COST_MICRO_MAX,
    DEPENDENCIES_MAX,
    DETAIL_LENGTH_MAX,
    EVIDENCE_MAX,
    ID_LENGTH_MAX,
    ITERATIONS_MAX,
    LINE_LENGTH_MAX,
    PHASES_MAX,
    PROMPT_LENGTH_MAX,
    REASONS_MAX,
    RECOVERIES,
    REMIND_S,
    REMIND_S_MIN,
    RETRIES,
    RETRY_AFTER_S_MAX,
    RETRY_DELAY_S,
    RETRY_DELAY_S_MAX,
    REVIEWING_S,
    RUNNING_S,
    SECONDS_MAX,
    SLOTS_MAX,
    STEWARDS_MAX,
    SUMMARY_LENGTH_MAX,
    TEXT_LENGTH_MAX,
    TRIES_MAX,
)

PHASE = "default"
Line = Annotated[str, Field(min_length=1, max_length=LINE_LENGTH_MAX)]
Text = Annotated[str, Field(max_length=TEXT_LENGTH_MAX)]
Detail = Annotated[str, Field(max_length=DETAIL_LENGTH_MAX)]
Summary = Annotated[str, Field(max_length=SUMMARY_LENGTH_MAX)]
JobId = Annotated[
    str,
    Field(
        max_length=ID_LENGTH_MAX,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._~-]*(/[A-Za-z0-9][A-Za-z0-9._~-]*)+$",
    ),
]
Seconds = Annotated[int, Field(ge=1, le=SECONDS_MAX)]
Count = Annotated[int, Field(ge=0)]
Runs = Annotated[int, Field(ge=1, le=ITERATIONS_MAX)]
Tries = Annotated[int, Field(ge=0, le=TRIES_MAX)]
RetryDelay = Annotated[int, Field(ge=1, le=RETRY_DELAY_S_MAX)]
Remind = Annotated[int, Field(ge=REMIND_S_MIN, le=SECONDS_MAX)]
Acceptance = Annotated[list[Line], Field(max_length=ACCEPTANCE_MAX)]
Stewards = Annotated[list[Word], Field(max_length=STEWARDS_MAX)]
OnCancel = Literal["starve", "cancel"]
Command = Annotated[str, Field(min_length=1, max_length=COMMAND_LENGTH_MAX)]
Prompt = Annotated[str, Field(min_length=1, max_length=PROMPT_LENGTH_MAX)]
Micro = Annotated[int, Field(ge=0, le=COST_MICRO_MAX)]
_MINUTE = r"([01]\d|2[0-3]):[0-5]\d"
Hours = Annotated[str, Field(pattern=f"^{_MINUTE}-{_MINUTE}$", examples=["22:00-06:00"])]


class ReviewVerdict(StrEnum):
    """The decisions that a reviewer may take: the state that the job goes to."""

    APPROVAL_REQUIRED = auto()
    INTERVENTION_REQUIRED = auto()


class RunUntil(StrEnum):
    """How far a manual job goes on by itself."""

    NEXT = auto()  # it does one step, the one of its state
    GATE = auto()  # it goes on until a person must decide


class JobExecutor(Shape):
    """The executor of work or of a review: a shell command, a capability, or a model with a prompt.

    `cost_micro` is the highest cost of one call, in micro-dollars, where that is known before.
    """

    command: Command | None = None
    capability: Word | None = None
    parameters: dict[str, Any] = {}
    model: Prompt | None = None
    cost_micro: Micro = 0

    @model_validator(mode="after")
    def _is_one(self) -> JobExecutor:
        kinds = (self.command, self.capability, self.model)
        if sum(kind is not None for kind in kinds) != 1:
            raise ValueError("name one of command, capability and model")
        if self.parameters and self.capability is None:
            raise ValueError("parameters are for a capability")
        return self


class JobPhase(Shape):
    """One part of a job's work; its worker runs after the worker of the phase before."""

    name: Word = PHASE
    worker: JobExecutor


class JobLimits(Shape):
    """The limits of a job: money in micro-dollars, time at work in s, runs of workers."""

    cost_micro: Micro | None = None
    time_s: Seconds | None = None
    iterations: Runs | None = None


class NewJob(Shape):
    """A job as a producer submits it. A `hold` job stays a draft until a person activates it.

    `depends_on` names jobs by their whole ids. A `manual` job does a step when a person says so.
    `stewards` may decide; where none is named, everybody may. When a dependency is lost, the job
    starves or is canceled (`on_cancel`). Its worker starts in its `hours` of the day only, in UTC.
    Its commands run in `folder`; it keeps its files in `dir`; both are on the computer `host`. A
    worker or reviewer without a sign of life for `running_s` or `reviewing_s` is started again, at
    most `recoveries_max` times in a row; one that asks to be tried again, at most `retries_max`
    times.
    """

    description: Text = ""
    objective: Text = ""
    details: Text = ""
    acceptance: Acceptance = []
    tags: Tags = []
    depends_on: Annotated[list[JobId], Field(max_length=DEPENDENCIES_MAX)] = []
    phases: Annotated[list[JobPhase], Field(min_length=1, max_length=PHASES_MAX)]
    review: JobExecutor | None = None
    auto_approve: bool = False
    manual: bool = False
    hold: bool = False
    queue: Word | None = None
    hours: Hours | None = None
    stewards: Stewards = []
    on_cancel: OnCancel = "starve"
    limits: JobLimits = JobLimits()
    folder: Line | None = None
    dir: Line | None = None
    host: Line | None = None
    running_s: Seconds = RUNNING_S
    reviewing_s: Seconds = REVIEWING_S
    recoveries_max: Tries = RECOVERIES
    retries_max: Tries = RETRIES
    retry_delay_s: RetryDelay = RETRY_DELAY_S
    remind_s: Remind = REMIND_S

    @model_validator(mode="after")
    def _differ(self) -> NewJob:
        refuse_twins(self)
        return self


def refuse_twins(job: Any) -> None:
    """Refuse two phases of one name, and a dependency named twice. Raises ValueError."""
    lists = {"two phases are called": [phase.name for phase in job.phases or ()]}
    lists["it depends twice on"] = job.depends_on or []
    for problem, names in lists.items():
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            raise ValueError(f"{problem} {twice!r}")


class _ChangedJob(Shape):
    @model_validator(mode="after")
    def _differ(self) -> _ChangedJob:
        refuse_twins(self)
        return self


def _optional() -> dict[str, Any]:
    """Return each field of a new job as one that may be left out."""
    found: dict[str, Any] = {}
    for name, field in NewJob.model_fields.items():
        # The files of a job, its manifest above all, stay where they are.
        if name not in ("hold", "dir", "host"):
            optional = copy(field)
            optional.default = None
            annotation: Any = field.annotation
            found[name] = (annotation | None, optional)
    return found


# The changes of a draft: any field of a new job. `no_review` removes the reviewer.
JobConfiguration: type[BaseModel] = create_model(
    "JobConfiguration",
    __base__=_ChangedJob,
    no_review=(bool, False),
    by=(Line, "person"),
    **_optional(),
)


class JobReason(Shape):
    """The reason why something happens, in words, and who decided it."""

    reason: Detail = ""
    by: Line = "person"
    code: Annotated[str, Field(max_length=CODE_LENGTH_MAX)] = ""
    detail: Detail = ""


class JobAnswer(CardAnswer):
    """A person's decision: the reason in words, and the name, which the client sets."""

    reason: Detail = ""
    by: Line = "person"


class JobRequiredReason(JobAnswer):
    """A decision with a required reason."""

    reason: Annotated[str, Field(min_length=1, max_length=DETAIL_LENGTH_MAX, pattern=r"\S")]


class NewJobLimits(CardAnswer, JobLimits):
    """The limits of a job that a person changes."""


class ChangedExecutor(CardAnswer, JobExecutor):
    """Another worker or reviewer, as JobExecutor has it."""

    rules = {
        "oneOf": [{"required": [kind]} for kind in ("command", "capability", "model")],
        "anyOf": [
            {"required": ["capability"]},
            {"properties": {"parameters": {"maxProperties": 0}}},
        ],
    }


class JobReviewAgain(JobAnswer):
    """Back to the review: with guidance, and with what the steward changes of the job."""

    objective: Text | None = None
    details: Text | None = None
    acceptance: Acceptance | None = None
    review: ChangedExecutor | None = None
    limits: NewJobLimits | None = None


class JobResubmit(JobReviewAgain):
    """Back to work, perhaps from an earlier phase; `worker` is another one for that phase."""

    phase: Word | None = None
    worker: ChangedExecutor | None = None


class JobReject(JobRequiredReason):
    """Back to work with a required reason, perhaps from an earlier phase."""

    phase: Word | None = None


class JobRestep(JobAnswer):
    """The phase to go back to."""

    phase: Word


class JobRun(JobAnswer):
    """How far the job goes on."""

    to: Annotated[RunUntil, Field(strict=False)] = RunUntil.GATE


class JobDependenciesMet(Shape):
    """The number of dependencies that ended, by the state in which they ended."""

    tally: dict[str, Count] = {}


class JobDependencyLost(Shape):
    """A dependency that will never be a success, and the state that it ended in."""

    dependency: Line
    state: Annotated[str, Field(max_length=CODE_LENGTH_MAX)]


class JobDependencyWaived(JobAnswer):
    """The lost dependency that the job no longer waits for; without a name, all of them."""

    dependency: Line | None = None


class JobSlotAwaited(Shape):
    """The slots that the job waits for: all of them are in use."""

    slots: Annotated[list[Line], Field(min_length=1, max_length=SLOTS_MAX)]


class JobScheduled(Shape):
    """The slots that the job uses, and how long it may work, in ms, where its time is limited."""

    slots: Annotated[list[Line], Field(max_length=SLOTS_MAX)] = []
    time_left_ms: Annotated[int, Field(ge=1, le=SECONDS_MAX * 1_000)] | None = None


class JobEvidence(Shape):
    """A file that shows what was done: its path below the job's directory, its hash, its size."""

    path: Line
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    bytes: Count


class JobWorkDone(Shape):
    """The report of a worker or reviewer about its work."""

    summary: Summary = ""
    evidence: Annotated[list[JobEvidence], Field(max_length=EVIDENCE_MAX)] = []


class JobStuck(JobWorkDone):
    """The reason why the worker cannot go on without a person."""

    code: Annotated[str, Field(max_length=CODE_LENGTH_MAX)] = ""
    detail: Detail = ""


class JobRetry(JobWorkDone):
    """The worker or reviewer asks to be tried again after a while."""

    retry_after_s: Annotated[int, Field(ge=0, le=RETRY_AFTER_S_MAX)] | None = None


class JobPause(JobReason):
    """The length of a pause or suspension; without `for_s`, until a person ends it."""

    for_s: Seconds | None = None


class JobReviewCompleted(JobWorkDone):
    """The reviewer's verdict and its reasons."""

    verdict: ReviewVerdict
    reasons: Annotated[list[Detail], Field(max_length=REASONS_MAX)] = []


class JobLimitReached(Shape):
    """The limit that was reached, of the job or of its graph, and how much of it was used."""

    limit: Literal["cost", "time", "iterations"]
    of: Literal["job", "graph"] = "job"
    used: Annotated[float, Field(ge=0)] = 0
    allowed: Annotated[float, Field(ge=0)] = 0
