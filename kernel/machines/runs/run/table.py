"""The run's table: the published edges, the published event that changes no state, then ours."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import Annotated, Any

from pydantic import Field

from interlock.kernel.machine import Machine
from interlock.kernel.machines.runs.effects import CLEARANCE, CONDUCTOR
from interlock.kernel.machines.runs.values import (
    Detail,
    FreshStart,
    Micro,
    Path,
    Sha,
    StartingConditions,
)
from interlock.kernel.payload import Shape, validated
from interlock.kernel.table import Active, Ask, Data, Loop, Terminal, Timer, Transition

# What a run holds while it runs: no other of its workspace does.
SELF = "run"
RECHECK_MS = 3_600_000
EXECUTIONS_MAX = 10_000


class S(StrEnum):
    """Where a run can stand."""

    RUNNING = auto()
    COMPLETED = auto()
    FAILED = auto()
    CRASHED = auto()


class T(StrEnum):
    """What can be fired at a run."""

    COMPLETE = auto()
    FAIL = auto()
    CRASH = auto()
    INITIAL_CHECKPOINT_SET = auto()
    STOP_REQUESTED = auto()


class CostsBefore(Shape):
    """What a workspace had cost, and what was spent there, in micro-dollars."""

    cost: Micro = 0
    spent: Micro = 0


class NewRun(Shape):
    """What a run begins with: a stored plan, its folder, machine, and what others have cost.

    `done` are the executions of the plan's codons that count already, oldest first: what a
    continuation goes on from. `before` is what the workspace had cost and spent when it began.
    """

    plan: dict[str, Any]
    folder: Path
    host: Annotated[str, Field(max_length=255)] = ""
    starting: StartingConditions = FreshStart()
    done: Annotated[tuple[dict[str, Any], ...], Field(max_length=EXECUTIONS_MAX)] = ()
    before: CostsBefore = CostsBefore()


class RunEnd(Shape):
    """Why it ends, where that is to be said, and in which codon."""

    reason: Detail = ""
    codon: Annotated[str, Field(max_length=200)] = ""


class RunCrash(Shape):
    """What is known of who conducted it."""

    code: Annotated[str, Field(max_length=100)] = ""
    detail: Detail = ""


class RunInitialCheckpoint(Shape):
    """The workspace as the run begins with it, and what of it no checkpoint can hold.

    `rescued` is what it was before it was brought back to there.
    """

    sha: Sha
    rescued: Sha | None = None
    left_out: Annotated[tuple[str, ...], Field(max_length=1_000)] = ()


class RunStopRequested(Shape):
    """Why a person stops it."""

    reason: Detail = ""


def birth(payload: Data) -> Data:
    """Check what a run begins with."""
    return validated(NewRun, "the run", payload)


def ended(ask: Ask) -> Data:
    """Keep why it ended."""
    return {**ask.data, "ended": dict(ask.payload)}


def stop_requested(ask: Ask) -> Data:
    """Note that a person wants it to end."""
    return {**ask.data, "stop": ask.payload.get("reason", "") or "stopped by a person"}


def initial_checkpoint_set(ask: Ask) -> Data:
    """Keep what it began with."""
    names = {"sha": "initial_checkpoint", "left_out": "left_out", "rescued": "rescued"}
    return {**ask.data, **{names[name]: value for name, value in ask.payload.items()}}


def its_place(data: Data) -> tuple[str, ...]:
    """Hold the workspace: no other run is at work there."""
    del data
    return (SELF,)


STAGES = (
    Active(
        S.RUNNING,
        (Timer("recheck", lambda _: RECHECK_MS, effect=CLEARANCE),),
        effect=CONDUCTOR,
        outcomes=(T.COMPLETE, T.FAIL),
        crash=T.CRASH,
        exhausted=T.CRASH,
        once=lambda _: True,
        holds=its_place,
    ),
    Terminal(S.COMPLETED, clears=CLEARANCE),
    Terminal(S.FAILED, clears=CLEARANCE),
    Terminal(S.CRASHED, clears=CLEARANCE),
)
AN_EVENT = "the page's event: it changes what is known of the run, and no state"
ASKED = "a person asks; its conductor ends what is at work, and takes a checkpoint before"


def by(*names: str) -> tuple[str, ...]:
    """Name who fires a row in the running system."""
    return names


# fmt: off
TRANSITIONS = (
    Transition(S.RUNNING, T.COMPLETE,               S.COMPLETED, update=ended,                  by=by("conductor")),
    Transition(S.RUNNING, T.FAIL,                   S.FAILED,    update=ended,                  by=by("conductor", "events", "person", "producer")),
    Transition(S.RUNNING, T.CRASH,                  S.CRASHED,   update=ended,                  by=by("orphans", "events")),
    Transition(S.RUNNING, T.INITIAL_CHECKPOINT_SET, S.RUNNING,   update=initial_checkpoint_set, loop=Loop.INTERNAL, by=by("conductor", "events"), ours=AN_EVENT),
    Transition(S.RUNNING, T.STOP_REQUESTED,         S.RUNNING,   update=stop_requested, loop=Loop.INTERNAL, interrupts=True, by=by("person", "producer"), ours=ASKED),
)
# fmt: on

RUN = Machine(
    name="run",
    stages=STAGES,
    transitions=TRANSITIONS,
    initial_data=birth,
    payloads={
        T.COMPLETE: RunEnd,
        T.FAIL: RunEnd,
        T.CRASH: RunCrash,
        T.INITIAL_CHECKPOINT_SET: RunInitialCheckpoint,
        T.STOP_REQUESTED: RunStopRequested,
    },
    cancel_triggers=(T.STOP_REQUESTED,),
    host=lambda data: str(data["host"]),
    id_prefix=("workspace",),
    id_format=(
        r"[A-Za-z0-9][A-Za-z0-9._~-]*/[1-9][0-9]{0,8}",
        "write it as <workspace>/<its number>",
    ),
    needs_parent=True,
    in_family_log=True,
)
