"""The replies of workers and reviewers: their models, their JSON schema, and how they are read."""

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
    WithJsonSchema,
    model_validator,
)

from interlock.system.files import Document, FileError, UntrustedFolder
from interlock.system.text import one_line
from interlock.systems.jobs.machines.job.limits import (
    DETAIL_LENGTH_MAX,
    EVIDENCE_MAX,
    REASONS_MAX,
    RETRY_AFTER_S_MAX,
    SUMMARY_LENGTH_MAX,
)
from interlock.systems.jobs.machines.job.names import State
from interlock.systems.jobs.machines.job.payloads import ReviewVerdict

REPLY_BYTES_MAX = 256 * 1024  # of the file in which a command replies
PAUSE_S_DEFAULT = 60  # before the next try, where the reply does not say how long


def _one_of_names(names: type[StrEnum]) -> tuple[Any, Any]:
    """Return a validator of published names, which are in capitals, and their JSON schema."""
    known = [name.name for name in names]

    def check(name: str) -> str:
        if name not in known:
            raise ValueError(f"it is none of {', '.join(known)}")
        return name

    return AfterValidator(check), WithJsonSchema({"type": "string", "enum": known})


Status = Annotated[str, *_one_of_names(State)]
Ruling = Annotated[str, *_one_of_names(ReviewVerdict)]


class ReplyAction(StrEnum):
    """How the work ended."""

    COMPLETED = "COMPLETED"
    STUCK = "STUCK"
    RETRY = "RETRY"


class ReplyError(ValueError):
    """A reply is invalid. The message names each fault, and what would be valid."""


class _ClosedShape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class WorkerReply(_ClosedShape):
    """The reply of a worker. Evidence files are below the job's directory; `cost` is in US dollars.

    `status` is the state in which the worker believes the job to be; it is only shown to people. A
    RETRY may set the seconds to wait. If it is `rate_limited`, the job is paused for that long.
    """

    action: ReplyAction
    summary: Annotated[str, Field(max_length=SUMMARY_LENGTH_MAX)] = ""
    evidence_files: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=1_000)]], Field(max_length=EVIDENCE_MAX)
    ] = []
    status: Status | None = None
    cost: Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)] = 0
    retry_after_s: Annotated[int, Field(ge=0, le=RETRY_AFTER_S_MAX)] | None = None
    rate_limited: bool = False

    @model_validator(mode="after")
    def _fits(self) -> WorkerReply:
        for path in self.evidence_files:
            if problem := UntrustedFolder.problem_of(path):
                raise ValueError(f"evidence_files: {one_line(path, length_max=80)}: {problem}")
        if self.rate_limited and self.action is not ReplyAction.RETRY:
            raise ValueError("rate_limited: only a RETRY may set it")
        return self


class ReviewReply(WorkerReply):
    """The reply of a reviewer: as a worker's, with the verdict and the reasons for it."""

    verdict: Ruling | None = None
    reasons: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=DETAIL_LENGTH_MAX)]],
        Field(max_length=REASONS_MAX),
    ] = []

    @model_validator(mode="after")
    def _rules(self) -> ReviewReply:
        if self.action is ReplyAction.COMPLETED and self.verdict is None:
            verdicts = " or ".join(verdict.name for verdict in ReviewVerdict)
            raise ValueError(f"verdict: a COMPLETED review needs one: {verdicts}")
        if self.verdict == ReviewVerdict.INTERVENTION_REQUIRED.name and not (
            self.reasons or self.summary
        ):
            raise ValueError("reasons: say why an intervention is required")
        return self


class _Metrics(_ClosedShape):
    cumulative_cost: float
    cumulative_time_seconds: float


class _Phase(_ClosedShape):
    phase: str
    status: Status
    summary: str


class ManifestFile(_ClosedShape):
    """A job's manifest. The cost is in US cents."""

    job_id: str
    description: str
    status: Status
    current_phase: str
    metrics: _Metrics
    history: list[_Phase]


def schemas() -> dict[str, Any]:
    """Return the JSON schemas of replies and manifests, with the names of states and verdicts."""
    models: dict[str, type[BaseModel]] = {
        "worker": WorkerReply,
        "reviewer": ReviewReply,
        "manifest": ManifestFile,
    }
    return {
        "states": [state.name for state in State],
        "verdicts": [verdict.name for verdict in ReviewVerdict],
        **{name: model.model_json_schema() for name, model in models.items()},
    }


def parse(model: type[WorkerReply], value: object) -> WorkerReply:
    """Check a reply. Raises ReplyError."""
    if not isinstance(value, Mapping):
        raise ReplyError(f"it is {type(value).__name__}, not a JSON object")
    try:
        return Document.of(dict(value)).model(model)
    except FileError as refusal:
        raise ReplyError(str(refusal)) from None


def read_reply(model: type[WorkerReply], file: Path) -> WorkerReply | None:
    """Read the reply of a command; None if the command wrote none. Raises ReplyError."""
    try:
        with open_plain_file(file) as opened:
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


def open_plain_file(file: Path) -> BinaryIO:
    """Open a file that a command wrote. Raises OSError if it is not a plain file."""
    # Without O_NONBLOCK, opening a pipe would block for ever.
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    if S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise OSError("it is no plain file")
