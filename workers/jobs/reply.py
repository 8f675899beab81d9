"""What a worker or reviewer of a job may answer, as models and as the JSON schema people see."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, Any, BinaryIO

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from interlock.kernel.machines.jobs.job.names import ReviewVerdict, State
from interlock.kernel.machines.jobs.job.payloads import EVIDENCE_MAX
from interlock.workers.files.folder import problem_of_path
from interlock.workers.text import sentence

REPLY_BYTES_MAX = 256 * 1024
PAUSE_S = 60
RETRY_S_MAX = 86_400


def _named(names: type[StrEnum]) -> tuple[Any, Any]:
    """Return what checks a published name, which is in capitals, and how a schema shows it."""
    known = [one.name for one in names]

    def check(name: str) -> str:
        if name not in known:
            raise ValueError(f"{sentence(name, length_max=40)!r} is none of {', '.join(known)}")
        return name

    return AfterValidator(check), WithJsonSchema({"type": "string", "enum": known})


Status = Annotated[str, *_named(State)]
Ruling = Annotated[str, *_named(ReviewVerdict)]


class Action(StrEnum):
    """What became of the work."""

    COMPLETED = "COMPLETED"
    STUCK = "STUCK"
    RETRY = "RETRY"


class ReplyError(ValueError):
    """A reply cannot be taken. The message names each fault and what would be right."""


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")


class WorkerReply(_Closed):
    """What a worker answers. Evidence: files below the job's directory. `cost` in US dollars.

    `status` is the state in which it believes the job to be, for people. A RETRY may say after how
    many seconds; where a provider limits the rate, it says so, and the job is paused that long.
    """

    action: Action
    summary: Annotated[str, Field(max_length=1_000)] = ""
    evidence_files: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=1_000)]], Field(max_length=EVIDENCE_MAX)
    ] = []
    status: Status | None = None
    cost: Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)] = 0
    retry_after_s: Annotated[int, Field(ge=0, le=RETRY_S_MAX)] | None = None
    rate_limited: bool = False

    @model_validator(mode="after")
    def _fits(self) -> WorkerReply:
        for path in self.evidence_files:
            if problem := problem_of_path(path):
                raise ValueError(f"evidence_files: {sentence(path, length_max=80)}: {problem}")
        if self.rate_limited and self.action is not Action.RETRY:
            raise ValueError("rate_limited: only a RETRY can say so")
        return self


class ReviewReply(WorkerReply):
    """What a reviewer answers: as a worker, and where the job goes, with the reasons."""

    verdict: Ruling | None = None
    reasons: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=8_000)]], Field(max_length=100)
    ] = []

    @model_validator(mode="after")
    def _rules(self) -> ReviewReply:
        if self.action is Action.COMPLETED and self.verdict is None:
            words = " or ".join(one.name for one in ReviewVerdict)
            raise ValueError(f"verdict: a COMPLETED review needs one: {words}")
        if self.verdict == ReviewVerdict.INTERVENTION_REQUIRED.name and not (
            self.reasons or self.summary
        ):
            raise ValueError("reasons: say why an intervention is required")
        return self


class _Metrics(_Closed):
    cumulative_cost: float
    cumulative_time_seconds: float


class _Phase(_Closed):
    phase: str
    status: Status
    summary: str


class ManifestFile(_Closed):
    """A job's manifest. The cost is in US cents."""

    job_id: str
    description: str
    status: Status
    current_phase: str
    metrics: _Metrics
    history: list[_Phase]


def schemas() -> dict[str, Any]:
    """Return the JSON schema of what is answered, and of a manifest."""
    models: dict[str, type[BaseModel]] = {
        "worker": WorkerReply,
        "reviewer": ReviewReply,
        "manifest": ManifestFile,
    }
    return {
        "states": [one.name for one in State],
        "verdicts": [one.name for one in ReviewVerdict],
        **{name: model.model_json_schema() for name, model in models.items()},
    }


def parse(model: type[WorkerReply], value: object) -> WorkerReply:
    """Check a reply. Raises ReplyError."""
    if not isinstance(value, Mapping):
        raise ReplyError(f"it is {type(value).__name__}, not a JSON object")
    try:
        return model.model_validate(dict(value))
    except ValidationError as refusal:
        faults = [_fault(one["loc"], one["msg"]) for one in refusal.errors(include_url=False)]
        raise ReplyError("; ".join(faults[:10])) from None


def read_reply(model: type[WorkerReply], file: Path) -> WorkerReply | None:
    """Read what a command wrote; None where it wrote nothing. Raises ReplyError."""
    try:
        with open_plain(file) as opened:
            content = opened.read(REPLY_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as refusal:
        raise ReplyError(f"it cannot be read: {refusal.strerror or refusal}") from None
    if not content.strip():
        return None
    if len(content) > REPLY_BYTES_MAX:
        raise ReplyError(f"it has more than {REPLY_BYTES_MAX} bytes")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as refusal:
        raise ReplyError(f"it is not JSON: {refusal}") from None
    return parse(model, value)


def open_plain(file: Path) -> BinaryIO:
    """Open a file that a command wrote. Raises OSError for what is no plain file."""
    # A pipe would keep whoever opens it waiting for ever.
    number = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    if S_ISREG(os.fstat(number).st_mode):
        return os.fdopen(number, "rb")
    os.close(number)
    raise OSError("it is no plain file")


def _fault(where: tuple[int | str, ...], problem: str) -> str:
    """Say what is wrong and where; what is about several fields names them itself."""
    told = problem.removeprefix("Value error, ")
    return f"{'.'.join(map(str, where))}: {told}" if where else told
