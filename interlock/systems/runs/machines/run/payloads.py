"""The payloads of a run: for its creation, and for its triggers. Money is in micro-dollars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from pydantic import Field

from interlock import Shape
from interlock.systems.runs.machines import limits
from interlock.systems.runs.machines.values import (
    Detail,
    FreshStart,
    Micro,
    Path,
    Sha,
    StartingConditions,
)


class RunCostsData(TypedDict):
    """The cost of runs, and the money that was spent on them."""

    cost: int
    spent: int


class RunSourceData(TypedDict):
    """The checkpoint of an earlier run from which a run goes on."""

    run_id: str
    after_codon: str
    checkpoint_sha: str


class RunStartData(TypedDict):
    """How a run begins. Only a continuation has the other fields."""

    kind: Literal["fresh", "continuation"]
    source: NotRequired[RunSourceData]
    reason: NotRequired[str]
    restores: NotRequired[bool]


class RunEndData(TypedDict):
    """Why a run ended: `code` and `detail` if its supervisor was lost."""

    reason: NotRequired[str]
    codon: NotRequired[str]
    code: NotRequired[str]
    detail: NotRequired[str]


class RunData(TypedDict):
    """The data of a run. `stop` says why a person wants it to end."""

    plan: Mapping[str, Any]
    folder: str
    host: str
    starting: RunStartData
    done: Sequence[Mapping[str, Any]]
    before: RunCostsData
    initial_checkpoint: NotRequired[str]
    left_out: NotRequired[Sequence[str]]
    rescued: NotRequired[str | None]
    stop: NotRequired[str]
    ended: NotRequired[RunEndData]


class CostsBefore(Shape):
    """The cost of a workspace before the run, and the money that was spent there."""

    cost: Micro = 0
    spent: Micro = 0


class NewRun(Shape):
    """A stored plan, the folder and its host, and what the run begins with.

    `done` are executions of the plan's codons that count already, oldest first: those that a
    continued run goes on from.
    """

    plan: dict[str, Any]
    folder: Path
    host: Annotated[str, Field(max_length=limits.HOST_LENGTH_MAX)] = ""
    starting: StartingConditions = FreshStart()
    done: Annotated[tuple[dict[str, Any], ...], Field(max_length=limits.EXECUTIONS_MAX)] = ()
    before: CostsBefore = CostsBefore()


class RunEnd(Shape):
    """The reason why the run ends, and in which codon."""

    reason: Detail = ""
    codon: Annotated[str, Field(max_length=limits.NAME_LENGTH_MAX)] = ""


class RunCrash(Shape):
    """The way in which the supervisor was lost, as a code and in words."""

    code: Annotated[str, Field(max_length=limits.CODE_LENGTH_MAX)] = ""
    detail: Detail = ""


class RunInitialCheckpoint(Shape):
    """The workspace as the run begins with it; `left_out` are paths that no checkpoint can hold.

    `rescued` is the checkpoint of the workspace before it was reset to this one.
    """

    sha: Sha
    rescued: Sha | None = None
    left_out: Annotated[tuple[str, ...], Field(max_length=limits.LEFT_OUT_MAX)] = ()


class RunStopRequested(Shape):
    """The reason why a person stops the run."""

    reason: Detail = ""
