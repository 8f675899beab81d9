"""The run's states and table: published edges, an event that changes no state, then ours."""

from __future__ import annotations

from enum import StrEnum, auto

from interlock import (
    ORPHANS,
    PERSON,
    PRODUCER,
    Active,
    Ask,
    Bookkeeping,
    Machine,
    Terminal,
    Timer,
    always,
    by,
    move,
    rows,
    stay,
    validated,
)
from interlock.system.tables import Meaning, Placement, Triggers
from interlock.system.tables import RecordData as Data
from interlock.systems.runs.machines import limits
from interlock.systems.runs.machines.effects import CODON_CLEANUP, EVENTS, LAUNCH
from interlock.systems.runs.machines.run import payloads
from interlock.systems.runs.machines.run.payloads import RunData

# What a run holds while it is running: no other run of its workspace is.
SELF = "run"


class State(StrEnum):
    """The states of a run."""

    RUNNING = auto()
    COMPLETED = auto()
    FAILED = auto()
    CRASHED = auto()


class Trigger(Triggers):
    """The triggers that can be fired at a run."""

    COMPLETE = "complete", "the last codon of its plan is done", payloads.RunEnd
    FAIL = "fail", "it cannot go on", payloads.RunEnd
    CRASH = "crash", "its supervisor was lost", payloads.RunCrash
    INITIAL_CHECKPOINT_SET = (
        "initial_checkpoint_set",
        "the checkpoint that it begins with was taken: {sha}",
        payloads.RunInitialCheckpoint,
    )
    STOP_REQUESTED = "stop_requested", "a person wants it to end", payloads.RunStopRequested


def initial_data(payload: Data) -> Data:
    """Check what a run is created from and return its first data."""
    return validated(payloads.NewRun, "the run", payload)


def ended(ask: Ask[RunData]) -> Data:
    """Keep why the run ended."""
    return {**ask.data, "ended": dict(ask.payload)}


def stop_requested(ask: Ask[RunData]) -> Data:
    """Note that a person wants the run to end."""
    return {**ask.data, "stop": ask.payload.get("reason", "") or "stopped by a person"}


def initial_checkpoint_set(ask: Ask[RunData]) -> Data:
    """Keep the checkpoint that the run began with."""
    names = {"sha": "initial_checkpoint", "left_out": "left_out", "rescued": "rescued"}
    return {**ask.data, **{names[name]: value for name, value in ask.payload.items()}}


def its_host(data: RunData) -> str:
    """Return the computer on which the folder of a run is."""
    return data["host"]


def its_workspace(data: Data) -> tuple[str, ...]:
    """Return the name that only one run of a workspace holds at a time."""
    del data
    return (SELF,)


STAGES = (
    Active(
        State.RUNNING,
        (Timer("recheck", lambda _: limits.RECHECK_MS, effect=CODON_CLEANUP),),
        effect=LAUNCH,
        outcomes=(Trigger.COMPLETE, Trigger.FAIL),
        failures=(Trigger.FAIL,),
        crash=Trigger.CRASH,
        exhausted=Trigger.CRASH,
        once=always,
        holds=its_workspace,
    ),
    Terminal(State.COMPLETED, cleanup=CODON_CLEANUP, meaning=Meaning.DONE),
    Terminal(State.FAILED, cleanup=CODON_CLEANUP, meaning=Meaning.FAILED),
    Terminal(State.CRASHED, cleanup=CODON_CLEANUP, meaning=Meaning.FAILED),
)

# Why a row is ours.
AN_EVENT = "the page's event: it changes what is known of the run, and no state"
ASKED = "a person asks; its supervisor takes a checkpoint and ends the codon at work"

# fmt: off
TRANSITIONS = (
    *rows(State.RUNNING,
        move(Trigger.COMPLETE, State.COMPLETED, by(LAUNCH), update=ended),
        move(Trigger.FAIL, State.FAILED, by(LAUNCH, EVENTS, PERSON, PRODUCER), update=ended),
        move(Trigger.CRASH, State.CRASHED, by(ORPHANS, EVENTS), update=ended),
        stay(Trigger.INITIAL_CHECKPOINT_SET, by(LAUNCH, EVENTS), ours=AN_EVENT,
             update=initial_checkpoint_set),
        stay(Trigger.STOP_REQUESTED, by(PERSON, PRODUCER), ours=ASKED,
             update=stop_requested, interrupts=True),
    ),
)
# fmt: on

RUN = Machine(
    name="run",
    stages=STAGES,
    transitions=TRANSITIONS,
    says=Trigger.sentences(created="a run of its plan was started"),
    initial_data=initial_data,
    payloads=Trigger.payloads(),
    cancel_triggers=(Trigger.STOP_REQUESTED,),
    placement=Placement(
        id_prefix=("workspace",),
        commands=("plan",),
        id_pattern=r"[A-Za-z0-9][A-Za-z0-9._~-]*/[1-9][0-9]{0,8}",
        id_in_words="write it as <workspace>/<its number>",
        needs_parent=True,
        host=its_host,
    ),
    bookkeeping=Bookkeeping(in_family_log=True),
)
