"""The payloads, levels and table of an agent's identity.

The levels and what leads from one to the next are those that trust.py names; no page publishes them
as a table, so each row is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum, auto
from typing import Annotated, TypedDict

from pydantic import Field

from interlock import (
    PERSON,
    STALLS,
    Ask,
    Machine,
    Shape,
    Terminal,
    Timer,
    Waiting,
    by,
    move,
    reenter,
    rows,
    validated,
)
from interlock.system.tables import Placement, Triggers
from interlock.system.tables import RecordData as Data
from interlock.systems.tasks.machines.effects import FOLLOW_UP
from interlock.systems.tasks.machines.identity import limits
from interlock.systems.tasks.machines.trust import Trust, earned

Line = Annotated[str, Field(min_length=1, max_length=limits.LINE_LENGTH_MAX)]


class State(StrEnum):
    """The states of an identity: the levels of trust, and out of service."""

    UNTRUSTED = Trust.UNTRUSTED.value
    PROBATIONARY = Trust.PROBATIONARY.value
    TRUSTED = Trust.TRUSTED.value
    ELEVATED = Trust.ELEVATED.value
    RETIRED = auto()


LEVELS = (State.UNTRUSTED, State.PROBATIONARY, State.TRUSTED, State.ELEVATED)


class NewIdentity(Shape):
    """The name, role and command of an agent: the same ones are the same agent, at each start."""

    name: Line
    role: Line
    command: Annotated[str, Field(max_length=limits.LINE_LENGTH_MAX)] = ""


class IdentityData(TypedDict):
    """The data of an identity: who it is, and the counts of its track record."""

    name: str
    role: str
    command: str
    successes: int
    failures: int
    violations: int


class IdentityOutcome(Shape):
    """The task that succeeded, failed or was violated, for people."""

    task: Line
    reason: Annotated[str, Field(max_length=limits.LINE_LENGTH_MAX)] = ""


class IdentityReason(Shape):
    """The reason why something happened, in words."""

    reason: Annotated[str, Field(max_length=limits.LINE_LENGTH_MAX)] = ""


class Trigger(Triggers):
    """The triggers that can be fired at an identity."""

    SUCCEEDED = "succeeded", "its work on {task} was verified and merged", IdentityOutcome
    FAILED = "failed", "its work on {task} failed", IdentityOutcome
    VIOLATED = "violated", "it changed files that {task} does not own", IdentityOutcome
    UNUSED = "unused", f"it did not work for {limits.UNUSED_DAYS} days", IdentityReason
    PROMOTED = "promoted", "a person vouched for it", IdentityReason
    RETIRED = "retired", "a person took it out of service", IdentityReason


def initial_data(payload: Data) -> Data:
    """Check who it is and return its first data: an empty track record."""
    data = validated(NewIdentity, "the identity", payload)
    return {**data, "successes": 0, "failures": 0, "violations": 0}


def earns(level: Trust) -> Callable[[Ask[IdentityData]], bool]:
    """Return the guard that asks whether one more success lifts an identity out of this level."""
    return lambda ask: earned(level, ask.data["successes"] + 1)


def succeeded(ask: Ask[IdentityData]) -> Data:
    """Count a success. `successes` counts those since the last violation.

    If older ones counted, the next success would undo a demotion. If none ever counted again after
    one violation, a long good record would be wasted.
    """
    return {**ask.data, "successes": ask.data["successes"] + 1}


def failed(ask: Ask[IdentityData]) -> Data:
    """Count a failure; it costs no trust."""
    return {**ask.data, "failures": ask.data["failures"] + 1}


def violated(ask: Ask[IdentityData]) -> Data:
    """Count a violation, and count successes anew."""
    return {**ask.data, "successes": 0, "violations": ask.data["violations"] + 1}


def lapsed(ask: Ask[IdentityData]) -> Data:
    """Count successes anew: trust that was not used must be earned again."""
    return {**ask.data, "successes": 0}


def at_rest(state: State, trigger: Trigger | None) -> Waiting:
    """Return a level, which an identity leaves by what its agents do and after long disuse."""
    return Waiting(state, (Timer("unused", lambda _: limits.UNUSED_DAYS * 86_400_000, trigger),))


STAGES = (
    at_rest(State.UNTRUSTED, None),
    at_rest(State.PROBATIONARY, Trigger.UNUSED),
    at_rest(State.TRUSTED, Trigger.UNUSED),
    at_rest(State.ELEVATED, Trigger.UNUSED),
    Terminal(State.RETIRED),
)

# Why a row is ours.
EARNED = "the page says that trust grows with reliability; Bernstein's code has the numbers"
LOST = "the page says that permissions are restricted; in Bernstein's code by a level at once"
LAPSED = f"trust that was not used for {limits.UNUSED_DAYS} days is one level lower"
VOUCHED = "a person may vouch for an agent, or take it out of service"

# fmt: off
TRANSITIONS = (
    *rows(State.UNTRUSTED,
        move(Trigger.SUCCEEDED, State.PROBATIONARY, by(FOLLOW_UP), ours=EARNED, update=succeeded),
    ),
    *rows(State.PROBATIONARY,
        move(Trigger.SUCCEEDED, State.TRUSTED, by(FOLLOW_UP), ours=EARNED,
             guard=earns(Trust.PROBATIONARY), update=succeeded),
        reenter(Trigger.SUCCEEDED, by(FOLLOW_UP), ours=EARNED, update=succeeded),
    ),
    *rows(State.TRUSTED,
        move(Trigger.SUCCEEDED, State.ELEVATED, by(FOLLOW_UP), ours=EARNED,
             guard=earns(Trust.TRUSTED), update=succeeded),
        reenter(Trigger.SUCCEEDED, by(FOLLOW_UP), ours=EARNED, update=succeeded),
    ),
    *rows(State.ELEVATED,
        reenter(Trigger.SUCCEEDED, by(FOLLOW_UP), ours=EARNED, update=succeeded),
    ),
    *rows(LEVELS,
        reenter(Trigger.FAILED, by(FOLLOW_UP), ours=EARNED, update=failed),
    ),
    *rows(State.UNTRUSTED,
        reenter(Trigger.VIOLATED, by(FOLLOW_UP), ours=LOST, update=violated),
    ),
    *rows(State.PROBATIONARY,
        move(Trigger.VIOLATED, State.UNTRUSTED, by(FOLLOW_UP), ours=LOST, update=violated),
    ),
    *rows(State.TRUSTED,
        move(Trigger.VIOLATED, State.PROBATIONARY, by(FOLLOW_UP), ours=LOST, update=violated),
    ),
    *rows(State.ELEVATED,
        move(Trigger.VIOLATED, State.TRUSTED, by(FOLLOW_UP), ours=LOST, update=violated),
    ),
    *rows(State.PROBATIONARY,
        move(Trigger.UNUSED, State.UNTRUSTED, by(STALLS), ours=LAPSED, update=lapsed),
    ),
    *rows(State.TRUSTED,
        move(Trigger.UNUSED, State.PROBATIONARY, by(STALLS), ours=LAPSED, update=lapsed),
    ),
    *rows(State.ELEVATED,
        move(Trigger.UNUSED, State.TRUSTED, by(STALLS), ours=LAPSED, update=lapsed),
    ),
    *rows(State.UNTRUSTED, move(Trigger.PROMOTED, State.PROBATIONARY, by(PERSON), ours=VOUCHED)),
    *rows(State.PROBATIONARY, move(Trigger.PROMOTED, State.TRUSTED, by(PERSON), ours=VOUCHED)),
    *rows(State.TRUSTED, move(Trigger.PROMOTED, State.ELEVATED, by(PERSON), ours=VOUCHED)),
    *rows(LEVELS, move(Trigger.RETIRED, State.RETIRED, by(PERSON), ours=VOUCHED)),
)
# fmt: on

IDENTITY = Machine(
    name="identity",
    stages=STAGES,
    transitions=TRANSITIONS,
    says=Trigger.sentences(created="it claimed a task for the first time"),
    initial_data=initial_data,
    payloads=Trigger.payloads(),
    cancel_triggers=(Trigger.RETIRED,),
    placement=Placement(id_prefix=("backlog",)),
)
